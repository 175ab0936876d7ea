"""What is counted of each batch: every partition of the state once, whatever the numbers of the tasks are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.file_fed_job import batches_in, is_at_rest, status_in
from tests.integration.support.plugin_objects import plugins_object, private_field
from tests.integration.support.queries_with_pending_output import window_counts

pytestmark = pytest.mark.one_jvm

PARTITIONS = 8
QUERY_ID = "sql.streaming.queryId"


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
    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        events: Path,
        shape: Callable[[DataFrame], DataFrame],
        write: Callable[[DataFrame, int], None] | None = None,
    ) -> None:
        """With `write` the rows of each batch go to it."""
        self._place, self._checkpoint = spark.conf.get("spark.mooring.metadata"), directory / shape.__name__
        frame = spark.readStream.schema("key LONG, time TIMESTAMP").option("maxFilesPerTrigger", 1).json(str(events))
        writer = shape(frame.withWatermark("time", "10 seconds")).writeStream.outputMode("append")
        writer = writer.foreachBatch(write) if write else writer.format("noop")
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


SHAPES = [coalesced, beside_rows_without_state, pytest.param(of_equal_partitionings, marks=pytest.mark.heavy)]


@pytest.mark.parametrize("shape", SHAPES)
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


def test_tasks_of_an_action_count_as_placed_when_another_action_of_the_batch_has_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both actions of `foreachBatch` compute the same RDD, one partition each; then a third one computes all."""
    spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    events, held = tmp_path / "events", tmp_path / "held.json"
    events_in_files(spark, events, 2)
    (events / "1.json").rename(held)
    context, place = spark.sparkContext, plugins_object(spark, "io.mooring.placement.PlacedStages")
    gate, is_at_gate = tmp_path / "gate", tmp_path / "is at gate"

    def wait_at_gate(rows: Iterator[Any]) -> list[Any]:
        is_at_gate.touch()
        while gate.exists():
            time.sleep(0.05)
        return list(rows)

    def act_twice(rows: DataFrame) -> None:
        gate.touch()
        slow = InheritableThread(target=lambda: context.runJob(rows.rdd, wait_at_gate, [0]))
        slow.start()
        try:
            wait_until(is_at_gate.exists, "the first action to run", 60)
            tracker, group = context.statusTracker(), context.getLocalProperty("spark.jobGroup.id")
            known = set(tracker.getJobIdsForGroup(group))
            context.runJob(rows.rdd, list, [1])
            (job,) = set(tracker.getJobIdsForGroup(group)) - known
            stage = max(tracker.getJobInfo(job).stageIds)
            wait_until(lambda: place.statesOf(stage, 1).isEmpty(), "the end of the second action to be noted", 20)
        finally:
            gate.unlink()
            slow.join()

    def write(rows: DataFrame, batch: int) -> None:
        if held.exists() or is_at_gate.exists():
            rows.collect()
        else:
            act_twice(rows)
            rows.collect()

    query = Query(spark, tmp_path, events, window_counts, write)
    wait_until(lambda: query.batches >= 1 and query.is_seen(), "the first file", 120)
    before, batches = query.status()["counters"], query.batches
    held.rename(events / "1.json")
    wait_until(lambda: is_at_gate.exists() and query.is_seen(), "one file more", 120)
    counters = query.status()["counters"]
    asked = counters["preferred-host-requests"] - before["preferred-host-requests"]
    assert asked == PARTITIONS * (query.batches - batches) + 2
    query.query.stop()


def test_an_executor_is_awaited_only_for_tasks_that_have_not_ended(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    events_in_files(spark, tmp_path / "events", 3)
    context, place = spark.sparkContext, plugins_object(spark, "io.mooring.placement.PlacedStages")
    batches: list[int] = []
    wanted_in_batch: dict[int, int] = {}  # without those before the first plan

    def write(rows: DataFrame, batch: int) -> None:
        rows.collect()
        batches.append(batch)
        kept, query = list(private_field(place, "wantedByRdd").values()), context.getLocalProperty(QUERY_ID)
        for wanted in (one for one in kept if (one.query(), one.batch()) == (query, batch)):
            wait_until(lambda wanted=wanted: wanted.awaited().isEmpty(), "the ends of the tasks to be noted", 20)
            wanted_in_batch[batch] = len(private_field(wanted, "executors"))

    query = Query(spark, tmp_path, tmp_path / "events", window_counts, write)
    try:
        wait_until(lambda: query.batches >= 3 and query.is_seen(), "the files", 120)
        assert batches[-1] in wanted_in_batch and set(wanted_in_batch.values()) == {PARTITIONS}
    finally:
        query.query.stop()


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
        query.stop()  # type: ignore[attr-defined]
        wait_until(lambda: not kept(3), "the query's last batch to be forgotten", 20)
    finally:
        query.stop()  # type: ignore[attr-defined]
