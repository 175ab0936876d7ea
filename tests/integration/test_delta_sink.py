"""A query that writes to a Delta table goes back to an earlier batch: each batch is in the table once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from mooring.checkpoint.state_table import DELTA_PACKAGE
from mooring.cli.main import main
from tests.integration.held_back import EVENTS, KINDS
from tests.integration.one_jvm import application, events_in_files
from tests.integration.one_query import Job, same

DELTA = {
    "spark.jars.packages": DELTA_PACKAGE,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
WRITER = "windows-to-delta"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with application(
        "delta-sink", tmp_path_factory.mktemp("delta-sink"), DELTA, drain_poll_interval="100ms"
    ) as session:
        yield session


class DeltaJob(Job):
    """Its batches are transactions of one writer, numbered by the batch."""

    def write(self, rows: DataFrame, batch: int, out: Path) -> None:
        numbered = rows.write.format("delta").mode("append").option("txnAppId", WRITER).option("txnVersion", batch)
        numbered.save(str(out))

    def rows(self, out: Path | None = None) -> DataFrame:
        return self.spark.read.format("delta").load(str(out or self.out))


@pytest.mark.parametrize(
    ("files", "back_to"),
    [pytest.param(60, 25, marks=pytest.mark.heavy, id="60 batches"), pytest.param(6, 2, id="6 batches")],
)
def test_a_batch_that_comes_again_after_a_rollback_is_in_the_table_once(
    files: int, back_to: int, spark: SparkSession, tmp_path: Path
) -> None:
    kind = KINDS["windows"]
    events = events_in_files(spark, tmp_path / "events", files).withWatermark("time", "10 seconds")
    job = DeltaJob(spark, tmp_path, kind.frame(events))
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
    transactions = spark.sql(f"DESCRIBE HISTORY delta.`{job.out}`").count()
    assert transactions >= files, "one for each batch that was new"
