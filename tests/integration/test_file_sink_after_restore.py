"""A query goes back to an earlier batch, and its file sink goes on in a directory that `--new-file-sink` has made.

Spark's log of such a sink has a compact entry at batch 9, 19, …, for which it wants all entries before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mooring.checkpoint import sink_log
from mooring.cli.main import main
from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.queries_with_pending_output import EVENTS
from tests.integration.support.query_in_one_jvm import Job

pytestmark = pytest.mark.one_jvm

INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"
BATCHES = (0, 8, 9, 18, 19, 24)
LATER = 22


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with application("file-sink", tmp_path_factory.mktemp("file-sink")) as session:
        yield session


class FileJob(Job):
    """One row for each event, in files of Spark's own sink; batch N reads file N."""

    def __init__(self, spark: SparkSession, directory: Path, files: int) -> None:
        events = events_in_files(spark, directory / "events", files)
        super().__init__(spark, directory, events.select("key", f.unix_millis("time").alias("time")))
        self._files = files

    def run(self, checkpoint: Path, out: Path) -> None:
        """Read all that is there, and end."""
        writer = self.frame.writeStream.outputMode("append").format("parquet").trigger(availableNow=True)
        self.query = writer.option("checkpointLocation", str(checkpoint)).start(str(out))
        self.query.awaitTermination()

    def events_in(self, out: Path) -> list[tuple[int, int]]:
        return sorted((row.key, row.time) for row in self.spark.read.parquet(str(out)).collect())

    def events_from(self, batch: int) -> list[tuple[int, int]]:
        """Those of the files from this one on."""
        return sorted(EVENTS[batch * len(EVENTS) // self._files :])


@pytest.mark.parametrize(
    ("files", "beside", "back_to", "compact"),
    [
        pytest.param(12, 8, 3, {"9.compact"}, id="past batch 9"),
        pytest.param(24, 13, 3, {"9.compact", "19.compact"}, marks=pytest.mark.heavy, id="past batch 19"),
    ],
)
def test_a_query_that_went_back_writes_past_compactions(
    files: int, beside: int, back_to: int, compact: set[str], spark: SparkSession, tmp_path: Path
) -> None:
    job = FileJob(spark, tmp_path, files)
    job.run(job.checkpoint, job.out)
    assert job.events_in(job.out) == sorted(EVENTS)
    branched, out = tmp_path / "branch", tmp_path / "beside"
    command = ["restore", str(job.checkpoint), "--to-batch"]
    assert main([*command, str(beside), "--into", str(branched), "--new-file-sink", str(out)]) == 0
    job.run(branched, out)
    assert job.events_in(out) == job.events_from(beside + 1)
    job.in_use_no_more()
    again = tmp_path / "again"
    assert main([*command, str(back_to), "--new-file-sink", str(again)]) == 0
    job.run(job.checkpoint, again)
    assert job.events_in(again) == job.events_from(back_to + 1)
    assert compact <= {entry.name for entry in (again / sink_log.LOG).iterdir()}


@pytest.mark.parametrize(
    "interval", [10, pytest.param(3, marks=pytest.mark.heavy), pytest.param(30, marks=pytest.mark.heavy)]
)
def test_sparks_log_goes_on_after_any_batch(interval: int, spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set(INTERVAL, interval)
    for batch in (one for one in BATCHES if interval >= 10 or one >= 9):
        sink_log.begin(tmp_path / str(batch), batch)
        _add(spark, tmp_path / str(batch), batch)
        assert _files(spark, tmp_path / str(batch)) == [_file(later) for later in _later(batch)], batch
    spark.conf.unset(INTERVAL)


def test_sparks_log_does_not_begin_in_between(spark: SparkSession, tmp_path: Path) -> None:
    """Should Spark take that one day, `--new-file-sink` is not needed any more."""
    with pytest.raises(Py4JJavaError, match="BATCH_METADATA_NOT_FOUND"):
        _add(spark, tmp_path, 3)
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        _files(spark, tmp_path)


def _log(spark: SparkSession, directory: Path) -> Any:
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.execution.streaming.sinks.FileStreamSinkLog
    return log(1, spark._jsparkSession, str(directory / sink_log.LOG), jvm.scala.Option.empty())


def _later(batch: int) -> range:
    return range(batch + 1, batch + 1 + LATER)


def _file(batch: int) -> str:
    return f"file:/rows/{batch}"


def _add(spark: SparkSession, directory: Path, after: int) -> None:
    """An entry with a file for each later batch."""
    jvm: Any = spark._jvm
    status = jvm.org.apache.spark.sql.execution.streaming.sinks.SinkFileStatus
    log = _log(spark, directory)
    for batch in _later(after):
        files = spark.sparkContext._gateway.new_array(status, 1)
        files[0] = status(_file(batch), 1, False, 1, 1, 1, "add")
        assert log.add(batch, files)


def _files(spark: SparkSession, directory: Path) -> list[str]:
    return [one.path() for one in _log(spark, directory).allFiles()]
