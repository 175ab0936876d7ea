"""A Spark job that keeps the number of bids and the highest bid with its receipt. `job.py INPUT CHECKPOINT OUTPUT`.

The state has one row for each pair of auction and bidder. Most of a row is the receipt.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

BIDS = "bid LONG, auction LONG, bidder LONG, price LONG, channel STRING, time TIMESTAMP, receipt STRING"


def main(bids: str, checkpoint: str, output: str) -> None:
    """Run until the query is ended from outside."""
    spark = SparkSession.builder.appName("standing offers").getOrCreate()
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )

    def overwrite(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").json(f"{output}/batch={batch}")

    best = f.max(f.struct("price", "bid", "receipt"))
    offers = (
        spark.readStream.schema(BIDS)
        .option("maxFilesPerTrigger", 1)
        .json(bids)
        .groupBy("auction", "bidder")
        .agg(f.count("*").alias("bids"), best.alias("best"))
        .select("auction", "bidder", "bids", "best.price", "best.bid", f.md5("best.receipt").alias("receipt"))
    )
    query = (
        offers.writeStream.queryName("offers")
        .outputMode("update")
        .foreachBatch(overwrite)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:4])
