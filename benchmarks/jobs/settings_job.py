"""Queries that count and sum by key, each for a number of batches of a fixed size. Knows nothing of Mooring.

settings_job.py CHECKPOINTS MASTER QUERIES SESSIONS BATCHES ROWS OPERATOR RESULT

CHECKPOINTS is the directory of the checkpoints, or `none`: then the queries have no checkpoint location. MASTER is
Spark's master, or `submitted` for that of spark-submit. With `two` SESSIONS every second query runs in a session of its
own, with half as many partitions. OPERATOR is `aggregation`, or `transformWithState` (in Python). RESULT gets JSON with
the progress of every batch.
"""

import sys
import time
from collections.abc import Iterator

from batches_told import tell_and_stop
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery

PARTITIONS = "spark.sql.shuffle.partitions"


class CountAndSum(StatefulProcessor):
    """What the aggregation does, as a processor."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.known = handle.getValueState("known", "events LONG, total LONG")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:
        events, total = self.known.get() if self.known.exists() else (0, 0)
        for row in rows:
            events, total = events + 1, total + row.value
        self.known.update((events, total))
        yield Row(key=key[0], events=events, total=total)

    def close(self) -> None:
        pass


def counted(events: DataFrame, operator: str) -> DataFrame:
    keyed = events.withColumn("key", F.pmod(F.xxhash64("value"), F.lit(50_000)))
    if operator == "aggregation":
        return keyed.groupBy("key").agg(F.count("*").alias("events"), F.sum("value").alias("total"))
    return keyed.groupBy("key").transformWithState(
        statefulProcessor=CountAndSum(),
        outputStructType="key LONG, events LONG, total LONG",
        outputMode="update",
        timeMode="None",
    )


def started(spark: SparkSession, name: str, checkpoints: str, rows: str, operator: str) -> StreamingQuery:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", "2")
    counts = counted(source.option("startTimestamp", "1767607200000").load(), operator)
    writer = counts.writeStream.outputMode("update").format("noop").queryName(name).trigger(processingTime="0 seconds")
    if checkpoints != "none":
        writer = writer.option("checkpointLocation", f"{checkpoints}/{name}")
    return writer.start()


def main(
    checkpoints: str, master: str, queries: str, sessions: str, batches: str, rows: str, operator: str, result: str
) -> None:
    builder = SparkSession.builder.appName("settings")
    spark = (builder if master == "submitted" else builder.master(master)).getOrCreate()
    running = []
    for number in range(int(queries)):
        session = spark
        if sessions == "two" and number % 2 == 1:
            session = spark.newSession()
            session.conf.set(PARTITIONS, str(int(spark.conf.get(PARTITIONS)) // 2))
        running.append(started(session, f"settings{number}", checkpoints, rows, operator))
    last = int(batches) - 1
    while not all(query.lastProgress and query.lastProgress["batchId"] >= last for query in running):
        for query in running:
            if query.exception():
                raise query.exception()
        time.sleep(0.2)
    tell_and_stop(spark, result, *running)


if __name__ == "__main__":
    main(*sys.argv[1:])
