"""A Spark job that counts the bids of each auction in windows of ten seconds. `job.py INPUT CHECKPOINT OUTPUT`.

A window comes out when event time is two hours past it. So all windows of a stream of a minute stay in the state.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

BIDS = "auction LONG, price LONG, time TIMESTAMP"


def main(bids: str, checkpoint: str, output: str) -> None:
    """Run until the query is ended from outside."""
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
