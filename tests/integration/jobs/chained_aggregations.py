"""Of the bids of each auction in every 10 seconds, the most in every 30 seconds over all auctions."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import bids, write

spark = SparkSession.builder.appName("chained aggregations").getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)

by_auction = bids(spark).groupBy(f.window("time", "10 seconds"), "auction").agg(f.count("*").alias("bids"))
busiest = (
    by_auction.groupBy(f.window(f.window_time("window"), "30 seconds").alias("half_minute"))
    .agg(f.max("bids").alias("most"), f.sum("bids").alias("bids"), f.count("*").alias("groups"))
    .select("half_minute.start", "most", "bids", "groups")
)
write(busiest, "busiest").awaitTermination()
