"""A client of Spark Connect: the bids and bidders of each channel in every 20 seconds. Fourth argument: the server."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import bids, write

spark = SparkSession.builder.remote(sys.argv[4]).getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)

by_channel = (
    bids(spark)
    .groupBy(f.window("time", "20 seconds"), "channel")
    .agg(f.count("*").alias("bids"), f.sort_array(f.collect_set("bidder")).alias("bidders"))
    .select("window.start", "channel", "bids", "bidders")
)
write(by_channel, "by_channel").awaitTermination()
