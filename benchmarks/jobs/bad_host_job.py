"""Duplicates are removed, for a number of batches, and in some of them one host is bad. Knows nothing of Mooring.

bad_host_job.py CHECKPOINT ROWS BATCHES HOST WHAT FIRST LAST EVERY RESULT

ROWS of a batch. HOST is bad in each EVERY-th batch from FIRST to LAST. WHAT it does: `fails` its tasks with state, or
`waits` so many milliseconds for each row, as `waits:60`. RESULT gets JSON with the progress of every batch.
"""

import sys
import time

from batches_told import tell_and_stop
from pyspark.sql import SparkSession


def main(
    checkpoint: str, rows: str, batches: str, host: str, what: str, first: str, last: str, every: str, result: str
) -> None:
    spark = SparkSession.builder.appName("bad-host").getOrCreate()
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", "2")
    events = source.option("startTimestamp", "1767607200000").load().dropDuplicates(["value"])
    batch = f"(value div {int(rows)})"
    here = "java_method('java.lang.System', 'getenv', 'SPARK_LOCAL_IP')"
    is_bad = f"{batch} between {first} and {last} and ({batch} - {first}) % {every} = 0 and {here} = '{host}'"
    wait = f"java_method('java.lang.Thread', 'sleep', {what.partition(':')[2] or 0}L)"
    harm = "raise_error('this host is bad')" if what == "fails" else wait
    harmed = events.selectExpr("value", f"case when {is_bad} then {harm} end as harm")
    writer = harmed.writeStream.format("noop").queryName("bad-host")
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start()
    while query.isActive and (query.lastProgress is None or query.lastProgress["batchId"] < int(batches)):
        time.sleep(0.2)
    tell_and_stop(spark, result, query)


if __name__ == "__main__":
    main(*sys.argv[1:])
