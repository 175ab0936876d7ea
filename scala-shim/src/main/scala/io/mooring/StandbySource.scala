package io.mooring

import java.util.{Collections, Map => JMap, Set => JSet}

import io.mooring.common.{Names, OrdinaryEnd}
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
 * `format("mooring-standby")`: a streaming source whose rows are the states of the copies of a running query. The replica query reads it.
 * Its option `query` is the id of the query that is copied.
 *
 * One batch is one round (`CopiedQuery.round`): after a commit of the copied query, or after a change of the holders of its copies. In a round,
 * each executor that holds copies gets orders to bring them up to date, and answers with one row for each copy. The
 * rows are only for people who look at the query: the driver learns the state of the copies from `ExecutorReports`.
 *
 * Threads: the replica query's thread on the driver; its tasks on the executors. Uses Spark's public API for data sources.
 */
final class StandbySource extends TableProvider with DataSourceRegister {
  override def shortName(): String = Names.StandbySource
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = StandbySource.Schema

  override def getTable(schema: StructType, partitioning: Array[Transform], properties: JMap[String, String]): Table =
    new StandbyTable(Option(new CaseInsensitiveStringMap(properties).get(Names.StandbyQuery)).getOrElse(
      throw new IllegalArgumentException(s"${Names.StandbySource}: the option ${Names.StandbyQuery} is missing: the id of a running query")))
}

object StandbySource {
  /** One row for each copy. `version` is the copy's last complete version when the round began, -1 for none; `wanted` is the ordered version. */
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

  /** InterruptedException while the application ends: of a query that is being stopped, Spark logs no such error. */
  private def standbys: Standbys = Driver.current.flatMap(_.standbys).getOrElse(throw (
    if (OrdinaryEnd.isUnderWay) new InterruptedException("the application ends") else new IllegalStateException("this driver keeps no standbys")))

  override def initialOffset(): Offset = Round.Nothing
  override def deserializeOffset(json: String): Offset = Round.parse(json)

  /** Waits for the next round, for a second at most. Spark calls this again at once. */
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
    // Spark may have sent the task to another executor, when this one was busy for long. The next round orders the copies again.
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
