"""What the status says of hosts."""

from __future__ import annotations

from mooring.agent.counters import Counters
from mooring.agent.planning.moves_in_steps import is_settled
from mooring.agent.status import status_of
from mooring.cli.status import as_text
from mooring.model import events
from mooring.model.event_json import read_event
from tests.unit.agent.builders import running


def hosts_of(story):  # type: ignore[no-untyped-def]
    return status_of(story.state.fleet, Counters(), 0)["hosts"]


def test_a_zone_is_shown_where_it_is_known() -> None:
    story = running(executors=("10@a", "9@a", "2@b"))
    assert hosts_of(story) == [{"location": "a", "executors": ["9", "10"]}, {"location": "b", "executors": ["2"]}]
    before = story.first_choice("q")
    assert story.take(events.ExecutorRegistered(story.now_ms, "2", "b", 1, "eu-1a")) == []
    assert hosts_of(story)[1] == {"location": "b", "executors": ["2"], "zone": "eu-1a"}
    assert story.first_choice("q") == before


def test_what_executors_fetch_when_a_query_starts_is_shown_until_it_ends() -> None:
    story, tally = running(executors=("1@a", "2@b")), Counters()
    for event in (
        events.StoresFetched(1, "2", "q", 3, 4, 100, 20),
        events.StoresFetched(1, "1", "q", 4, 4, 0, 20),  # it had all
    ):
        tally.count(event)
    status = status_of(story.state.fleet, tally, 0)
    wanted = {"executor": "2", "stores": 4, "done": 3, "bytes": 100, "milliseconds": 20}
    (row,) = status["restores"]
    assert row.items() >= wanted.items()
    assert "3 of 4" in as_text(status, 0)
    tally.count(events.ExecutorLost(2, "2", "killed"))
    assert "restores" not in status_of(story.state.fleet, tally, 0)
    tally.count(events.StoresFetched(3, "1", "q", 1, 4, 50, 5))
    assert "restores" in status_of(story.state.fleet, tally, 0)
    tally.count(events.QueryEnded(4, "q", "run", ""))
    assert "restores" not in status_of(story.state.fleet, tally, 0)


def test_a_task_that_the_plan_could_not_place_is_shown_as_such_until_it_can() -> None:
    story = running(partitions=3, executors=("1@a", "2@b"))
    ran = dict.fromkeys(range(3), "1")
    story.take(events.BatchEnded(5, "q", 0, 800, ran, 2, 2, not_placed=frozenset({1})))
    status = status_of(story.state.fleet, Counters(), 0)
    (task,) = (task for task in status["tasks"] if "not-placed" in task)
    assert (task["name"], task["location"]) == ("q/Partition 1", "a")
    assert "1 task not placed" in as_text(status, 0) and "q/Partition 1" in as_text(status, 0)
    story.take(events.BatchEnded(6, "q", 1, 800, ran, 3, 3))
    assert "not placed" not in as_text(status_of(story.state.fleet, Counters(), 0), 0)


def test_a_step_does_not_wait_for_a_task_that_the_plan_could_not_place() -> None:
    story = running(partitions=3, executors=("1@a", "2@b"))
    ran, elsewhere = dict.fromkeys(range(3), "1"), {p for p, x in story.first_choice("q").items() if x == "2"}
    story.take(events.BatchEnded(5, "q", 0, 800, ran, 3, 1))
    assert elsewhere and not is_settled(story.state.fleet)
    story.take(events.BatchEnded(6, "q", 1, 800, ran, 1, 1, not_placed=frozenset(elsewhere)))
    assert is_settled(story.state.fleet)


def test_partitions_that_were_not_placed_are_read() -> None:
    form = {"event": "BatchEnded", "at": 1, "query": "q", "batch": 2, "milliseconds": 3, "state-bytes": 4}
    form |= {"placements": [{"partition": 0, "executor": "1"}], "planned": 1, "as-planned": 1}
    assert read_event(form) == events.BatchEnded(1, "q", 2, 3, {0: "1"}, 1, 1, 4)
    assert read_event({**form, "not-placed": [0]}) == events.BatchEnded(
        1, "q", 2, 3, {0: "1"}, 1, 1, 4, not_placed=frozenset({0})
    )


def test_what_was_fetched_is_read() -> None:
    form = {"event": "StoresFetched", "at": 1, "executor": "2", "query": "q", "done": 1, "of": 2, "bytes": 7}
    assert read_event({**form, "milliseconds": 9}) == events.StoresFetched(1, "2", "q", 1, 2, 7, 9)


def test_an_event_without_a_zone_is_read() -> None:
    form = {"event": "ExecutorRegistered", "at": 1, "executor": "2", "location": "b", "cores": 4}
    assert read_event(form) == events.ExecutorRegistered(1, "2", "b", 4, "")
    assert read_event({**form, "zone": "eu"}) == events.ExecutorRegistered(1, "2", "b", 4, "eu")


def test_a_measure_is_read() -> None:
    form = {"event": "StateMeasured", "at": 1, "executor": "2", "store": "file:/ck/state/0/3", "bytes": 7}
    assert read_event(form) == events.StateMeasured(1, "2", "file:/ck/state/0/3", 7)
