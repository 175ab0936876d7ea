"""The windowed aggregation, going on until it is told to end."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import bids, write_until_told

spark = SparkSession.builder.appName("until told").getOrCreate()

counts = (
    bids(spark)
    .groupBy(f.window("time", "20 seconds"), "auction")
    .agg(f.count("*").alias("bids"), f.max("price").alias("highest"))
    .select("window.start", "auction", "bids", "highest")
)
write_until_told(counts, "counts")
