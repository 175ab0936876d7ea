"""Every auction with its bids above 5000, and the auctions that had none."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import auctions, bids, write

spark = SparkSession.builder.appName("left outer join").getOrCreate()

joined = (
    auctions(spark)
    .alias("a")
    .join(
        bids(spark).where("price > 5000").alias("b"),
        f.expr("a.auction = b.auction AND b.time >= a.opens AND b.time < a.opens + INTERVAL 30 SECONDS"),
        "leftOuter",
    )
    .select("a.auction", "a.seller", "b.bid", "b.time", "b.price")
)
write(joined, "joined").awaitTermination()
