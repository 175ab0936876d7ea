"""One streaming query of a session, with a directory of rows for each batch."""

from __future__ import annotations

from pathlib import Path

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from mooring.client import MooringClient
from mooring.drain import StopMode
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import events_in_files
from tests.integration.support.queries_with_pending_output import EVENTS, Kind


class Job:
    """One query with a checkpoint and a directory of rows for each batch."""

    def __init__(self, spark: SparkSession, directory: Path, frame: DataFrame) -> None:
        self.spark, self.frame = spark, frame
        self.checkpoint, self.out = directory / "checkpoint", directory / "out"
        self.query: StreamingQuery | None = None

    def start(self, checkpoint: Path | None = None, out: Path | None = None) -> StreamingQuery:
        target = out or self.out
        writer = self.frame.writeStream.outputMode("append")
        writer = writer.foreachBatch(lambda rows, batch: self.write(rows, batch, target))
        self.query = writer.option("checkpointLocation", str(checkpoint or self.checkpoint)).start()
        return self.query

    def write(self, rows: DataFrame, batch: int, out: Path) -> None:
        rows.write.mode("overwrite").parquet(str(out / f"batch={batch}"))

    def read_all(self, rows: int = len(EVENTS), seconds: float = 90) -> None:
        query = self.running
        wait_until(
            lambda: (
                query.exception() is not None
                or sum(progress["numInputRows"] for progress in query.recentProgress) >= rows
            ),
            "the input to be read",
            seconds,
        )
        assert query.exception() is None

    @property
    def running(self) -> StreamingQuery:
        assert self.query is not None
        return self.query

    def stop(self, is_endless: bool = False) -> None:
        """Stop between two batches, so that all read input is committed. `is_endless`: there is always a next batch."""
        query = self.running
        if is_endless:
            with MooringClient.open(self.spark.conf.get("spark.mooring.metadata")) as client:
                client.stop(self.spark.sparkContext.applicationId, StopMode.AFTER_BATCH, query.id)
            assert query.awaitTermination(60), query.status
        else:
            wait_until(lambda: not query.status["isTriggerActive"] or not query.isActive, "a batch edge", 60)
            query.stop()
        self.in_use_no_more()

    def in_use_no_more(self) -> None:
        note = self.checkpoint / "_mooring" / "in-use.json"
        wait_until(lambda: not note.exists(), "the agent to take its note away", 20)

    def drain(self) -> None:
        query = self.running
        with MooringClient.open(self.spark.conf.get("spark.mooring.metadata")) as client:
            client.drain(self.spark.sparkContext.applicationId, query.id)
        assert query.awaitTermination(90), query.status
        assert query.exception() is None
        self.in_use_no_more()

    def rows(self, out: Path | None = None) -> DataFrame:
        return self.spark.read.parquet(str(out or self.out)).drop("batch")


class HalfJob(Job):
    """A stopped query that has read the first half of its input; the other half is in another directory."""

    FILES = 6

    def __init__(self, spark: SparkSession, directory: Path, kind: Kind) -> None:
        events = events_in_files(spark, directory / "events", self.FILES).withWatermark("time", "10 seconds")
        super().__init__(spark, directory, kind.frame(events))
        self._events, self._held = directory / "events", directory / "held"
        self._held.mkdir()
        for number in range(self.FILES // 2, self.FILES):
            (self._events / f"{number}.json").rename(self._held / f"{number}.json")
        self.start()
        self.read_all(len(EVENTS) // 2)
        self.stop()

    def bring_the_rest(self) -> None:
        for file in sorted(self._held.iterdir()):
            file.rename(self._events / file.name)


def same(job: Job, rows: DataFrame, kind: Kind) -> None:
    wanted = job.spark.createDataFrame(kind.answer(), rows.schema)
    assert_df_equality(rows, wanted, ignore_row_order=True, ignore_nullable=True)
