"""Each bid once, however often it was delivered."""

from pyspark.sql import SparkSession
from streams import bids, write

spark = SparkSession.builder.appName("drop duplicates").getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)

distinct = bids(spark).dropDuplicates(["bid", "time"]).select("bid", "time", "auction", "bidder", "price")
write(distinct, "distinct").awaitTermination()
