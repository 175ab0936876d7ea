"""A stream at full load: counts, sums and greatest values for many keys, for a number of batches of a fixed size.

steady_job.py CHECKPOINT ROWS KEYS BATCHES RESULT    RESULT gets JSON with the progress of every batch
"""

import sys
import time

from batches_told import tell_and_stop
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(checkpoint: str, rows: str, keys: str, batches: str, result: str) -> None:
    spark = SparkSession.builder.appName("steady").getOrCreate()
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", "2")
    events = source.option("startTimestamp", "1767607200000").load()
    counts = events.groupBy(F.pmod(F.xxhash64("value"), F.lit(int(keys))).alias("key")).agg(
        F.count("*").alias("events"), F.sum("value").alias("total"), F.max("timestamp").alias("latest")
    )
    writer = counts.writeStream.outputMode("update").format("noop").queryName("steady")
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start()
    while query.isActive and (query.lastProgress is None or query.lastProgress["batchId"] < int(batches)):
        time.sleep(0.2)
    tell_and_stop(spark, result, query)


if __name__ == "__main__":
    main(*sys.argv[1:])
