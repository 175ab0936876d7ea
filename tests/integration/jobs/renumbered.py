"""Two queries whose tasks have other numbers than the partitions of their state; they go on until they are told to end.

`counts`: a coalesce makes three tasks of all partitions. `beside`: in a union rows without state come first.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from streams import BIDS, bids, read, write_all_until_told

spark = SparkSession.builder.appName("renumbered").getOrCreate()


def counts(by: str) -> DataFrame:
    return (
        bids(spark)
        .groupBy(f.window("time", "20 seconds"), f.col(by).alias("key"))
        .agg(f.count("*").alias("bids"))
        .select("window.start", f.lit(by).alias("by"), "key", "bids")
    )


high = read(spark, "bids", BIDS).where("price > 8000").select("time", f.lit("price"), "price", f.lit(1).cast("long"))
write_all_until_told(
    {
        "counts": counts("auction").union(counts("bidder")).coalesce(3),
        "beside": high.union(counts("auction")).toDF("start", "by", "key", "bids"),
    }
)
