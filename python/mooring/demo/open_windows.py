"""How many bids each auction got in every ten seconds, and the highest. `job.py INPUT CHECKPOINT OUTPUT`.

A plain Spark job. A window comes out once events are two hours past it, so of a stream of a minute all stays inside.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

BIDS = "auction LONG, price LONG, time TIMESTAMP"


def main(bids: str, checkpoint: str, output: str) -> None:
    """Run until somebody ends it."""
    spark = SparkSession.builder.appName("open windows").getOrCreate()
    windows = (
        spark.readStream.schema(BIDS)
        .option("maxFilesPerTrigger", 1)
        .json(bids)
        .withWatermark("time", "2 hours")
        .groupBy(f.window("time", "10 seconds"), "auction")
        .agg(f.count("*").alias("bids"), f.max("price").alias("highest"))
        .select(f.unix_millis("window.start").alias("start"), "auction", "bids", "highest")
    )
    writer = windows.writeStream.queryName("windows").outputMode("append").format("json")
    writer.option("checkpointLocation", checkpoint).start(output).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:4])
