"""Each bid once, though a retried one carries a later time; an id that comes back long after is a new bid."""

from pyspark.sql import SparkSession
from streams import bids, write

spark = SparkSession.builder.appName("drop duplicates within watermark").getOrCreate()

distinct = bids(spark).dropDuplicatesWithinWatermark(["bid"]).select("bid", "auction", "bidder", "price")
write(distinct, "distinct").awaitTermination()
