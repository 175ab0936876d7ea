"""Each auction's result when it closes; a task waits in its midst while there is a gate for its host.

The gate is a file `gates/ADDRESS` beside the input; who waits at it writes its partition into `gates/ADDRESS.held`.
The state of a partition is committed after its last call of the function. Who finds `failures/ADDRESS` removes it, and
fails.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from streams import INPUT, bids, write_until_told


def result(key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    gate = Path(INPUT) / "gates" / os.environ["SPARK_LOCAL_IP"]
    if gate.exists():
        gate.with_name(f"{gate.name}.held").write_text(str(TaskContext.get().partitionId()))
    while gate.exists():
        time.sleep(0.05)
    failure = Path(INPUT) / "failures" / os.environ["SPARK_LOCAL_IP"]
    if failure.exists():
        failure.unlink()
        raise RuntimeError(f"{failure} was there")
    number, highest = state.getOption or (0, 0)
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"auction": [key[0]], "bids": [number], "highest": [highest]})
        return
    for frame in frames:
        number, highest = number + len(frame), max(highest, int(frame["price"].max()))
        state.setTimeoutTimestamp(int(frame["closes"].max().timestamp() * 1000))
    state.update((number, highest))


results = (
    bids(SparkSession.builder.appName("held").getOrCreate())
    .where("time < closes")
    .groupBy("auction")
    .applyInPandasWithState(
        result,
        outputStructType="auction LONG, bids LONG, highest LONG",
        stateStructType="bids LONG, highest LONG",
        outputMode="append",
        timeoutConf=GroupStateTimeout.EventTimeTimeout,
    )
)
write_until_told(results, "results")
