"""A query in one JVM that reads all of a small input and is drained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from mooring.client import MooringClient
from mooring.testing.probes import wait_until
from tests.integration.support.queries_with_pending_output import EVENTS, windows


class Run:
    """One query over all of the input, with its own checkpoint; its rows are in a table with its name."""

    def __init__(
        self, spark: SparkSession, directory: Path, name: str, frame: DataFrame, mode: str = "append", **by: Any
    ):
        self.spark, self.name, self.checkpoint = spark, name, directory / name
        writer = frame.writeStream.queryName(name).outputMode(mode).format("memory")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self.query: StreamingQuery = (writer.trigger(**by) if by else writer).start()

    def read_all(self) -> None:
        """Wait until the input is read. Spark's own wait never ends for queries with processing-time timers."""

        def is_read() -> bool:
            return sum(progress["numInputRows"] for progress in self.query.recentProgress) >= len(EVENTS)

        wait_until(is_read, f"{self.name} to have read its input", 90)

    def drain(self) -> dict[str, Any]:
        """Drain the query, and return the content of `drained.json`."""
        self.ask_for_drain()
        return self.drained()

    def ask_for_drain(self) -> None:
        with MooringClient.open(self.spark.conf.get("spark.mooring.metadata")) as client:
            client.drain(self.spark.sparkContext.applicationId, self.name)

    def is_told(self) -> bool:
        """Whether the checkpoint has the note that the query is to be drained."""
        return (self.checkpoint / "_mooring" / "draining.json").exists()

    def drained(self) -> dict[str, Any]:
        """Wait until the drain is over, and return the content of `drained.json`."""
        assert self.query.awaitTermination(90), self.query.status
        assert self.query.exception() is None
        marker: dict[str, Any] = json.loads((self.checkpoint / "_mooring" / "drained.json").read_text())
        return marker

    def rows(self) -> DataFrame:
        return self.spark.table(self.name)

    def assert_all_came_out(self, events: int = len(EVENTS)) -> None:
        """Check the rows of a query that counts events in windows, and has read so many of them."""
        wanted = self.spark.createDataFrame(windows(EVENTS[:events]), self.rows().schema)
        assert_df_equality(self.rows(), wanted, ignore_row_order=True, ignore_nullable=True)

    def state_rows(self) -> int:
        return sum(operator["numRowsTotal"] for operator in self.query.lastProgress["stateOperators"])


def is_drain_waiting(spark: SparkSession) -> bool:
    """Whether a query was told to drain, and the drain waits until Spark is not planning the next batch."""
    threads = spark.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet()
    return any(thread.getName() == "mooring-drain-start" for thread in threads)
