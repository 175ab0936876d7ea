"""Events of executors that Spark reports late, or in another order than they have happened: in one JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.support.plugin_objects import private_field
from tests.integration.support.store_with_open_copy import SCHEDULER_SHIMS, scala_object, scala_session

pytestmark = pytest.mark.one_jvm


def test_an_executor_that_is_lost_before_its_coming_is_noted_is_not_alive(jvm: Any) -> None:
    """Spark's scheduler tells of the loss at once. Its listeners may learn much later that the executor has come."""
    table = jvm.io.mooring.placement.PlacementTable()
    table.executorLost("1")
    for executor in ("1", "2"):
        table.executorAdded(executor, "a host")
    assert [table.isAlive(executor) for executor in ("1", "2")] == [False, True]


@pytest.fixture(scope="module")
def context(jvm: Any) -> Iterator[Any]:
    with scala_session(jvm, "late events", {}) as session:
        yield session.sparkContext()


class Reports:
    """The driver's half that handles reports of executors, and the events that it queues for the agent."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        none = jvm.scala.Option.apply(None)
        self._table = table = jvm.io.mooring.placement.PlacementTable()
        self.bridge = jvm.io.mooring.agent.Bridge(table, none, None)
        self.bridge.announce(3)
        self.registry = jvm.io.mooring.driver.ExecutorRegistry(self.bridge)
        self._warmups = warmups = jvm.io.mooring.warmup.WarmupProfiles()
        self._handler = jvm.io.mooring.driver.ExecutorReportHandler(
            None, self.bridge, table, none, none, self.registry, warmups, None
        )
        table.executorAdded("1", "a host")
        self.registry.added("1", "a host", 2)
        with pytest.raises(
            Py4JJavaError
        ):  # the bridge has nobody who could tell a new agent; it queues events from now on
            self.bridge.hello()

    def report_version(self, version: int) -> None:
        self._handler.receive(json.dumps({"report": "version", "executor": "1", "version": version}))

    def cluster_watch(self, context: Any) -> Any:
        """The listener that follows executors, in an application without standbys and without placed queries."""
        none = self._jvm.scala.Option.apply(None)
        return self._jvm.io.mooring.driver.ClusterWatch(
            context, self.bridge, self._table, None, none, False, self.registry, self._handler, self._warmups, none
        )

    def events(self) -> list[str]:
        return [event["event"] for event in json.loads(self.bridge.pollEvents(0))]


def test_a_version_that_is_reported_again_makes_one_event(jvm: Any) -> None:
    reports = Reports(jvm)
    for version in (3, 3, 4):
        reports.report_version(version)
    assert reports.events() == ["PlanPickedUp", "PlanPickedUp"]


def test_a_report_that_is_handled_while_its_executor_is_removed_makes_no_event(jvm: Any) -> None:
    """The report was found to come from a living executor just before."""
    reports = Reports(jvm)
    reports.registry.removed("1", "on purpose")
    reports.report_version(3)
    assert reports.events() == ["ExecutorLost"]


def test_a_location_that_is_reported_after_the_removal_is_not_kept(jvm: Any) -> None:
    reports = Reports(jvm)
    reports.registry.removed("1", "on purpose")
    reports.registry.located("1", "a host", "")
    reports.registry.added("1", "a host", 2)
    assert reports.events() == ["ExecutorLost"]
    for kept in ("locationAndZone", "hostAndCores"):
        assert private_field(reports.registry, kept).isEmpty(), kept


def test_a_second_event_about_a_removed_executor_makes_no_event(jvm: Any, context: Any) -> None:
    """Kubernetes causes it when it deletes the pod of an executor."""
    reports = Reports(jvm)
    watch = reports.cluster_watch(context)
    for _ in range(2):
        watch.onExecutorRemoved(jvm.org.apache.spark.scheduler.SparkListenerExecutorRemoved(0, "1", "killed"))
    assert reports.events() == ["ExecutorLost"]


def test_each_listener_has_a_queue_of_its_own(jvm: Any, context: Any) -> None:
    """The watch of the cluster may wait for Spark after a loss. Tasks that hang are killed meanwhile."""
    watch, stuck = Reports(jvm).cluster_watch(context), jvm.io.mooring.standby.StuckTasks(context)
    try:
        for listener in (watch, stuck):
            scala_object(jvm, f"{SCHEDULER_SHIMS}.ListenerShim").add(context, listener)
        queues = context.listenerBus().activeQueues()
        assert all(queues.contains(f"mooring-{listener}") for listener in ("ClusterWatch", "StuckTasks")), queues
    finally:
        for listener in (watch, stuck):
            context.removeSparkListener(listener)
        stuck.stop()


def test_a_redirection_covers_the_failures_before_its_begin(jvm: Any) -> None:
    failed = jvm.io.mooring.driver.FailedTasks()
    assert failed.needRedirection(100, 200)
    assert not any(failed.needRedirection(at, 201 + at) for at in (100, 150, 199)), "they are covered since 200"
    assert failed.needRedirection(200, 500), "it may have come just after the begin"
    assert not failed.needRedirection(499, 600) and failed.needRedirection(500, 600)
    assert failed.needRedirection(50, 60), "the clock was set back"
