"""Open windows or sessions, one for each row, in an append-mode query that ends when somebody ends it.

drain_job.py CHECKPOINT DIRECTORY KIND ROWS FILES RESULT

KIND is `windows` or `sessions`. The rows lie in as many FILES, one of which is a batch, in DIRECTORY/input; the rows
that come out are written to DIRECTORY/output. When DIRECTORY/stop appears, the query is stopped once all its input is
processed. RESULT gets JSON: when the query had ended, rows of state left, how many rows came out, and the sum of their
values.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def main(checkpoint: str, directory: str, kind: str, rows: str, files: str, result: str) -> None:
    spark = SparkSession.builder.appName("drain").getOrCreate()
    made, written = f"{directory}/input", f"{directory}/output"
    _write(spark, made, int(rows), int(files))
    events = spark.readStream.schema("time TIMESTAMP, value LONG").option("maxFilesPerTrigger", "1").parquet(made)
    seconds = F.session_window("time", "1 hour") if kind == "sessions" else F.window("time", "1 hour")
    held = events.withWatermark("time", "1 day").groupBy(seconds, "value").agg(F.count("*").alias("events"))
    writer = held.select("value", "events").writeStream.format("parquet").queryName("drain")
    query = writer.option("checkpointLocation", checkpoint).start(written)
    while query.isActive:
        if (Path(directory) / "stop").exists():
            query.processAllAvailable()
            query.stop()
        time.sleep(0.05)
    ended = time.time()
    if query.exception() is not None:
        raise query.exception()
    state = sum(operator["numRowsTotal"] for operator in query.lastProgress["stateOperators"])
    told = {"application": spark.sparkContext.applicationId, "ended": ended, "state-rows": state}
    Path(result).write_text(json.dumps({**told, **_read(spark, written)}))
    spark.stop()


def _write(spark: SparkSession, directory: str, rows: int, files: int) -> None:
    """Each row has a window of its own, as it is the only one of its value."""
    of_time = F.timestamp_seconds(F.lit(1767607200) + F.col("id") % 3600).alias("time")
    spark.range(0, rows, 1, files).select(of_time, F.col("id").alias("value")).write.parquet(directory)


def _read(spark: SparkSession, directory: str) -> dict[str, int]:
    out: DataFrame = spark.read.schema("value LONG, events LONG").parquet(directory)
    rows, total, events = out.agg(F.count("*"), F.coalesce(F.sum("value"), F.lit(0)), F.count_distinct("value")).first()
    return {"rows-out": rows, "total": total, "values": events}


if __name__ == "__main__":
    main(*sys.argv[1:])
