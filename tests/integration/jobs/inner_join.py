"""Every bid with its auction's seller and category, for bids made while the auction was open."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import auctions, bids, write

spark = SparkSession.builder.appName("inner join").getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)

joined = (
    bids(spark)
    .alias("b")
    .join(
        auctions(spark).alias("a"),
        f.expr("b.auction = a.auction AND b.time >= a.opens AND b.time < a.opens + INTERVAL 30 SECONDS"),
    )
    .select("b.bid", "b.time", "b.price", "a.auction", "a.seller", "a.category")
)
write(joined, "joined").awaitTermination()
