"""Drains that meet a fault before the query is in their hands, and what is kept of runs that are over: in one JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mooring.client import MooringClient
from mooring.drain.notification import StopMode
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.drained_query import Run
from tests.integration.support.file_fed_job import status_in
from tests.integration.support.plugin_objects import call_private, plugins_object, private_field
from tests.integration.support.queries_with_pending_output import window_counts
from tests.integration.support.store_with_open_copy import CORE_SHIMS, STATE_SHIMS

pytestmark = pytest.mark.one_jvm


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with application("drain faults", tmp_path_factory.mktemp("faults"), drain_poll_interval="100ms") as session:
        yield session


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    """A query that has run a batch, and waits an hour for its next trigger."""
    events = events_in_files(spark, tmp_path / "events", 2).withWatermark("time", "10 seconds")
    name = request.node.name.translate({ord(sign): "_" for sign in "[]- "})
    run = Run(spark, tmp_path, name, window_counts(events), processingTime="1 hour")
    wait_until(lambda: bool(run.query.lastProgress), "the first batch", 60)
    yield run
    run.query.stop()


@contextmanager
def sources_that_are_gone(run: Run) -> Iterator[None]:
    """The valve can not be put among the sources of the query. The query asks them at its next trigger only."""
    execution = run.query._jsq.streamingQuery()
    sources = plugins_object(run.spark, f"{CORE_SHIMS}.SparkInternals").queryUniqueSources().member()
    before = sources.get(execution)
    sources.set(execution, None)
    yield
    sources.set(execution, before)


@contextmanager
def a_log_that_can_not_be_read(run: Run) -> Iterator[None]:
    entry = run.checkpoint / "commits" / "0"
    before = entry.read_bytes()
    entry.write_bytes(b"half")
    yield
    entry.write_bytes(before)


@pytest.mark.parametrize("fault", [sources_that_are_gone, a_log_that_can_not_be_read], ids=lambda fault: fault.__name__)
def test_a_drain_that_a_fault_keeps_from_beginning_is_refused_with_the_reason(
    fault: Callable[[Run], AbstractContextManager[None]], spark: SparkSession, run: Run
) -> None:
    place = spark.conf.get("spark.mooring.metadata")
    with fault(run), MooringClient.open(place) as client:
        uuid = client.drain(spark.sparkContext.applicationId, run.name)
        wait_until(lambda: not client.is_drain_open(uuid), "the answer", 30)
    wait_until(lambda: bool(reports(place, run)), "the status to have it", 20)
    (report,) = reports(place, run)
    assert report["phase"] == "refused" and "Exception" in report["reason"]
    assert run.query.isActive and not run.is_told()
    assert run.drain()["state-rows-left"] == 0, "the next drain begins anew"


def test_a_query_whose_log_can_not_be_read_is_stopped_now(spark: SparkSession, run: Run) -> None:
    with a_log_that_can_not_be_read(run), MooringClient.open(spark.conf.get("spark.mooring.metadata")) as client:
        client.stop(spark.sparkContext.applicationId, StopMode.NOW, run.name)
        wait_until(lambda: not run.query.isActive, "the query to end", 30)


def reports(place: str, run: Run) -> list[dict[str, Any]]:
    return [row for row in status_in(place).get("drains", []) if row["query"] == run.name]


def test_a_run_that_is_over_is_not_kept_among_the_drains(spark: SparkSession, run: Run) -> None:
    driver = plugins_object(spark, "io.mooring.driver.Driver").current().get()
    drains = driver.drains()
    runs = private_field(drains, "runs")
    query = plugins_object(spark, f"{STATE_SHIMS}.StreamShims").query(run.query.id).get()
    call_private(spark, drains, "runOf", query)
    assert runs.containsKey(run.query.runId)
    run.query.stop()
    wait_until(lambda: not runs.containsKey(run.query.runId), "the end of the run to be noted", 20)
    call_private(spark, drains, "runOf", query)  # as for a report that the stream's thread sends at its end
    assert not runs.containsKey(run.query.runId)
