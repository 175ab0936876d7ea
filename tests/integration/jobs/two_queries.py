"""Two stateful queries in one application: bids by channel, and each bid once."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import bids, write

spark = SparkSession.builder.appName("two queries").getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)

by_channel = (
    bids(spark)
    .groupBy(f.window("time", "10 seconds", "5 seconds"), "channel")
    .agg(f.count("*").alias("bids"))
    .select("window.start", "channel", "bids")
)
distinct = bids(spark).dropDuplicates(["bid", "time"]).select("bid", "time", "auction", "bidder", "price")

queries = [write(by_channel, "by_channel"), write(distinct, "distinct")]
for query in queries:
    query.awaitTermination()
