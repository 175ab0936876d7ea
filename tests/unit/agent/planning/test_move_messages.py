"""What the log says of a new plan."""

from __future__ import annotations

from dataclasses import replace

from mooring.agent.planning.move_messages import MOST_NAMES, MOST_WAYS, describe_moves
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import Overrides
from mooring.grouping import plan_moves
from mooring.model import JobModel
from tests.unit.agent.builders import TIMING, Story, running
from tests.unit.agent.moving import free_host, warm_on_four


def change(story: Story, before: JobModel) -> tuple[Fleet, str]:
    fleet = story.state.fleet
    return fleet, describe_moves(fleet, plan_moves(before, fleet.model))


def test_a_first_plan_is_no_news() -> None:
    assert change(running(), JobModel.of([]))[1] == ""


def test_tasks_that_go_to_a_newcomer_are_named_with_the_reason() -> None:
    story = running(partitions=4, executors=("1@a",))
    before = story.state.fleet.model
    story.joins("2@b")
    story.after(TIMING.debounce_ms)
    story.after(TIMING.rebind_timeout_ms)
    fleet, told = change(story, before)
    names = ", ".join(fleet.model.containers["1"].actives)
    assert told == f"job model {fleet.model.version}: {names} from processor 0 at a to 1 at b (to share the load)"


def test_those_of_a_lost_executor_say_so() -> None:
    story = running(partitions=4, executors=("1@a", "2@b"))
    before = story.state.fleet.model
    story.dies("2")
    story.after(TIMING.rebind_timeout_ms)
    assert "from processor 1 at b to 0 at a (processor 1 has no executor)" in change(story, before)[1]


def test_those_of_a_drained_host_say_so() -> None:
    story = running(partitions=4, executors=("1@a", "2@b"))
    before = story.state.fleet.model
    story.joins("3@c")
    story.after(TIMING.debounce_ms)
    story.after(TIMING.rebind_timeout_ms)
    fleet = replace(story.state.fleet, overrides=Overrides(drained=frozenset({"a", "b"})))
    assert "(that host is drained)" in describe_moves(fleet, plan_moves(before, fleet.model))


def test_a_processor_that_an_operator_moves_goes_with_its_tasks() -> None:
    queues = warm_on_four(factor=1)
    before, host = queues.story.state.fleet.model, free_host(queues)
    queues.places("0", host)
    queues.is_read()
    queues.warms_up()
    fleet, told = change(queues.story, before)
    names = ", ".join(fleet.model.containers["0"].actives)
    assert told == f"job model {fleet.model.version}: processor 0 goes from a to {host} with {names}"


def test_a_line_is_never_too_long_to_be_read() -> None:
    hosts = MOST_WAYS + 3
    story = running(partitions=hosts * (MOST_NAMES + 2) * 2, executors=tuple(f"{n}@h{n}" for n in range(hosts)))
    before = story.state.fleet.model
    story.joins(*(f"{n}@h{n}" for n in range(hosts, 2 * hosts)))
    story.after(TIMING.debounce_ms)
    story.after(TIMING.rebind_timeout_ms)
    told = change(story, before)[1]
    assert "and 3 more" in told.rpartition(";")[2] and told.count("from processor") == MOST_WAYS
