import java.sql.Timestamp

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode, Trigger}

case class Bid(bid: Long, auction: Long, bidder: Long, price: Long, channel: String, time: Timestamp, closes: Timestamp)
case class Result(auction: Long, bids: Long, highest: Long)

/** Each auction's result when it closes: a typed state function with an event-time timeout. Arguments: INPUT CHECKPOINTS OUTPUTS [goes-on]. */
object AuctionResults {
  private val schema = "bid LONG, auction LONG, bidder LONG, price LONG, channel STRING, time TIMESTAMP, closes TIMESTAMP"

  def main(arguments: Array[String]): Unit = {
    val Array(input, checkpoints, outputs, _*) = arguments
    val trigger = if (arguments.contains("goes-on")) Trigger.ProcessingTime(0) else Trigger.AvailableNow()
    val spark = SparkSession.builder().appName("auction results").getOrCreate()
    import spark.implicits._
    spark.conf.set(
      "spark.sql.streaming.stateStore.providerClass",
      "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")

    val results = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(s"$input/bids")
      .withWatermark("time", "10 seconds")
      .where("time < closes")
      .as[Bid]
      .groupByKey(_.auction)
      .flatMapGroupsWithState(OutputMode.Append(), GroupStateTimeout.EventTimeTimeout())(result _)

    results.writeStream.queryName("results").format("json")
      .option("checkpointLocation", s"$checkpoints/results")
      .option("path", s"$outputs/results")
      .trigger(trigger)
      .start()
      .awaitTermination()
  }

  private def result(auction: Long, bids: Iterator[Bid], state: GroupState[Result]): Iterator[Result] =
    if (state.hasTimedOut) {
      val last = state.get
      state.remove()
      Iterator(last)
    } else {
      var now = state.getOption.getOrElse(Result(auction, 0L, 0L))
      var closes = 0L
      for (bid <- bids) {
        now = Result(auction, now.bids + 1, math.max(now.highest, bid.price))
        closes = bid.closes.getTime
      }
      state.update(now)
      state.setTimeoutTimestamp(closes)
      Iterator.empty
    }
}
