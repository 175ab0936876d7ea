"""Two queries, the second reads what the first writes; they go on until they are drained."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import OUTPUTS, ask_before, bids, write

spark = SparkSession.builder.appName("chained until drained").getOrCreate()
ask_before(spark)

counts = (
    bids(spark)
    .groupBy(f.window("time", "20 seconds"), "auction")
    .agg(f.count("*").alias("bids"), f.max("price").alias("highest"))
    .select("window.start", "auction", "bids", "highest")
)
first = write(counts, "counts")

written = f"{OUTPUTS}/counts"
Path(written).mkdir(parents=True, exist_ok=True)
totals = (
    spark.readStream.schema("start TIMESTAMP, auction LONG, bids LONG, highest LONG")
    .json(written)
    .withWatermark("start", "1 minute")
    .groupBy(f.window("start", "1 minute"))
    .agg(f.sum("bids").alias("bids"), f.count("*").alias("groups"))
    .select("window.start", "bids", "groups")
)
second = write(totals, "totals")

first.awaitTermination()
second.awaitTermination()
