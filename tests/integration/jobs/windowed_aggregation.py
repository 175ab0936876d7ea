"""How many bids each auction got in every 20 seconds, and the highest."""

from pyspark.sql import SparkSession
from streams import counts_of_bids, write

spark = SparkSession.builder.appName("windowed aggregation").getOrCreate()

write(counts_of_bids(spark), "counts").awaitTermination()
