"""The job of `run_pages`: two queries that keep state, until a file STOP lies beside it or both have ended."""

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

HERE = Path(__file__).parent


def windows(spark: SparkSession) -> DataFrame:
    """Counts of fifty keys in windows of ten seconds. Each batch has 200 rows of four seconds."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).option("numPartitions", 1)
    rows = source.option("advanceMillisPerBatch", 4000).load().withWatermark("timestamp", "1 minute")
    return rows.groupBy(f.window("timestamp", "10 seconds"), (f.col("value") % 50).alias("key")).count()


def started(name: str, writer: DataStreamWriter) -> StreamingQuery:
    """The query of a name, with its checkpoint beside this file."""
    writer = writer.queryName(name).option("checkpointLocation", str(HERE / "checkpoints" / name))
    return writer.trigger(processingTime="2 seconds").start()


def main() -> None:
    """Run `clicks`, which has a file sink, and `counts`."""
    spark = SparkSession.builder.getOrCreate()
    queries = [
        started("clicks", windows(spark).writeStream.format("json").option("path", str(HERE / "out" / "clicks"))),
        started("counts", windows(spark).writeStream.format("noop")),
    ]
    while any(query.isActive for query in queries) and not (HERE / "STOP").exists():
        time.sleep(0.2)
    for query in reversed(queries):  # `mooring plan` knows the query that ended last, and the pages ask for clicks
        query.stop()


if __name__ == "__main__":
    main()
