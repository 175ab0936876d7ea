"""Restarts where tasks have copies: an executor works on until those of its tasks are warm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.agent.counters import Counters
from mooring.agent.requests.move import TROUBLE_MS
from mooring.agent.status import status_of
from mooring.model import events
from mooring.placement import ANY_HOST, LAST_SEEN, HostAction
from tests.unit.agent.builders import TIMING, measured, running
from tests.unit.agent.moving import DONE, FAILED, FOUR, a_new_agent, restarts, sharing, tasks_of
from tests.unit.agent.queues import Queues, Request


def with_cold_copies(partitions: int = 4, factor: int = 2) -> Queues:
    """Four executors that share the tasks and their copies, each ten versions behind."""
    queues = Queues(running(partitions=partitions, executors=FOUR, factor=factor))
    queues.runs_a_batch()
    queues.warms_up(behind=10)
    return queues


@pytest.fixture
def queues() -> Queues:
    """With a task and a copy on each of four executors."""
    return with_cold_copies()


@pytest.fixture
def asked(queues: Queues) -> Request:
    """A restart that waits for copies."""
    asked = queues.places("0", LAST_SEEN)
    queues.is_read()
    assert queues.changes(asked) == DONE[:2] and restarts(queues) == []
    return asked


def open_request(queues: Queues) -> str:
    state = queues.story.state
    return str(status_of(state.fleet, Counters(), 0, queue=state.queue)["requests"][-1]["message"])


def test_an_executor_works_on_until_the_copies_of_its_tasks_are_about_caught_up(queues: Queues, asked: Request) -> None:
    assert open_request(queues) == "waiting for copies: 0 of 1 tasks have a warm one"
    queues.warms_up(behind=2)
    assert restarts(queues) == []
    queues.warms_up(behind=1)
    assert restarts(queues) == ["1"] and open_request(queues) == "restarting"
    queues.story.dies("1")
    queues.after()
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(asked) == DONE


def partner(queues: Queues, processor: str) -> str:
    """Who has the copy of the processor's task."""
    held = queues.story.state.fleet.model.containers
    tasks = held[processor].actives.keys()
    return next(id for id, one in held.items() if tasks & {task.standby_of for task in one.tasks.values()})


def test_who_has_taken_tasks_over_works_on_until_they_have_warm_copies_again(queues: Queues) -> None:
    queues.warms_up()
    first, second = queues.places("0", LAST_SEEN, at_ms=1), queues.places(partner(queues, "0"), LAST_SEEN, at_ms=2)
    queues.is_read()
    queues.story.dies("1")
    queues.after()
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(first) == DONE and queues.changes(second) == DONE[:2]
    queues.after(TIMING.debounce_ms)
    assert restarts(queues) == ["1"], "the copies are in the plan, and not made yet"
    queues.warms_up()
    assert len(restarts(queues)) == 2


def test_tasks_whose_copies_are_in_no_plan_yet_are_waited_for(queues: Queues) -> None:
    queues.warms_up()
    taker = partner(queues, "0")
    queues.story.dies("1")
    asked = queues.places(taker, LAST_SEEN)
    queues.is_read()
    assert queues.changes(asked) == DONE[:2] and restarts(queues) == []
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    assert len(restarts(queues)) == 1


def test_copies_that_do_not_get_warm_are_waited_for_as_long_as_their_bytes_may_take(queues: Queues) -> None:
    measured(queues.story, queues.story.state.fleet.timing.copy_bytes_a_second, partitions=4)
    queues.places("0", LAST_SEEN)
    queues.is_read()
    queues.after(TIMING.rebind_timeout_ms + 1_900)
    assert restarts(queues) == []
    queues.after(100)
    assert restarts(queues) == ["1"]


def test_the_loss_of_a_copy_does_not_end_the_waiting(queues: Queues) -> None:
    measured(queues.story, 60 * queues.story.state.fleet.timing.copy_bytes_a_second, partitions=4)
    queues.places("0", LAST_SEEN)
    queues.is_read()
    queues.after(TIMING.rebind_timeout_ms + 60_000)
    queues.story.dies(queues.story.state.fleet.executor_of[partner(queues, "0")])
    queues.after(TIMING.debounce_ms)
    assert restarts(queues) == []
    queues.warms_up()
    assert restarts(queues) == ["1"]


