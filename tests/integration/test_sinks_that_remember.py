"""A query goes back to an earlier batch, and its sink remembers those after it: each is there once, and its state too.

Such a sink takes a batch that comes again for one that it has, and does not compute it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from mooring.cli.main import main
from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.queries_with_pending_output import EVENTS, KINDS
from tests.integration.support.query_in_one_jvm import Job, same
from tests.integration.support.spark_packages import delta

pytestmark = [pytest.mark.one_jvm, pytest.mark.heavy]

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # of a log with a few files; fifty by default
}
WRITER = "windows-to-delta"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    here = tmp_path_factory.mktemp("sinks")
    with application("sinks", here, {**DELTA, "spark.jars.packages": delta()}, drain_poll_interval="100ms") as session:
        yield session


class NumberedJob(Job):
    """As docs/guides/checkpoints.md has it: the batches are transactions of one writer, numbered by the batch."""

    format = "delta"
    writer = WRITER

    def write(self, rows: DataFrame, batch: int, out: Path) -> None:
        numbered = rows.write.format("delta").mode("append").option("txnAppId", self.writer)
        numbered = numbered.option("txnVersion", batch)
        numbered.save(str(out))

    def rows(self, out: Path | None = None) -> DataFrame:
        return self.spark.read.format(self.format).load(str(out or self.out))

    def version_after(self, batch: int) -> int:
        """The version of the table that has all until this batch."""
        logs = sorted((self.out / "_delta_log").glob("*.json"))
        actions = [(int(log.stem), json.loads(line)) for log in logs for line in log.read_text().splitlines()]
        return next(version for version, action in actions if action.get("txn", {}).get("version") == batch)


class DeltaJob(NumberedJob):
    """Spark's own way to write a stream into a table."""

    def start(self, checkpoint: Path | None = None, out: Path | None = None) -> StreamingQuery:
        writer = self.frame.writeStream.outputMode("append").format(self.format)
        self.query = writer.option("checkpointLocation", str(checkpoint or self.checkpoint)).start(str(out or self.out))
        return self.query


class FileJob(DeltaJob):
    format = "parquet"


@pytest.mark.parametrize(
    ("made", "files", "back_to"),
    [
        pytest.param(NumberedJob, 6, 2, id="foreachBatch"),
        pytest.param(NumberedJob, 60, 25, id="foreachBatch, 60 batches"),
        pytest.param(DeltaJob, 6, 2, id="delta"),
        pytest.param(FileJob, 6, 2, id="files"),
    ],
)
def test_a_batch_that_comes_again_after_a_rollback_is_in_the_sink_once(
    made: type[NumberedJob], files: int, back_to: int, spark: SparkSession, tmp_path: Path
) -> None:
    kind = KINDS["windows"]
    events = events_in_files(spark, tmp_path / "events", files).withWatermark("time", "10 seconds")
    job = made(spark, tmp_path, kind.frame(events))
    job.start()
    job.read_all(seconds=90 + 4 * files)
    job.stop()
    before = sorted(job.rows().collect())
    assert before, "windows were written before"
    assert main(["restore", str(job.checkpoint), "--to-batch", str(back_to)]) == 0
    job.start()
    job.read_all(len(EVENTS) * (files - 1 - back_to) // files, seconds=90 + 4 * files)
    job.stop()
    assert sorted(job.rows().collect()) == before
    job.start()
    job.drain()
    same(job, job.rows(), kind)


@pytest.mark.parametrize(
    ("made", "into"),
    [
        pytest.param(NumberedJob, False, id="foreachBatch by another txnAppId"),
        pytest.param(DeltaJob, True, id="delta by --into"),
    ],
)
def test_a_run_of_another_identity_writes_again_into_a_table_that_was_taken_back(
    made: type[NumberedJob], into: bool, spark: SparkSession, tmp_path: Path
) -> None:
    kind, back_to = KINDS["windows"], 2
    events = events_in_files(spark, tmp_path / "events", 6).withWatermark("time", "10 seconds")
    job = made(spark, tmp_path, kind.frame(events))
    job.start()
    job.read_all(seconds=180)
    job.stop()
    before = sorted(job.rows().collect())
    checkpoint = tmp_path / "branch" if into else job.checkpoint
    options = ["--into", str(checkpoint)] if into else []
    assert main(["restore", str(job.checkpoint), "--to-batch", str(back_to), *options]) == 0
    spark.sql(f"RESTORE TABLE delta.`{job.out}` TO VERSION AS OF {job.version_after(back_to)}")
    left = sorted(job.rows().collect())
    assert len(left) < len(before)
    job.writer = f"{WRITER} again"
    job.start(checkpoint)
    job.read_all(len(EVENTS) * 3 // 6, seconds=180)
    job.checkpoint = checkpoint
    job.stop()
    assert sorted(job.rows().collect()) == before
    job.start(checkpoint)
    job.drain()
    same(job, job.rows(), kind)
