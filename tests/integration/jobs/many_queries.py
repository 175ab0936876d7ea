"""Thirty queries with the same windowed aggregation in one application, until they are told to end."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from streams import bids, write_all_until_told

spark = SparkSession.builder.appName("many queries").getOrCreate()


def counts() -> DataFrame:
    groups = bids(spark).groupBy(f.window("time", "20 seconds"), "auction")
    counted = groups.agg(f.count("*").alias("bids"), f.max("price").alias("highest"))
    return counted.select("window.start", "auction", "bids", "highest")


write_all_until_told({f"counts{number}": counts() for number in range(30)})
