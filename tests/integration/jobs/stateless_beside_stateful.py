"""A query without state, high bids as they come, beside one with state."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import BIDS, bids, read, write

spark = SparkSession.builder.appName("stateless beside stateful").getOrCreate()

high = read(spark, "bids", BIDS).where("price > 8000").select("bid", "time", "auction", "price")
counts = (
    bids(spark)
    .groupBy(f.window("time", "20 seconds"), "auction")
    .agg(f.count("*").alias("bids"), f.max("price").alias("highest"))
    .select("window.start", "auction", "bids", "highest")
)

queries = [write(high, "high"), write(counts, "counts")]
for query in queries:
    query.awaitTermination()
