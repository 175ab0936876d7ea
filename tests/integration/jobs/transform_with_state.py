"""Each auction's winner and number of bidders when it closes: value state, map state and an event-time timer."""

from collections import Counter
from collections.abc import Iterator

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from streams import bids, write


class Winner(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.best = handle.getValueState("best", "price LONG, bid LONG")
        self.bidders = handle.getMapState("bidders", "bidder LONG", "bids LONG")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        batch = list(rows)
        highest = max((row.price, row.bid) for row in batch)
        if self.best.exists():
            highest = max(highest, tuple(self.best.get()))
        else:
            self.handle.registerTimer(batch[0].closes_ms)
        self.best.update(highest)
        for bidder, bids_made in Counter(row.bidder for row in batch).items():
            if self.bidders.containsKey((bidder,)):
                bids_made += self.bidders.getValue((bidder,))[0]
            self.bidders.updateValue((bidder,), (bids_made,))
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[Row]:
        price, bid = self.best.get()
        counts = [bids_made for (bids_made,) in self.bidders.values()]
        self.best.clear()
        self.bidders.clear()
        yield Row(auction=key[0], bid=bid, price=price, bidders=len(counts), bids=sum(counts))

    def close(self) -> None:
        pass


spark = SparkSession.builder.appName("transform with state").getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)

winners = (
    bids(spark)
    .where("time < closes")
    .selectExpr("auction", "bid", "bidder", "price", "time", "unix_millis(closes) AS closes_ms")
    .groupBy("auction")
    .transformWithState(
        statefulProcessor=Winner(),
        outputStructType="auction LONG, bid LONG, price LONG, bidders LONG, bids LONG",
        outputMode="append",
        timeMode="eventTime",
    )
)
write(winners, "winners").awaitTermination()
