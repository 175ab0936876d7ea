package io.mooring

import java.util.{Collections, Map => JMap, Set => JSet}

import io.mooring.common.Names
import io.mooring.driver.Driver
import io.mooring.standby.{Copies, CopyOrders, Round, Standbys}
import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset}
import org.apache.spark.sql.execution.streaming.state.shims.CheckpointAccess
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.{IntegerType, LongType, StringType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/**
 * `format("mooring-standby")`: the copies of a running query's state, as a stream. A batch of it is one round: after
 * the watched query has committed, or some seconds after others were to hold its copies (`Watched.round`), every executor
 * that holds some is asked to bring them up to date, and answers with one row for each. Option `query` is the id of the watched query.
 */
final class StandbySource extends TableProvider with DataSourceRegister {
  override def shortName(): String = Names.StandbySource
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = StandbySource.Schema

  override def getTable(schema: StructType, partitioning: Array[Transform], properties: JMap[String, String]): Table =
    new StandbyTable(Option(new CaseInsensitiveStringMap(properties).get(Names.StandbyQuery)).getOrElse(
      throw new IllegalArgumentException(s"${Names.StandbySource}: the option ${Names.StandbyQuery} is missing: the id of a running query")))
}

object StandbySource {
  /** One row for each copy; `version` is the last that was whole when the round began, -1 for none. */
  val Schema: StructType = new StructType().add("partition", IntegerType, nullable = false)
    .add("executor", StringType, nullable = false).add("wanted", LongType, nullable = false)
    .add("version", LongType, nullable = false).add("bytes", LongType, nullable = false)
}

private final class StandbyTable(query: String) extends Table with SupportsRead {
  override def name(): String = s"${Names.StandbySource} $query"
  override def schema(): StructType = StandbySource.Schema
  override def capabilities(): JSet[TableCapability] = Collections.singleton(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new Scan {
    override def readSchema(): StructType = StandbySource.Schema
    override def description(): String = name()
    override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = new StandbyStream(query)
  }
}

private final class StandbyStream(query: String) extends MicroBatchStream {
  @volatile private var newest = Round.Nothing

  private def standbys: Standbys = Driver.current.flatMap(_.standbys)
    .getOrElse(throw new IllegalStateException("this driver keeps no standbys"))

  override def initialOffset(): Offset = Round.Nothing
  override def deserializeOffset(json: String): Offset = Round.parse(json)

  /** Waits for the next round, a second at most; Spark asks again at once. */
  override def latestOffset(): Offset = {
    newest = standbys.awaitRound(query, newest)
    newest
  }

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = standbys.orders(query).toArray
  override def createReaderFactory(): PartitionReaderFactory = new CopyReaderFactory(query, standbys.access(query))
  override def commit(end: Offset): Unit = ()
  override def stop(): Unit = ()
}

private final class CopyReaderFactory(query: String, access: CheckpointAccess) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val CopyOrders(executor, _, orders) = partition.asInstanceOf[CopyOrders]
    // Spark may have sent it elsewhere, when the executor was busy for long; the next round finds it.
    val copies = Copies.ofThisExecutor.filter(_ => SparkEnv.get.executorId == executor)
    val wanted = orders.map(order => order.partition -> order.version).toMap
    val rows = copies.toSeq.flatMap(_.order(query, orders, access)).map { copy =>
      new GenericInternalRow(Array[Any](copy.partition, UTF8String.fromString(executor), wanted(copy.partition), copy.version, copy.bytes))
    }.iterator
    new PartitionReader[InternalRow] {
      private var row: InternalRow = _
      override def next(): Boolean = {
        val more = rows.hasNext
        if (more) row = rows.next()
        more
      }
      override def get(): InternalRow = row
      override def close(): Unit = ()
    }
  }
}
