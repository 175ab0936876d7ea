package org.apache.spark.sql.lines // for what a source of Spark's first API needs to make its batches

import java.nio.file.{Files, Path, StandardOpenOption}
import java.util.{Map => JavaMap, Set => JavaSet}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, SQLContext}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset => OffsetV2, ReadLimit, ReadMaxRows, SupportsAdmissionControl}
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.sources.StreamSourceProvider
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The file of `lines_source.py`, its notes and gates. */
final class Lines(directory: String) extends Serializable {
  private def file(name: String) = Path.of(directory, name)

  def rows: Seq[(Long, Long)] =
    if (!Files.exists(file("rows"))) Nil
    else Files.readAllLines(file("rows")).asScala.toSeq.map { line =>
      val Array(key, ms) = line.stripPrefix("[").stripSuffix("]").split(",").map(_.trim.toLong)
      (key, ms)
    }

  def internal(start: Int, end: Int): Seq[InternalRow] =
    rows.slice(start, end).map { case (key, ms) => InternalRow(key, ms * 1000) }

  def note(method: String, start: Option[Int], end: Option[Int], limit: String = ""): Unit = {
    def json(number: Option[Int]) = number.fold("null")(_.toString)
    Files.writeString(file("calls"), s"""["$method", ${json(start)}, ${json(end)}, "$limit"]\n""",
      StandardOpenOption.CREATE, StandardOpenOption.APPEND)
    ()
  }

  def passGate(gate: String): Unit = while (Files.exists(file(s"$gate.gate"))) {
    Files.writeString(file(s"$gate.held"), "")
    Thread.sleep(20)
  }
}

object Lines {
  val Step = 50
  val Schema: StructType = StructType.fromDDL("key LONG, time TIMESTAMP")
}

final case class LineOffset(line: Int) extends Offset {
  override def json(): String = s"""{"line": $line}"""
}

object LineOffset {
  def of(offset: OffsetV2): Int = offset.json().filter(_.isDigit).toInt
}

/** How a source says up to where it can be read, by either API. */
trait Asked {
  def lines: Lines
  protected var mark: Option[Int] = None

  def answer(start: Option[OffsetV2], limit: ReadLimit): LineOffset = {
    lines.passGate("ask")
    if (mark.isDefined) lines.passGate("bounded")
    val from = start.map(LineOffset.of)
    val newest = mark.map(math.max(_, from.getOrElse(0))).getOrElse(lines.rows.size)
    val end = limit match {
      case rows: ReadMaxRows => math.min(newest.toLong, from.getOrElse(0) + rows.maxRows).toInt
      case _ => newest
    }
    lines.note("ask", from, Some(end), limit.getClass.getSimpleName)
    LineOffset(end)
  }

  def prepare(): Unit = {
    lines.note("prepare", None, None)
    mark = Some(lines.rows.size)
  }
}

class SourceV1(spark: SparkSession, override val lines: Lines) extends Source with Asked {
  override def schema: StructType = Lines.Schema
  override def getOffset: Option[Offset] = Some(answer(None, ReadLimit.allAvailable())).filter(_.line > 0)
  override def getBatch(start: Option[Offset], end: Offset): DataFrame = {
    lines.passGate("plan")
    val from = start.map(LineOffset.of)
    lines.note("plan", from, Some(LineOffset.of(end)))
    val rows = lines.internal(from.getOrElse(0), LineOffset.of(end))
    Dataset.ofRows(spark, LocalRelation(toAttributes(schema), rows, isStreaming = true))
  }
  override def commit(end: Offset): Unit = lines.note("commit", None, Some(LineOffset.of(end)))
  override def stop(): Unit = lines.note("stop", None, None)
}

class LimitedV1(spark: SparkSession, lines: Lines) extends SourceV1(spark, lines) with SupportsAdmissionControl {
  override def getOffset: Option[Offset] = throw new UnsupportedOperationException("latestOffset is asked instead")
  override def getDefaultReadLimit: ReadLimit = ReadLimit.maxRows(Lines.Step)
  override def latestOffset(start: OffsetV2, limit: ReadLimit): OffsetV2 = {
    val found = answer(Option(start), limit)
    if (found.line == 0) null else found
  }
}

