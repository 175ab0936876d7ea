"""What the jobs share: where bids and auctions come from, where rows go. `job.py INPUT CHECKPOINTS OUTPUTS`."""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

INPUT, CHECKPOINTS, OUTPUTS = sys.argv[1:4]

BIDS = "bid LONG, auction LONG, bidder LONG, price LONG, channel STRING, time TIMESTAMP, closes TIMESTAMP"
AUCTIONS = "auction LONG, seller LONG, category STRING, opens TIMESTAMP"


def read(spark: SparkSession, kind: str, schema: str) -> DataFrame:
    """One file a batch, so that there are many batches."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(f"{INPUT}/{kind}")


def bids(spark: SparkSession) -> DataFrame:
    return read(spark, "bids", BIDS).withWatermark("time", "10 seconds")


def auctions(spark: SparkSession) -> DataFrame:
    return read(spark, "auctions", AUCTIONS).withWatermark("opens", "10 seconds")


def write(rows: DataFrame, name: str) -> StreamingQuery:
    """To files, each row exactly once, until the input is read."""
    return (
        rows.writeStream.queryName(name)
        .format("json")
        .option("checkpointLocation", f"{CHECKPOINTS}/{name}")
        .option("path", f"{OUTPUTS}/{name}")
        .trigger(availableNow=True)
        .start()
    )
