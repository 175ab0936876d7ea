"""A query goes back to an earlier batch, and its file sink goes on in a directory that `--new-file-sink` has made.

Spark's log of such a sink has a compact entry at batch 9, 19, …, for which it wants all entries before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mooring.checkpoint import sink_log
from mooring.cli.main import main
from tests.integration.held_back import EVENTS
from tests.integration.one_jvm import application, events_in_files
from tests.integration.one_query import Job

pytestmark = pytest.mark.one_jvm

FILES = 22
INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with application("file-sink", tmp_path_factory.mktemp("file-sink")) as session:
        yield session


class FileJob(Job):
    """One row for each event, in files of Spark's own sink; batch N reads file N."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        events = events_in_files(spark, directory / "events", FILES)
        super().__init__(spark, directory, events.select("key", f.unix_millis("time").alias("time")))

    def run(self, checkpoint: Path, out: Path) -> None:
        """Read all that is there, and end."""
        writer = self.frame.writeStream.outputMode("append").format("parquet").trigger(availableNow=True)
        self.query = writer.option("checkpointLocation", str(checkpoint)).start(str(out))
        self.query.awaitTermination()

    def events_in(self, out: Path) -> list[tuple[int, int]]:
        return sorted((row.key, row.time) for row in self.spark.read.parquet(str(out)).collect())


def events_from(batch: int) -> list[tuple[int, int]]:
    """Those of the files from this one on."""
    return sorted(EVENTS[batch * len(EVENTS) // FILES :])


def test_it_writes_past_two_compactions(spark: SparkSession, tmp_path: Path) -> None:
    job = FileJob(spark, tmp_path)
    job.run(job.checkpoint, job.out)
    assert job.events_in(job.out) == sorted(EVENTS)
    branched, beside = tmp_path / "branch", tmp_path / "beside"
    command = ["restore", str(job.checkpoint), "--to-batch"]
    assert main([*command, "13", "--into", str(branched), "--new-file-sink", str(beside)]) == 0
    job.run(branched, beside)
    assert job.events_in(beside) == events_from(14)
    job.in_use_no_more()
    again, bare = tmp_path / "again", tmp_path / "bare"
    assert main([*command, "3", "--new-file-sink", str(again)]) == 0
    job.run(job.checkpoint, again)
    assert job.events_in(again) == events_from(4)
    assert {"9.compact", "19.compact"} <= {entry.name for entry in (again / sink_log.LOG).iterdir()}
    job.in_use_no_more()
    assert main([*command, "3"]) == 0
    with pytest.raises(StreamingQueryException, match="BATCH_METADATA_NOT_FOUND"):
        job.run(job.checkpoint, bare)  # as it is without: should Spark take it, the option is not needed any more


@pytest.mark.parametrize("interval", [10, 3, 30])
def test_sparks_log_goes_on_after_any_batch(interval: int, spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
    spark.conf.set(INTERVAL, interval)
    for batch in (*range(0 if interval >= 10 else 9, 33), 99, 1204):
        directory = tmp_path / str(batch)
        sink_log.begin(directory, batch)
        place = str(directory / sink_log.LOG)
        log = sinks.FileStreamSinkLog(1, spark._jsparkSession, place, jvm.scala.Option.empty())
        for later in range(batch + 1, batch + 35):
            files = spark.sparkContext._gateway.new_array(sinks.SinkFileStatus, 1)
            files[0] = sinks.SinkFileStatus(f"file:/rows/{later}", 1, False, 1, 1, 1, "add")
            assert log.add(later, files)
        read = sinks.FileStreamSinkLog(1, spark._jsparkSession, place, jvm.scala.Option.empty())
        found = [one.path() for one in read.allFiles()]
        assert found == [f"file:/rows/{later}" for later in range(batch + 1, batch + 35)], batch
    spark.conf.unset(INTERVAL)
