import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.util.UUID

import org.apache.spark.sql.{classic, Dataset, Encoders, ForeachWriter, SparkSession}
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.streaming._

/**
 * Numbers from 0 to 6 in real-time mode, in two halves. Arguments: KIND CHECKPOINT OUTPUTS. Each output row has a number, and how often it was
 * seen so far; `stateless` and `deduplication` have 1 for that.
 */
object RealTime {
  private val Numbers = 7
  private val Half = 20 * Numbers

  def main(arguments: Array[String]): Unit = {
    val Array(kind, checkpoint, outputs) = arguments
    val spark = SparkSession.builder().appName("real time").getOrCreate().asInstanceOf[classic.SparkSession]
    import spark.implicits._
    val numbers = new LowLatencyMemoryStream[Long](0, spark, 2)
    val input = numbers.toDS()
    val rows: Dataset[(Long, Long)] = kind match {
      case "stateless" => input.select(col("value"), lit(1L)).as[(Long, Long)]
      case "aggregation" => input.groupBy("value").count().as[(Long, Long)]
      case "deduplication" => input.dropDuplicates("value").select(col("value"), lit(1L)).as[(Long, Long)]
      case "transform_with_state" => input.groupByKey(identity).transformWithState(new Counting, TimeMode.None(), OutputMode.Update())
    }
    Files.createDirectories(Path.of(outputs))
    val query = rows.writeStream.queryName("rows").outputMode("update").foreach(new ToFile(outputs))
      .option("checkpointLocation", checkpoint).trigger(Trigger.RealTime(5000)).start()
    for (half <- 1 to 2) {
      numbers.addData((0 until Half).map(_ % Numbers.toLong))
      while (query.isActive && query.recentProgress.map(_.numInputRows).sum < half * Half) Thread.sleep(100)
    }
    query.stop()
    query.exception.foreach(throw _)
  }

  private final class Counting extends StatefulProcessor[Long, Long, (Long, Long)] {
    @transient private var seen: ValueState[Long] = _

    override def init(mode: OutputMode, times: TimeMode): Unit = seen = getHandle.getValueState("seen", Encoders.scalaLong, TTLConfig.NONE)

    override def handleInputRows(key: Long, rows: Iterator[Long], timers: TimerValues): Iterator[(Long, Long)] = {
      val before = if (seen.exists()) seen.get() else 0L
      seen.update(before + rows.size)
      Iterator(key -> seen.get())
    }
  }

  private final class ToFile(outputs: String) extends ForeachWriter[(Long, Long)] {
    private val lines = new StringBuilder

    override def open(partition: Long, epoch: Long): Boolean = true
    override def process(row: (Long, Long)): Unit = lines.append(s"${row._1} ${row._2}\n")
    override def close(error: Throwable): Unit = Files.write(Path.of(outputs, UUID.randomUUID().toString), lines.toString.getBytes(UTF_8))
  }
}