class BoundedV1(spark: SparkSession, lines: Lines) extends LimitedV1(spark, lines) with SupportsTriggerAvailableNow {
  override def prepareForTriggerAvailableNow(): Unit = prepare()
}

class LinesV1 extends StreamSourceProvider {
  override def sourceSchema(
      context: SQLContext, schema: Option[StructType], name: String, options: Map[String, String]): (String, StructType) =
    ("lines", Lines.Schema)
  override def createSource(
      context: SQLContext, path: String, schema: Option[StructType], name: String, options: Map[String, String]): Source = {
    val (spark, lines) = (context.sparkSession.asInstanceOf[SparkSession], new Lines(options("directory")))
    options("kind") match {
      case "v1" => new SourceV1(spark, lines)
      case "v1, admission" => new LimitedV1(spark, lines)
      case "v1, available now" => new BoundedV1(spark, lines)
    }
  }
}

final case class Part(start: Int, end: Int) extends InputPartition

class StreamV2(override val lines: Lines) extends MicroBatchStream with Asked {
  override def initialOffset(): OffsetV2 = LineOffset(0)
  override def deserializeOffset(json: String): OffsetV2 = LineOffset(json.filter(_.isDigit).toInt)
  override def latestOffset(): OffsetV2 = answer(None, ReadLimit.allAvailable())
  override def planInputPartitions(start: OffsetV2, end: OffsetV2): Array[InputPartition] = {
    lines.passGate("plan")
    val (from, until) = (LineOffset.of(start), LineOffset.of(end))
    lines.note("plan", Some(from), Some(until))
    Array(Part(from, until))
  }
  override def createReaderFactory(): PartitionReaderFactory = {
    val source = lines
    new LinesReaders(source)
  }
  override def commit(end: OffsetV2): Unit = lines.note("commit", None, Some(LineOffset.of(end)))
  override def stop(): Unit = lines.note("stop", None, None)
}

class LinesReaders(lines: Lines) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val Part(start, end) = partition
    val rows = lines.internal(start, end).iterator
    new PartitionReader[InternalRow] {
      private var row: InternalRow = _
      override def next(): Boolean = { if (rows.hasNext) { row = rows.next(); true } else false }
      override def get(): InternalRow = row
      override def close(): Unit = ()
    }
  }
}

class LimitedV2(lines: Lines) extends StreamV2(lines) with SupportsAdmissionControl {
  override def latestOffset(): OffsetV2 = throw new UnsupportedOperationException("it is asked from where, and how much")
  override def getDefaultReadLimit: ReadLimit = ReadLimit.maxRows(Lines.Step)
  override def latestOffset(start: OffsetV2, limit: ReadLimit): OffsetV2 = answer(Option(start), limit)
}

class BoundedV2(lines: Lines) extends LimitedV2(lines) with SupportsTriggerAvailableNow {
  override def prepareForTriggerAvailableNow(): Unit = prepare()
}

class LinesV2 extends TableProvider {
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = Lines.Schema
  override def getTable(schema: StructType, partitioning: Array[Transform], options: JavaMap[String, String]): Table =
    new Table with SupportsRead {
      override def name(): String = "lines"
      override def schema(): StructType = Lines.Schema
      override def capabilities(): JavaSet[TableCapability] = JavaSet.of(TableCapability.MICRO_BATCH_READ)
      override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new Scan {
        override def readSchema(): StructType = Lines.Schema
        override def toMicroBatchStream(checkpoint: String): MicroBatchStream = {
          val lines = new Lines(options.get("directory"))
          options.get("kind") match {
            case "v2" => new StreamV2(lines)
            case "v2, admission" => new LimitedV2(lines)
            case "v2, available now" => new BoundedV2(lines)
          }
        }
      }
    }
}
