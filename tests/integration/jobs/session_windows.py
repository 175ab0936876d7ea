"""The sessions of each bidder: bids with less than two seconds between them."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import bids, write

spark = SparkSession.builder.appName("session windows").getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)

sessions = (
    bids(spark)
    .groupBy(f.session_window("time", "2 seconds").alias("session"), "bidder")
    .agg(f.count("*").alias("bids"), f.sum("price").alias("offered"))
    .select("session.start", "session.end", "bidder", "bids", "offered")
)
write(sessions, "sessions").awaitTermination()
