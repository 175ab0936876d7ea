"""A stateful query, and an application that ends in the way that it is told to, with a batch under way.

`ends.py CHECKPOINT READY BATCHES WAY`: after so many batches it writes the file READY, and ends. The way: `stop` the
session, the `query` first, `raise`, `exit`, or `wait` for a signal. With `busy` for BATCHES all slots are taken by
another job; it ends once the query's own tasks, and those that fetch its state ahead, wait for them.
"""

import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

CHECKPOINT, READY, BATCHES, WAY = sys.argv[1:]
IS_BUSY = BATCHES == "busy"

spark = SparkSession.builder.appName("ends").getOrCreate()


def take_all_slots() -> None:
    slots = spark.sparkContext.defaultParallelism
    spark.range(0, slots, 1, slots).selectExpr("java_method('java.lang.Thread', 'sleep', 100000L)").collect()


def active_jobs() -> int:
    return len(spark.sparkContext.statusTracker().getActiveJobsIds())


def is_ready() -> bool:
    if IS_BUSY:
        return active_jobs() == 3
    return len(query.recentProgress) >= int(BATCHES) and query.status["isTriggerActive"]


def wait_for(condition) -> None:
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


if IS_BUSY:
    threading.Thread(target=take_all_slots, daemon=True).start()
    wait_for(lambda: active_jobs() == 1)
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 40).option("numPartitions", 2).load()
pause = "java_method('java.util.concurrent.locks.LockSupport', 'parkNanos', 20000000L) AS pause"
counts = rows.groupBy((rows.value % 20).alias("key")).count().selectExpr("key", "count", pause)
writer = counts.writeStream.queryName("slow").outputMode("update").format("noop")
query = writer.option("checkpointLocation", CHECKPOINT).start()
wait_for(is_ready)
Path(READY).touch()
if WAY == "raise":
    raise RuntimeError("the job fails")
if WAY == "exit":
    spark._jvm.java.lang.System.exit(3)
if WAY == "wait":
    query.awaitTermination()
if WAY == "query":
    query.stop()
spark.stop()
