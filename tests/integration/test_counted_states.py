"""What is counted of each batch: every partition of the state once, whatever the numbers of the tasks are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.file_fed_job import batches_in, is_at_rest, status_in
from tests.integration.support.queries_with_pending_output import window_counts

pytestmark = pytest.mark.one_jvm

PARTITIONS = 8


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with application("counted", tmp_path_factory.mktemp("counted")) as session:
        yield session


def coalesced(events: DataFrame) -> DataFrame:
    return window_counts(events).coalesce(3)


def beside_rows_without_state(events: DataFrame) -> DataFrame:
    """In the union these come first: the tasks with state have other numbers than its partitions."""
    rows = events.select(f.unix_millis("time").alias("start"), "key", f.lit(1).cast("long").alias("events"))
    return rows.union(window_counts(events))


def of_equal_partitionings(events: DataFrame) -> DataFrame:
    """Spark makes one task of the two sides' partitions of a number."""
    return events.dropDuplicates(["key", "time"]).union(events.dropDuplicates(["key", "time"]))


class Query:
    def __init__(self, spark: SparkSession, directory: Path, events: Path, shape: Any) -> None:
        self._place, self._checkpoint = spark.conf.get("spark.mooring.metadata"), directory / shape.__name__
        frame = spark.readStream.schema("key LONG, time TIMESTAMP").option("maxFilesPerTrigger", 1).json(str(events))
        writer = shape(frame.withWatermark("time", "10 seconds")).writeStream.format("noop").outputMode("append")
        self.query = writer.option("checkpointLocation", str(self._checkpoint)).start()

    def status(self) -> dict[str, Any]:
        return status_in(self._place)

    def tasks(self) -> list[dict[str, Any]]:
        """Those of the status that are this query's."""
        status = self.status()
        (name,) = (query["name"] for query in status["queries"] if query["id"] == self.query.id)
        return [task for task in status["tasks"] if task["name"].startswith(f"{name}/")]

    @property
    def batches(self) -> int:
        return len(batches_in(self._checkpoint, "commits"))

    def is_seen(self) -> bool:
        """No batch is under way, and the status is of the last one."""
        assert self.query.exception() is None
        shown = [query["batch"] for query in self.status().get("queries", []) if query["id"] == self.query.id]
        return is_at_rest(self._checkpoint) and shown == [self.batches - 1]


@pytest.mark.parametrize("shape", [coalesced, beside_rows_without_state, of_equal_partitionings])
def test_each_partition_of_the_state_is_counted_once_a_batch(shape: Any, spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    events = tmp_path / "events"
    events_in_files(spark, events, 4)
    held = tmp_path / "held.json"
    (events / "3.json").rename(held)
    query = Query(spark, tmp_path, events, shape)
    wait_until(lambda: query.batches >= 3 and query.is_seen(), "the first files", 120)
    before, batches = query.status()["counters"], query.batches
    held.rename(events / "3.json")
    wait_until(lambda: query.batches > batches and query.is_seen(), "one file more", 60)
    counters, tasks = query.status()["counters"], query.tasks()
    assert len(tasks) == PARTITIONS and not any(task.get("not-placed") for task in tasks)
    asked, obeyed = (counters[name] - before[name] for name in ("preferred-host-requests", "placed-as-planned"))
    assert asked == obeyed == PARTITIONS * (query.batches - batches)
    query.query.stop()


def plugins_object(spark: SparkSession, name: str) -> Any:
    """An object of the plugin's, which has come with the application's jars."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)


def test_nothing_is_kept_of_earlier_batches_in_which_jobs_failed(spark: SparkSession, tmp_path: Path) -> None:
    counted = window_counts(events_in_files(spark, tmp_path / "events", 4).withWatermark("time", "10 seconds"))
    failed, stages = [], {}
    tracker = spark.sparkContext.statusTracker()

    def write(rows: DataFrame, batch: int) -> None:
        query = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
        known = {job for job in tracker.getJobIdsForGroup(query)}
        try:
            rows.select(f.raise_error(f.lit("on purpose"))).collect()
        except PySparkException:
            failed.append(batch)
        jobs = set(tracker.getJobIdsForGroup(query)) - known
        stages[batch] = [stage for job in jobs for stage in tracker.getJobInfo(job).stageIds]
        rows.collect()

    query = counted.writeStream.outputMode("complete").foreachBatch(write)
    query = query.option("checkpointLocation", str(tmp_path / "it")).start()
    try:
        wait_until(lambda: len(failed) >= 4, "four batches with a job that fails", 120)
        placed = plugins_object(spark, "io.mooring.placement.PlacedStages")

        def kept(batch: int) -> bool:
            return any(placed.statesOf(stage, 0).nonEmpty() for stage in stages[batch])

        assert failed[:4] == [0, 1, 2, 3] and kept(3), "of the last one until the next ends, or the query"
        wait_until(lambda: not any(kept(batch) for batch in range(3)), "earlier batches to be forgotten", 20)
        query.stop()
        wait_until(lambda: not kept(3), "the query's last batch to be forgotten", 20)
    finally:
        query.stop()
