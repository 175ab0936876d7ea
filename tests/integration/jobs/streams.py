"""What the jobs share: where bids and auctions come from, the windowed aggregation, where rows go.

`job.py INPUT CHECKPOINTS OUTPUTS [goes-on] [asked-before]`: until the input is read, or until somebody ends the
queries; they may be asked to drain before they are started.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from mooring.drain import DrainNotification, write_drain_notification
from mooring.metadata import open_metadata_store

INPUT, CHECKPOINTS, OUTPUTS = sys.argv[1:4]
GOES_ON = "goes-on" in sys.argv[4:]

BIDS = "bid LONG, auction LONG, bidder LONG, price LONG, channel STRING, time TIMESTAMP, closes TIMESTAMP"
AUCTIONS = "auction LONG, seller LONG, category STRING, opens TIMESTAMP"


def read(spark: SparkSession, kind: str, schema: str) -> DataFrame:
    """One file a batch, so that there are many batches."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(f"{INPUT}/{kind}")


def bids(spark: SparkSession) -> DataFrame:
    return read(spark, "bids", BIDS).withWatermark("time", "10 seconds")


def auctions(spark: SparkSession) -> DataFrame:
    return read(spark, "auctions", AUCTIONS).withWatermark("opens", "10 seconds")


def counts_of_bids(spark: SparkSession) -> DataFrame:
    """How many bids each auction got in every 20 seconds, and the highest."""
    windows = bids(spark).groupBy(f.window("time", "20 seconds"), "auction")
    counts = windows.agg(f.count("*").alias("bids"), f.max("price").alias("highest"))
    return counts.select("window.start", "auction", "bids", "highest")


def ask_before(spark: SparkSession) -> None:
    """Where it is told to: have the queries drained that are going to be started."""
    if "asked-before" in sys.argv[4:]:
        with open_metadata_store(spark.conf.get("spark.mooring.metadata")) as store:
            write_drain_notification(store, DrainNotification.create(spark.sparkContext.applicationId))


def write(rows: DataFrame, name: str) -> StreamingQuery:
    """To files, each row exactly once."""
    writer = _writer(rows, name)
    return (writer if GOES_ON else writer.trigger(availableNow=True)).start()


def write_until_told(rows: DataFrame, name: str) -> None:
    """To files, going on until somebody puts a file STOP beside the input and all input is read."""
    write_all_until_told({name: rows})


def write_all_until_told(queries: dict[str, DataFrame]) -> None:
    """The same of several queries, by their names."""
    started = [_writer(rows, name).start() for name, rows in queries.items()]
    while not (Path(INPUT) / "STOP").exists():
        if any(query.exception() is not None for query in started):
            sys.exit(1)
        time.sleep(0.2)
    for query in started:
        query.processAllAvailable()
        query.stop()


def _writer(rows: DataFrame, name: str) -> DataStreamWriter:
    files = rows.writeStream.queryName(name).format("json")
    return files.option("checkpointLocation", f"{CHECKPOINTS}/{name}").option("path", f"{OUTPUTS}/{name}")
