"""What the status, the metrics and the plan for the JVM say of standbys."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mooring.agent.counters import Counters
from mooring.agent.status import metrics_of, status_of
from mooring.cli.status import as_text
from mooring.model import events
from mooring.model.event_json import read_event
from mooring.model.orders import PublishPlan
from mooring.spark.bridge import plan_as_json
from tests.unit.agent.builders import Story, running


def opened(local_files: int, remote_bytes: int, milliseconds: int) -> events.Event:
    remote_files = 1 if remote_bytes else 0
    return events.StoreOpened(
        0, "1", "file:/ck/q/state/0/0", 3, milliseconds, local_files, 10, remote_files, remote_bytes, 0, 0
    )


def measured(story: Story) -> Counters:
    """State of 2,000 bytes a task, fetched at 100 bytes a millisecond, opened locally in 40 ms."""
    for partition in range(6):
        story.take(events.StateMeasured(0, "1", f"file:/ck/q/state/0/{partition}", 2_000))
    tally = Counters()
    for event in (opened(3, 0, 30), opened(3, 0, 50), opened(0, 5_000, 50)):
        tally.count(event)
    return tally


def tasks(story: Story, tally: Counters | None = None, mode: str = "Active") -> list[dict]:
    status = status_of(story.state.fleet, tally or Counters(), 0)
    return [task for task in status["tasks"] if task["mode"] == mode]


def test_standbys_are_listed_with_how_far_they_are() -> None:
    story = running(partitions=6, factor=2)
    assert {task["lag-versions"] for task in tasks(story, mode="Standby")} == {None}
    story.sees_copies("1", "2", "3", behind=2)
    rows = tasks(story, mode="Standby")
    assert sorted(row["name"] for row in rows) == [f"Standby-q/Partition {p}-0" for p in range(6)]
    assert {(row["lag-versions"], row["lag-ms"], row["local-bytes"]) for row in rows} == {(2, 500, 1_000)}
    status = status_of(story.state.fleet, Counters(), 0)
    listed = [name for processor in status["processors"] for name in processor["standby-tasks"]]
    assert sorted(listed) == sorted(row["name"] for row in rows)
    assert all("Standby" not in name for processor in status["processors"] for name in processor["tasks"])


def test_recovery_is_estimated_from_what_was_measured() -> None:
    story = running(partitions=6, factor=2)
    assert {task["estimated-recovery-seconds"] for task in tasks(story)} == {None}
    tally = measured(story)
    assert {task["estimated-recovery-seconds"] for task in tasks(story, tally)} == {0.06}
    story.sees_copies("1", "2", "3", behind=1)
    assert {task["estimated-recovery-seconds"] for task in tasks(story, tally)} == {0.06}
    story.sees_copies("1", "2", "3")
    assert {task["estimated-recovery-seconds"] for task in tasks(story, tally)} == {0.04}


def test_what_was_fetched_ahead_counts_with_the_time_that_it_took() -> None:
    tally = Counters()
    tally.count(opened(3, 0, 30))
    tally.count(replace(opened(0, 5_000, 50), ahead_ms=450))  # type: ignore[call-arg]
    assert tally.recovery_seconds(2_000) == 0.23, "at ten bytes a millisecond, and 30 ms to open"


def test_recovery_is_not_known_without_a_rate() -> None:
    assert Counters().recovery_seconds(0) is None
    tally = Counters()
    tally.count(opened(3, 0, 30))
    assert tally.recovery_seconds(0) == 0.03
    assert tally.recovery_seconds(100) is None and tally.recovery_seconds(None) is None


def test_counters_and_gauges_tell_failovers_and_lag() -> None:
    story = running(partitions=6, factor=2)
    story.sees_copies("1", "2", "3", behind=1)
    story.dies("3")
    counters = status_of(story.state.fleet, Counters(), 0)["counters"]
    assert (counters["failovers-to-standby"], counters["failovers-to-any-host"]) == (2, 0)
    gauges = metrics_of(story.state.fleet, Counters())
    assert gauges["failovers-to-standby"] == 2.0 and gauges["failed-standby-allocations"] == 0.0
    lags = {name: value for name, value in gauges.items() if name.startswith("standby-lag-versions.")}
    assert set(lags.values()) == {1.0} and all(name.startswith("standby-lag-versions.q/Partition ") for name in lags)
    assert set(metrics_of(running(partitions=6).state.fleet, Counters())) == {
        "moves",
        "failovers-to-standby",
        "failovers-to-any-host",
        "failed-standby-allocations",
        "failed-container-placement-actions",
    }


def test_gauges_tell_how_long_a_task_took_and_would_take_to_be_back() -> None:
    story = running(partitions=6, factor=2)
    tally = measured(story)
    tally.count(replace(opened(3, 0, 40), store="file:/ck/q/state/1/0"))  # type: ignore[call-arg]
    gauges = metrics_of(story.state.fleet, tally)
    assert gauges["restore-ms.q/Partition 0"] == 50 + 40, "of the last opening of each of its stores"
    assert "restore-ms.q/Partition 1" not in gauges
    assert {task["name"]: task["restore-ms"] for task in tasks(story, tally) if task["restore-ms"]} == {
        "q/Partition 0": 90
    }
    shown = {task["name"]: task["estimated-recovery-seconds"] for task in tasks(story, tally)}
    assert {name: gauges[f"estimated-recovery-seconds.{name}"] for name in shown} == shown


def test_people_see_standbys_and_what_has_no_place() -> None:
    story = running(partitions=4, executors=("1@a", "2@b"), factor=3)
    story.sees_copies("1", "2", behind=3)
    shown = as_text(status_of(story.state.fleet, Counters(), 0), 0)
    assert "4 tasks, 4 standbys" in shown
    (line,) = (line for line in shown.splitlines() if line.startswith("Standby-q/Partition 0-0"))
    assert line.split()[-3:] == ["3", "750", "-"]
    assert "a standby of q/Partition 0 has no place: too few locations" in shown


def test_the_plan_names_who_is_to_hold_copies_only_when_there_are_any() -> None:
    without = running(partitions=2)
    assert set(json.loads(plan_as_json(_last_plan(without)))) == {"version", "queries"}
    story = running(partitions=2, factor=2)
    form = json.loads(plan_as_json(_last_plan(story)))
    assert form["standbys"] == {"q": {str(p): list(held) for p, held in story.copies["q"].items()}}
    assert [len(held) for held in form["standbys"]["q"].values()] == [1, 1]


@pytest.mark.parametrize("factor", [1, 3])
def test_a_new_agent_reads_the_plan_that_is_in_force(factor: int) -> None:
    plan = _last_plan(running(partitions=4, factor=factor))
    form = {"event": "PlanInForce", "at": 1, "plan": plan_as_json(plan), "announced": 9}
    assert read_event(form) == events.PlanInForce(1, plan.version, plan.rows, 9)


def test_a_round_of_copies_is_read() -> None:
    copy = {"partition": 0, "executor": "1", "version": 11, "lag-ms": 250, "bytes": 12345, "fetched-bytes": 77}
    form = {"event": "CopiesSeen", "at": 1, "query": "q", "version": 12, "copies": [copy]}
    seen = events.CopiesSeen(1, "q", 12, (events.CopyOfState(0, "1", 11, 250, 12345, 77),))
    assert read_event(form) == seen
    tally = Counters()
    tally.count(seen)
    assert tally.restores["standby-bytes-remote"] == 77


def _last_plan(story: Story) -> PublishPlan:
    return [order for order in story.orders if isinstance(order, PublishPlan)][-1]
