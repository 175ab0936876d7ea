"""The windowed aggregation, going on until it is told to end."""

from pyspark.sql import SparkSession
from streams import counts_of_bids, write_until_told

spark = SparkSession.builder.appName("until told").getOrCreate()

write_until_told(counts_of_bids(spark), "counts")
