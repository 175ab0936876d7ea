"""Each auction's result when it closes: a state function with an event-time timeout."""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from streams import bids, write


def result(key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        bids_made, offered, highest = state.get
        state.remove()
        yield pd.DataFrame({"auction": [key[0]], "bids": [bids_made], "offered": [offered], "highest": [highest]})
        return
    bids_made, offered, highest = state.getOption or (0, 0, 0)
    for frame in frames:
        bids_made += len(frame)
        offered += int(frame["price"].sum())
        highest = max(highest, int(frame["price"].max()))
        closes = int(frame["closes"].max().timestamp() * 1000)
    state.update((bids_made, offered, highest))
    state.setTimeoutTimestamp(closes)


spark = SparkSession.builder.appName("apply in pandas with state").getOrCreate()

results = (
    bids(spark)
    .where("time < closes")
    .groupBy("auction")
    .applyInPandasWithState(
        result,
        outputStructType="auction LONG, bids LONG, offered LONG, highest LONG",
        stateStructType="bids LONG, offered LONG, highest LONG",
        outputMode="append",
        timeoutConf=GroupStateTimeout.EventTimeTimeout,
    )
)
write(results, "results").awaitTermination()