def test_copies_that_get_warm_do_not_shorten_the_waiting_for_the_others() -> None:
    queues = with_cold_copies(partitions=8)
    measured(queues.story, 60 * queues.story.state.fleet.timing.copy_bytes_a_second, partitions=8)
    queues.places("0", LAST_SEEN)
    queues.is_read()
    first, second = sorted(tasks_of(queues, "0"))
    seen = {task: queues.story.copies["q"][task][0] for task in (first, second)}
    queues.after(TIMING.rebind_timeout_ms + 130_000)
    copy = events.CopyOfState(first, seen[first], 12, 0, 1_000, 77)
    queues.story.take(events.CopiesSeen(queues.story.now_ms, "q", 12, (copy,)))
    queues.after()
    assert open_request(queues) == "waiting for copies: 1 of 2 tasks have a warm one" and restarts(queues) == []


def test_a_query_that_starts_anew_has_its_plan_first(queues: Queues, asked: Request) -> None:
    queues.story.joins("7@e")  # so that a plan is due, and the query's first one waits for that
    queues.story.plans("q", partitions=4)
    queues.after()
    assert restarts(queues) == [] and open_request(queues).startswith("waiting for copies")


def test_a_host_that_is_to_come_back_may_have_the_copies() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    queues.runs_a_batch()
    queues.warms_up()
    queues.story.dies("2")
    queues.after(TIMING.debounce_ms)
    queues.places("0", LAST_SEEN)
    queues.is_read()
    assert restarts(queues) == []
    queues.story.joins("7@b")
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    assert restarts(queues) == ["1"]


def test_copies_that_can_not_be_made_are_not_waited_for(queues: Queues, asked: Request) -> None:
    queues.warms_up(behind=10, trouble=("no space left", TROUBLE_MS - 1))
    assert restarts(queues) == []
    queues.warms_up(behind=10, trouble=("no space left", TROUBLE_MS))
    assert restarts(queues) == ["1"]


def test_of_two_copies_one_has_to_be_warm_and_one_that_can_be_made_is_waited_for() -> None:
    queues = with_cold_copies(factor=3)
    queues.places("0", LAST_SEEN)
    queues.is_read()
    full, other = queues.story.copies["q"][min(tasks_of(queues, "0"))]
    queues.story.sees_copies(full, behind=10, trouble=("no space left", TROUBLE_MS))
    queues.after()
    assert restarts(queues) == []
    queues.story.sees_copies(other)
    queues.after()
    assert restarts(queues) == ["1"]


def test_a_warm_copy_that_ends_as_well_is_waited_for_where_the_other_one_can_not_be_made() -> None:
    queues = with_cold_copies(factor=3)
    full, other = queues.story.copies["q"][min(tasks_of(queues, "0"))]
    queues.story.sees_copies(full, behind=10, trouble=("no space left", TROUBLE_MS))
    queues.story.sees_copies(other)
    queues.story.take(events.ExecutorRestarting(queues.story.now_ms, "of an agent before", other))
    queues.places("0", LAST_SEEN)
    queues.is_read()
    assert restarts(queues) == []


def test_tasks_of_all_processors_on_the_executor_are_waited_for(queues: Queues) -> None:
    fleet = queues.story.state.fleet
    beside = next(id for id in "123" if id not in sharing(queues, "0"))
    on_both = replace(fleet, processors={**fleet.processors, beside: replace(fleet.processors[beside], executor="1")})
    queues.story.state = replace(queues.story.state, fleet=on_both)
    holders = [queues.story.copies["q"][min(tasks_of(queues, id))][0] for id in ("0", beside)]
    queues.places("0", LAST_SEEN)
    queues.is_read()
    for executor in holders:
        assert restarts(queues) == []
        queues.story.sees_copies(executor)
        queues.after()
    assert restarts(queues) == ["1"]


def test_no_copy_is_waited_for_where_nothing_is(queues: Queues) -> None:
    state = queues.story.state
    timing = replace(TIMING, rebind_timeout_ms=0)
    queues.story.state = replace(state, fleet=replace(state.fleet, timing=timing))
    measured(queues.story, timing.copy_bytes_a_second, partitions=4)
    queues.places("0", LAST_SEEN)
    queues.is_read()
    assert restarts(queues) == ["1"]


