"""Executors that live and get no tasks from Spark: excluded after failures, or about to be removed."""

from __future__ import annotations

from collections import Counter

from mooring.agent.counters import Counters
from mooring.agent.planning.moves_in_steps import is_settled
from mooring.agent.status import status_of
from mooring.cli.status import as_text
from mooring.model import events
from mooring.model.event_json import read_event
from tests.unit.agent.builders import Story, running

WHY = "Spark has excluded it after failures"


def withholds(story: Story, *executors: str) -> None:
    story.take(events.TasksWithheld(story.now_ms, dict.fromkeys(executors, WHY)))


def runs_on(story: Story) -> dict[int, str]:
    """The executor that the JVM chooses: the first of the row that lives and gets tasks."""
    fleet = story.state.fleet
    return {
        partition: next(id for id in row if id in fleet.executors and id not in fleet.withheld)
        for partition, row in story.rows["q"].items()
    }


def test_the_event_is_read_from_its_json() -> None:
    form = {"event": "TasksWithheld", "at": 7, "executors": {"1": WHY}}
    assert read_event(form) == events.TasksWithheld(7, {"1": WHY})


def test_its_tasks_run_evenly_on_the_others_and_stay_its_own() -> None:
    story = running(partitions=12)
    before = story.first_choice("q")
    withholds(story, "1")
    assert Counter(runs_on(story).values()) == {"2": 6, "3": 6}
    assert story.first_choice("q") == before, "it is still theirs when it gets tasks again"
    withholds(story)
    assert runs_on(story) == before


def test_tasks_of_an_excluded_host_are_spread_over_the_other_hosts() -> None:
    story = running(partitions=12, executors=("1@a", "2@a", "3@b", "4@b"))
    withholds(story, "1", "2")
    assert Counter(runs_on(story).values()) == {"3": 6, "4": 6}


def test_tasks_of_a_lost_executor_do_not_fall_to_one_that_gets_none() -> None:
    story = running(partitions=12, executors=("1@a", "2@a", "3@b", "4@c"))
    withholds(story, "2")
    story.dies("1")
    assert Counter(runs_on(story).values()) == {"3": 6, "4": 6}


def test_where_none_gets_tasks_rows_are_as_they_were() -> None:
    story = running()
    before = story.rows["q"]
    withholds(story, "1", "2", "3")
    assert {partition: row[0] for partition, row in before.items()} == story.first_choice("q")


def test_a_step_does_not_wait_for_tasks_that_run_elsewhere() -> None:
    story = running(partitions=3)
    withholds(story, "1")
    story.take(events.BatchBegan(story.now_ms, "q", 0))
    story.take(events.BatchEnded(story.now_ms, "q", 0, 100, runs_on(story), 3, 3))
    assert is_settled(story.state.fleet)
    withholds(story)
    assert not is_settled(story.state.fleet), "from now on they are to return"


def test_the_status_says_why() -> None:
    story = running()
    withholds(story, "1")
    status = status_of(story.state.fleet, Counters(), 0)
    said = {one["executor"]: one.get("lent-because") for one in status["processors"]}
    assert said == {"1": WHY, "2": None, "3": None}
    assert f"tasks lent: {WHY}" in as_text(status, 0)
