"""Moves and restarts that an agent had begun, and another one, or another application, finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.agent.agent_state import AgentState
from mooring.agent.core import absorb
from mooring.agent.recovery import recovered
from mooring.agent.requests.phase import REQUEST_TIMEOUTS
from mooring.agent.requests.restart import RESTART_MARGIN_MS
from mooring.agent.state.fleet import Fleet
from mooring.model import events
from mooring.model.orders import RestartExecutor
from mooring.placement import ANY_HOST, LAST_SEEN
from mooring.records.records import Remembered
from tests.unit.agent.builders import TIMING, Story, running
from tests.unit.agent.moving import (
    DONE,
    FOUR,
    a_new_agent,
    has_moved,
    kept_overrides,
    restarts,
    where,
)
from tests.unit.agent.queues import Queues


@pytest.mark.parametrize("when", ["warming up", "switched"])
def test_a_new_agent_goes_on_with_a_move(when: str) -> None:
    old = Queues(running(partitions=4, executors=FOUR))
    asked = old.places("0", ANY_HOST)
    old.is_read()
    to = old.story.state.fleet.ongoing.moves["0"].destination
    if when == "switched":
        old.warms_up()
    new = a_new_agent(old.story)
    new.requests, new.responses = dict(old.requests), dict(old.responses)
    new.is_read()
    new.warms_up()
    new.after()
    assert where(new, "0") == {to}
    new.runs_a_batch()
    assert new.changes(asked) == DONE[1:]


@pytest.mark.parametrize("is_back", [False, True])
def test_a_new_agent_does_not_end_another_executor_for_a_restart(is_back: bool) -> None:
    old = Queues(running(partitions=4, executors=FOUR))
    asked = old.places("0", LAST_SEEN)
    old.is_read()
    old.story.dies("1")
    if is_back:
        old.story.joins("7@a")  # the last word is decided, and not written when the agent dies
    new = a_new_agent(old.story)
    new.requests, new.responses = {asked.uuid: asked}, dict(old.responses)
    new.is_read()
    if not is_back:
        new.story.joins("7@a")
        new.after()
    assert new.changes(asked)[-1] == "SUCCEEDED" and set(restarts(new)) <= {"1"}
    assert asked.uuid not in new.requests


def test_what_an_agent_had_begun_comes_before_what_was_asked_earlier() -> None:
    old = Queues(running(partitions=4, executors=FOUR))
    asked = old.places("0", "b", at_ms=20)
    old.is_read()
    old.warms_up()
    earlier = old.places("0", "c", at_ms=10)
    old.is_read()
    new = a_new_agent(old.story)
    new.requests, new.responses = dict(old.requests), dict(old.responses)
    new.is_read()
    new.warms_up()
    new.after()
    assert where(new, "0") == {"2"} and not new.changes(earlier)
    new.runs_a_batch()
    assert new.changes(asked)[-1] == "SUCCEEDED"
    new.warms_up()
    new.after()
    assert where(new, "0") == {"3"}


def test_a_switch_whose_plan_was_not_kept_is_made_again() -> None:
    old = has_moved(FOUR)  # from a to b, where processor 1 is too
    asked = old.places("1", "a")
    old.is_read()
    state, orders = old.story.state, list(old.story.orders)
    old.warms_up()
    word = kept_overrides(old.story)
    old.story.state, old.story.orders = state, orders  # it dies between the two
    new = a_new_agent(old.story, word)
    new.requests, new.responses = dict(old.requests), dict(old.responses)
    new.is_read()
    new.after(TIMING.first_plan_wait_ms)
    assert where(new, "1") == {"2"}
    new.warms_up()
    new.after()
    new.runs_a_batch()
    assert new.changes(asked)[-1] == "SUCCEEDED" and where(new, "1") == {"1"} and where(new, "0") == {"2"}


def test_a_restart_that_the_jvm_gave_up_is_no_move_for_the_next_agent() -> None:
    old = Queues(running(partitions=4, executors=("1@a", "9@a", "2@b", "3@c")))
    asked = old.places("0", LAST_SEEN)
    old.is_read()
    old.story.orders = [order for order in old.story.orders if not isinstance(order, RestartExecutor)]
    new = a_new_agent(old.story, kept_overrides(old.story))
    new.requests, new.responses = dict(old.requests), dict(old.responses)
    new.is_read()
    new.after(REQUEST_TIMEOUTS.restart_ms + RESTART_MARGIN_MS + 1_000)
    assert new.changes(asked)[-1] == "FAILED" and "did not end" in new.message(asked)
    assert where(new, "0") == {"1"}


def test_a_new_agent_leaves_processors_where_a_move_has_brought_them() -> None:
    old = has_moved(FOUR)
    new = a_new_agent(old.story)
    assert new.story.state.fleet.executor_of == old.story.state.fleet.executor_of
    new.after(TIMING.rebind_timeout_ms)
    assert new.story.state.fleet.processor_of_task() == old.story.state.fleet.processor_of_task()
    assert new.story.state.fleet.executor_of == old.story.state.fleet.executor_of


def test_a_request_is_done_once_though_two_agents_die_over_it() -> None:
    old = Queues(running(partitions=4, executors=FOUR))
    asked = old.places("0", "b")
    old.is_read()
    old.warms_up()
    first = a_new_agent(old.story)  # it dies before it has read the request
    first.after(TIMING.debounce_ms)
    second = a_new_agent(old.story, kept_overrides(first.story))
    second.requests, second.responses = {asked.uuid: asked}, dict(old.responses)
    second.is_read()
    second.warms_up()
    second.after()
    second.runs_a_batch()
    assert second.changes(asked)[-1] == "SUCCEEDED" and not restarts(second) and where(second, "0") == {"2"}


def test_when_agent_and_destination_die_after_the_switch_the_processor_goes_back() -> None:
    old = Queues(running(partitions=4, executors=FOUR))
    asked = old.places("0", "b")
    old.is_read()
    old.warms_up()
    old.story.state = replace(
        old.story.state,
        fleet=replace(
            old.story.state.fleet,
            executors={id: e for id, e in old.story.state.fleet.executors.items() if id != "2"},
        ),
    )  # nobody was there to hear of it
    new = a_new_agent(old.story)
    new.requests, new.responses = {asked.uuid: asked}, dict(old.responses)
    new.is_read()
    new.after(TIMING.first_plan_wait_ms)
    new.after()
    assert new.changes(asked)[-1] == "FAILED" and "it is back on executor 1" in new.message(asked)
    assert new.story.state.fleet.processors["0"].executor == "1"


def test_a_restart_of_the_application_undoes_no_move() -> None:
    old = has_moved()
    fleet, overrides = old.story.state.fleet, old.story.state.saved_overrides
    state = absorb(AgentState(fleet=Fleet(timing=TIMING)), events.ApplicationStarted(0, "app-2", "clicks", {}, ""))
    for executor in ("1@a", "0@b", "2@c"):  # ids mean nothing from one application to the next
        id, host = executor.split("@")
        state = absorb(state, events.ExecutorRegistered(0, id, host, 1))
    new = Story(state=recovered(state, Remembered(fleet.model, fleet.task_locality, overrides=overrides), 0))
    new.plans("q", 4)
    assert new.state.fleet.processor_of_task() == fleet.processor_of_task()
    assert {new.state.fleet.processors[id].executor for id in ("0", "1")} == {"0"}
    assert "1" not in new.first_choice("q").values()
