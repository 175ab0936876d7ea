"""The windowed aggregation, going on until somebody puts a file STOP beside the input and all input is read."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import CHECKPOINTS, INPUT, OUTPUTS, bids

spark = SparkSession.builder.appName("until told").getOrCreate()

counts = (
    bids(spark)
    .groupBy(f.window("time", "20 seconds"), "auction")
    .agg(f.count("*").alias("bids"), f.max("price").alias("highest"))
    .select("window.start", "auction", "bids", "highest")
)
query = (
    counts.writeStream.queryName("counts")
    .format("json")
    .option("checkpointLocation", f"{CHECKPOINTS}/counts")
    .option("path", f"{OUTPUTS}/counts")
    .start()
)
while not (Path(INPUT) / "STOP").exists():
    if query.exception() is not None:
        sys.exit(1)
    time.sleep(0.2)
query.processAllAvailable()
query.stop()