def test_a_task_and_its_only_copy_do_not_end_together(queues: Queues) -> None:
    """That both do is the plan of after their turns had come, as a third executor was lost."""
    apart = next(id for id in "123" if id not in sharing(queues, "0"))
    first, second = queues.places("0", LAST_SEEN, at_ms=1), queues.places(apart, LAST_SEEN, at_ms=2)
    queues.is_read()
    assert queues.changes(first) == queues.changes(second) == DONE[:2] and restarts(queues) == []
    executor_of = queues.story.state.fleet.executor_of
    queues.story.dies(executor_of[partner(queues, "0")])
    queues.after(TIMING.debounce_ms)
    queues.runs_a_batch()
    queues.warms_up()
    assert set(sharing(queues, "0")) & {apart}, "the copies of one of them are on the other one"
    queues.after(TIMING.rebind_timeout_ms // 2)
    assert restarts(queues) == ["1"]
    queues.story.dies("1")
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(first) == DONE and len(restarts(queues)) == 2


def test_tasks_without_copies_are_not_waited_for(queues: Queues) -> None:
    queues.asks("STOP", at_ms=1)
    queues.places("0", LAST_SEEN, at_ms=2)
    queues.is_read()
    queues.after()
    assert restarts(queues) == ["1"]


def test_a_processor_that_loses_its_executor_meanwhile_is_restarted_all_the_same(
    queues: Queues, asked: Request
) -> None:
    queues.story.dies("1")
    queues.after(TIMING.rebind_timeout_ms + 1_000)
    assert queues.changes(asked) == DONE[:2] and open_request(queues) == "restarting"
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(asked) == DONE and restarts(queues) == []


def test_a_successor_that_comes_with_the_loss_is_what_was_asked_for(queues: Queues, asked: Request) -> None:
    queues.story.dies("1")
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(asked) == DONE and restarts(queues) == []


def followed(queues: Queues) -> Queues:
    """The agent after this one, with what is in the store."""
    new = a_new_agent(queues.story)
    new.requests, new.responses = queues.requests, queues.responses
    return new


def test_an_agent_after_this_one_waits_on(queues: Queues, asked: Request) -> None:
    queues = followed(queues)
    queues.warms_up(behind=10)
    queues.is_read()
    queues.after(TIMING.rebind_timeout_ms - 1_000)
    assert restarts(queues) == [] and open_request(queues).startswith("waiting for copies")
    queues.warms_up()
    assert restarts(queues) == ["1"]


def test_an_agent_after_this_one_does_not_give_up_what_was_lost_meanwhile(queues: Queues, asked: Request) -> None:
    queues = followed(queues)
    queues.story.dies("1")
    queues.after(TIMING.rebind_timeout_ms + 1_000)  # the store is read late
    queues.is_read()
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(asked)[-1] == "SUCCEEDED" and restarts(queues) == []


def test_what_an_agent_before_this_one_was_ending_is_ended(queues: Queues, asked: Request) -> None:
    queues.warms_up()
    assert restarts(queues) == ["1"]
    queues.warms_up(behind=10)
    queues = followed(queues)
    queues.warms_up(behind=10)
    queues.is_read()
    assert restarts(queues) == ["1"]


def test_a_host_that_is_drained_meanwhile_has_nothing_to_restart(queues: Queues, asked: Request) -> None:
    queues.asks_of_host(HostAction.DRAIN, "a", at_ms=2)
    queues.is_read()
    queues.after()
    assert queues.changes(asked) == FAILED and "drained" in queues.message(asked) and restarts(queues) == []


def test_nothing_goes_to_an_executor_that_is_to_end(queues: Queues, asked: Request) -> None:
    beside = {"0", *sharing(queues, "0")}
    others = [id for id in "123" if id not in beside and not {"0"} & set(sharing(queues, id))]
    for id in others:
        queues.places(id, ANY_HOST, at_ms=2)
        queues.is_read()
    assert not [move for move in queues.story.state.fleet.ongoing.moves.values() if move.destination == "1"]
