"""The running total of each bidder, written by batch: a batch that is run again overwrites what it wrote."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from streams import BIDS, CHECKPOINTS, OUTPUTS, read

spark = SparkSession.builder.appName("foreach batch").getOrCreate()


def overwrite(totals: DataFrame, batch: int) -> None:
    totals.write.mode("overwrite").json(f"{OUTPUTS}/totals/batch={batch}")


totals = read(spark, "bids", BIDS).groupBy("bidder").agg(f.count("*").alias("bids"), f.sum("price").alias("offered"))
(
    totals.writeStream.queryName("totals")
    .outputMode("update")
    .foreachBatch(overwrite)
    .option("checkpointLocation", f"{CHECKPOINTS}/totals")
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
