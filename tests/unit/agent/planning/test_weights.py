"""Plans that are even by bytes: where the bytes come from, and that they alone never make a plan."""

from __future__ import annotations

import pytest

from mooring.agent.agent_state import AgentState
from mooring.agent.counters import Counters
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import PlacementSettings
from mooring.agent.status import status_of
from mooring.grouping import choose_grouper
from mooring.model import events
from tests.unit.agent.builders import TIMING, Story
from tests.unit.agent.test_loop import Bridge, executors, planned, run, started

HEAVY = 1_000_000


def measured(partition: int, state_bytes: int, place: str = "0/{}", query: str = "q") -> events.Event:
    return events.StateMeasured(0, "1", f"file:/ck/{query}/state/{place.format(partition)}", state_bytes)


def weighing(*executors: str, partitions: int = 6) -> Story:
    story = Story(
        state=AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(choose_grouper("host-aware", "bytes"))))
    )
    story.joins(*executors)
    story.after(TIMING.debounce_ms)
    story.plans("q", partitions)
    return story


def test_the_next_plan_is_even_by_bytes() -> None:
    story = weighing("1@a", "2@b")
    for partition in range(6):
        story.take(measured(partition, 5 * HEAVY if partition == 0 else HEAVY))
    story.joins("3@c")
    story.after(TIMING.debounce_ms)
    chosen = story.first_choice("q")
    assert [executor for executor in chosen.values() if executor == chosen[0]] == [chosen[0]]


def test_a_measure_is_no_reason_for_a_plan() -> None:
    story = weighing("1@a", "2@b")
    before, models = story.first_choice("q"), len(story.saved)
    assert story.take(measured(0, 100 * HEAVY)) == []
    assert story.after(TIMING.rebind_timeout_ms) == []
    assert story.first_choice("q") == before and len(story.saved) == models


def test_all_stores_of_a_partition_count_each_with_its_last_measure() -> None:
    story = weighing("1@a")
    for event in (
        measured(3, 7),
        measured(3, 10),
        measured(3, 100, "1/{}/left-keyToNumValues"),
        measured(3, 1_000, "1/{}/right-keyToNumValues"),
        measured(3, 1, query="another"),
    ):
        story.take(event)
    assert story.state.fleet.state_bytes() == {"q/Partition 3": 1_110}


@pytest.mark.parametrize(
    "store", ["", "file:/ck/q", "file:/ck/q/state/0", "file:/ck/q/state/0/_metadata", "/state/0/3"]
)
def test_what_is_no_store_is_passed_over(store: str) -> None:
    story = weighing("1@a")
    story.take(events.StateMeasured(0, "1", store, 5))
    assert story.state.fleet.state_bytes() == {}


def test_measures_outlive_the_run_of_a_query() -> None:
    story = weighing("1@a")
    story.take(measured(0, 5))
    story.ends("q")
    assert story.state.fleet.state_bytes() == {}
    story.plans("q")
    assert story.state.fleet.state_bytes() == {"q/Partition 0": 5}


def test_the_status_shows_measured_bytes_and_shares_the_rest_of_what_is_known() -> None:
    story = weighing("1@a", partitions=4)
    story.take(events.BatchEnded(1, "q", 0, 10, {}, 0, 0, 400))
    story.take(measured(2, 70))
    tasks = status_of(story.state.fleet, Counters(), 0)["tasks"]
    assert [task["local-bytes"] for task in tasks] == [100, 100, 70, 100]


def test_a_restart_weighs_tasks_as_the_last_run_left_them() -> None:
    first = Bridge(
        [started(grouper_weights="bytes"), *executors("a", "b")],
        [planned()],
        [measured(partition, 5 * HEAVY if partition == 0 else HEAVY) for partition in range(6)],
        [events.ExecutorRegistered(0, "7", "c", 1)],
        [],
        [],
    )
    name = run(first)
    second = Bridge([started(grouper_weights="bytes"), *executors("a", "b", "c")], [planned()], [], [])
    run(second, name)
    hosts = {"0": "a", "1": "b", "2": "c", "7": "c"}
    last = {partition: hosts[row[0]] for partition, row in first.plans[-1]["q"].items()}
    assert sorted(list(last.values()).count(host) for host in "abc") == [1, 2, 3]
    assert {partition: hosts[row[0]] for partition, row in second.plans[-1]["q"].items()} == last
