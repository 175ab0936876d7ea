"""What Spark's scheduler knows of executors that get no tasks, as the plan's table sees it: in one JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from tests.integration.support.store_with_open_copy import scala_object

QUERY = "one"
ROWS = {"0": ["1", "2"], "1": ["2", "1"], "2": ["1"]}


@pytest.fixture(scope="module")
def context(jvm: Any) -> Iterator[Any]:
    """An application that leaves executors out after failures, each for a moment."""
    conf = jvm.org.apache.spark.SparkConf(True).setMaster("local[1]").setAppName("withheld")
    conf = conf.set("spark.ui.enabled", "false").set("spark.excludeOnFailure.enabled", "true")
    conf = conf.set("spark.excludeOnFailure.application.fetchFailure.enabled", "true")
    java_context = jvm.org.apache.spark.api.java.JavaSparkContext(conf.set("spark.excludeOnFailure.timeout", "300ms"))
    yield java_context.sc()
    java_context.stop()


class Table:
    """The table of a plan for two executors, and what keeps it from those that get no tasks."""

    def __init__(self, jvm: Any, context: Any) -> None:
        self.health = context.taskScheduler().healthTrackerOpt().get()
        self.table = jvm.io.mooring.placement.PlacementTable()
        self.table.executorAdded("1", "first")
        self.table.executorAdded("2", "second")
        plan = json.dumps({"version": 1, "queries": {QUERY: ROWS}, "standbys": {QUERY: {"0": ["1", "2"]}}})
        self.table.accept(scala_object(jvm, "io.mooring.placement.Plan").parse(plan))
        bridge = jvm.io.mooring.agent.Bridge(self.table, jvm.scala.Option.apply(None), None)
        self.withheld = jvm.io.mooring.driver.WithholdingWatch(context, self.table, bridge)

    def preferred(self) -> list[str | None]:
        """The executor of each partition."""
        found = [self.table.preferred(QUERY, partition) for partition in range(len(ROWS))]
        return [one.get()._1() if one.isDefined() else None for one in found]

    def holders(self) -> str:
        return str(self.table.standbys(QUERY).toString())

    def waits_until_all_get_tasks(self) -> None:
        def ended() -> bool:
            self.health.applyExcludeOnFailureTimeout()  # as Spark does when it offers executors
            return bool(self.withheld.refresh())

        wait_until(ended, "the exclusion to end", 10, interval=0.05)


@pytest.fixture
def table(jvm: Any, context: Any) -> Table:
    return Table(jvm, context)


def test_rows_fall_to_the_next_executor_while_one_is_excluded(table: Table) -> None:
    assert not table.withheld.refresh() and table.preferred() == ["1", "2", "1"]
    table.health.updateExcludedForFetchFailure("first", "1")
    assert table.withheld.refresh() and not table.withheld.refresh(), "it is news once"
    assert table.preferred() == ["2", "2", None], "where none is left Spark decides"
    assert "(2,second)" not in table.holders(), "it runs the task"
    assert "(1,first)" not in table.holders(), "it can bring no copy up to date"
    table.waits_until_all_get_tasks()
    assert table.preferred() == ["1", "2", "1"] and "(2,second)" in table.holders()


def test_an_executor_that_comes_to_an_excluded_host_gets_none_either(table: Table, context: Any) -> None:
    context.conf().set("spark.shuffle.service.enabled", "true")  # then it is the host that is excluded
    table.health.updateExcludedForFetchFailure("second", "2")
    context.conf().set("spark.shuffle.service.enabled", "false")
    assert table.withheld.refresh() and table.preferred() == ["1", "1", "1"]
    table.table.executorLost("2")
    table.table.executorAdded("3", "second")
    assert table.withheld.refresh() and not table.table.isUsable("3")
    table.waits_until_all_get_tasks()
    assert table.table.isUsable("3")


def test_a_loss_is_no_news_of_that_kind_twice(table: Table) -> None:
    table.health.updateExcludedForFetchFailure("first", "1")
    assert table.withheld.refresh()
    table.table.executorLost("1")
    assert table.withheld.refresh() and not table.withheld.refresh()
    assert table.preferred() == ["2", "2", None]
    wait_until(lambda: _is_over(table), "the exclusion to end", 10, interval=0.05)


def test_only_an_exclusion_and_its_end_are_warned_of(jvm: Any) -> None:
    removed = scala_object(jvm, "org.apache.spark.scheduler.shims.Withholding").ToBeRemoved()
    excluded = "Spark has excluded it after failures"
    lines = Lines(jvm, {"1": "first", "2": "second"})
    gone = [f"executor 1 on first gets no tasks: {removed}; its tasks run elsewhere meanwhile"]
    bad = [f"executor 1 on first gets no tasks: {excluded}; its tasks run elsewhere meanwhile"]
    well = ["executor 1 gets tasks again: those that the plan has there return to it"]
    assert lines.of({}, {"1": removed}) == (gone, [])
    assert lines.of({"1": removed}, {}) == ([], []), "Spark has removed it, and its listeners are told later"
    assert lines.of({"1": removed}, {"1": removed, "2": excluded})[0] == [], "it was said before"
    assert lines.of({}, {"1": excluded}) == ([], bad)
    assert lines.of({"1": excluded}, {}) == ([], well)
    assert lines.of({"1": excluded}, {}, lost="1") == ([], [])
    assert lines.of({"1": excluded}, {"1": removed}) == (gone, []), "it gets none again"
    assert lines.of({"1": removed}, {"1": excluded}) == ([], bad)


class Lines:
    """What the log says when executors get no tasks any more, or get them again: what is ordinary, and warnings."""

    def __init__(self, jvm: Any, hosts: dict[str, str]) -> None:
        self._jvm, self._hosts = jvm, hosts
        self._decides = scala_object(jvm, "io.mooring.driver.WithholdingWatch")

    def of(self, before: dict[str, str], now: dict[str, str], lost: str | None = None) -> tuple[list[str], list[str]]:
        living = {executor: host for executor, host in self._hosts.items() if executor != lost}
        lines = self._decides.lines(self._map(before), self._map(now), self._map(living))
        return self._list(lines.ordinary()), self._list(lines.warnings())

    def _map(self, python: dict[str, str]) -> Any:
        scala = scala_object(self._jvm, "scala.collection.immutable.Map").empty()
        for key, value in python.items():
            scala = scala.updated(key, value)
        return scala

    def _list(self, scala: Any) -> list[str]:
        return [scala.apply(at) for at in range(scala.size())]


def _is_over(table: Table) -> bool:
    table.health.applyExcludeOnFailureTimeout()
    return not table.health.isExecutorExcluded("1")
