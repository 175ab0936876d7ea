"""How many bids each auction got in every 20 seconds, and the highest."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import bids, write

spark = SparkSession.builder.appName("windowed aggregation").getOrCreate()

counts = (
    bids(spark)
    .groupBy(f.window("time", "20 seconds"), "auction")
    .agg(f.count("*").alias("bids"), f.max("price").alias("highest"))
    .select("window.start", "auction", "bids", "highest")
)
write(counts, "counts").awaitTermination()
