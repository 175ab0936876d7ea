"""A query starts where its state is not any more: its files come by several streams, and the answer is the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mooring.cli.records import CommandRecords
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application
from tests.integration.support.job_outputs import last_commit
from tests.integration.support.plugin_objects import plugins_object, private_field
from tests.integration.support.queries_with_pending_output import EVENTS, KINDS
from tests.integration.support.query_in_one_jvm import HalfJob, Job, same

pytestmark = pytest.mark.one_jvm

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
BRIEF = [
    ("true", "2"),
    pytest.param(("false", "2"), marks=pytest.mark.heavy),
    pytest.param(("false", "1"), marks=pytest.mark.heavy),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prefetch")


@pytest.fixture(scope="module")
def spark(here: Path) -> Iterator[SparkSession]:
    with application("prefetch", here) as session:
        yield session


@pytest.fixture(params=BRIEF, ids=lambda how: f"changelogs {how[0]}, format {how[1]}")
def written(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[tuple[str, str]]:
    """How the state is checkpointed."""
    changelog, version = request.param
    spark.conf.set(CHANGELOG, changelog)
    spark.conf.set(FORMAT, version)
    yield request.param
    spark.conf.unset(CHANGELOG)
    spark.conf.unset(FORMAT)


@pytest.mark.parametrize(
    "kind", ["sessions into windows", pytest.param("outer join into windows", marks=pytest.mark.heavy)]
)
def test_what_a_host_has_lost_is_fetched_before_the_tasks_ask_for_it(
    kind: str, written: tuple[str, str], spark: SparkSession, here: Path, tmp_path: Path
) -> None:
    job = HalfJob(spark, tmp_path, KINDS[kind])
    for owner in (here / "store").glob("*/OWNER"):
        shutil.rmtree(owner.parent)
    job.bring_the_rest()
    job.start()
    wait_until(lambda: _are_all_fetched(here, job), "the agent to say what was fetched", 60)
    job.read_all(len(EVENTS) // 2)
    opened = _opened(job)
    (row,) = _fetched(here, job)
    if written[1] == "2":  # of format 1 archives are not kept, so the opening reads them itself
        assert row["bytes"] >= opened["mooring.restore-bytes-remote"]
    if written != ("true", "2"):  # there changelogs are all that there is as yet, which do not count
        assert opened["mooring.restore-bytes-remote"] > 0
    assert opened["mooring.restore-bytes-local"] == 0
    job.drain()
    same(job, job.rows(), KINDS[kind])


def test_after_a_repartition_the_state_of_all_partitions_is_fetched(
    spark: SparkSession, here: Path, tmp_path: Path
) -> None:
    kind = KINDS["sessions into windows"]
    job = HalfJob(spark, tmp_path, kind)
    spark.conf.set(FORMAT, "2")
    spark._streamingCheckpointManager.repartition(str(job.checkpoint), 3)
    spark.conf.unset(FORMAT)
    for owner in (here / "store").glob("*/OWNER"):
        shutil.rmtree(owner.parent)
    job.bring_the_rest()
    job.start()
    wait_until(lambda: _are_all_fetched(here, job), "the agent to say what was fetched", 60)
    (row,) = _fetched(here, job)
    assert row["stores"] == 6, "two operators have three partitions each now"
    job.read_all(len(EVENTS) // 2)
    job.drain()
    same(job, job.rows(), kind)


def test_state_after_the_first_batch_of_all_is_fetched_by_its_changelogs(
    spark: SparkSession, here: Path, tmp_path: Path
) -> None:
    spark.conf.set(CHANGELOG, "true")
    lines = tmp_path / "lines"
    lines.mkdir()
    (lines / "0.txt").write_text("a\nb\nb\n")
    job = Job(spark, tmp_path, spark.readStream.text(str(lines)).dropDuplicates())
    job.start()
    job.read_all(3)
    job.stop()
    for owner in (here / "store").glob("*/OWNER"):
        shutil.rmtree(owner.parent)
    (lines / "1.txt").write_text("b\nc\n")
    job.start()
    wait_until(lambda: _are_all_fetched(here, job), "the agent to say what was fetched", 60)
    (row,) = _fetched(here, job)
    assert row["bytes"] > 0
    job.read_all(2)
    job.stop()
    spark.conf.unset(CHANGELOG)
    assert sorted(row.value for row in job.rows().collect()) == ["a", "b", "c"]


def test_what_the_host_has_is_not_fetched(spark: SparkSession, here: Path, tmp_path: Path) -> None:
    kind = KINDS["sessions into windows"]
    job = HalfJob(spark, tmp_path, kind)
    job.bring_the_rest()
    job.start()
    job.read_all(len(EVENTS) // 2)
    wait_until(
        lambda: _told_batch(here, job) == last_commit(job.checkpoint), "the agent to have told of the last batch", 60
    )
    assert _opened(job)["mooring.restore-bytes-remote"] == 0 and _fetched(here, job) == []
    job.drain()
    same(job, job.rows(), kind)


def test_the_driver_refers_to_what_executors_read_for_as_long_as_the_run_lasts(
    spark: SparkSession, here: Path, tmp_path: Path
) -> None:
    """Spark removes a broadcast to which the driver does not refer. Executors may fetch for longer than the job."""
    job = HalfJob(spark, tmp_path, KINDS["sessions into windows"])
    for owner in (here / "store").glob("*/OWNER"):
        shutil.rmtree(owner.parent)
    job.bring_the_rest()
    job.start()
    wait_until(lambda: _are_all_fetched(here, job), "the agent to say what was fetched", 60)
    driver = plugins_object(spark, "io.mooring.driver.Driver").current().get()
    accesses = private_field(private_field(driver, "prefetches").get(), "accesses")
    assert accesses.containsKey(job.running.runId)
    job.read_all(len(EVENTS) // 2)
    job.stop()
    wait_until(lambda: not accesses.containsKey(job.running.runId), "the end of the run to be noted", 20)


def _told_batch(here: Path, job: Job) -> int:
    """The last batch of the query that the status knows of; -1 for none."""
    queries = CommandRecords(str(here / "metadata")).status_if_any().get("queries", [])
    return max((query["batch"] for query in queries if query["id"] == job.running.id), default=-1)


def _fetched(here: Path, job: Job) -> list[dict[str, Any]]:
    status = CommandRecords(str(here / "metadata")).status_if_any()
    labels = [query["name"] for query in status.get("queries", []) if query["id"] == job.running.id]
    return [row for row in status.get("restores", []) if row["query"] in labels]


def _are_all_fetched(here: Path, job: Job) -> bool:
    return [row["done"] - row["stores"] for row in _fetched(here, job)] == [0]


def _opened(job: Job) -> dict[str, int]:
    """What the openings of the run's first batch with state read, over all operators."""
    first = next(progress for progress in job.running.recentProgress if progress["stateOperators"])
    names = ("mooring.restore-bytes-remote", "mooring.restore-bytes-local")
    return {name: sum(operator["customMetrics"][name] for operator in first["stateOperators"]) for name in names}
