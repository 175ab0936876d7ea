"""Restarts where tasks have copies: an executor works on until those of its tasks are warm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.agent.requests.move import TROUBLE_MS
from mooring.agent.status import Tally, status_of
from mooring.model import events
from mooring.placement import ANY_HOST, LAST_SEEN, HostAction
from tests.unit.agent.builders import TIMING, measured, running
from tests.unit.agent.desks import Desks, Request
from tests.unit.agent.moving import DONE, FAILED, FOUR, a_new_agent, restarts, sharing, tasks_of


def with_cold_copies(partitions: int = 4, factor: int = 2) -> Desks:
    """Four executors that share the tasks and their copies, each ten versions behind."""
    desks = Desks(running(partitions=partitions, executors=FOUR, factor=factor))
    desks.runs_a_batch()
    desks.warms_up(behind=10)
    return desks


@pytest.fixture
def desks() -> Desks:
    """With a task and a copy on each of four executors."""
    return with_cold_copies()


@pytest.fixture
def asked(desks: Desks) -> Request:
    """A restart that waits for copies."""
    asked = desks.places("0", LAST_SEEN)
    desks.is_read()
    assert desks.changes(asked) == DONE[:2] and restarts(desks) == []
    return asked


def open_request(desks: Desks) -> str:
    mind = desks.story.mind
    return str(status_of(mind.fleet, Tally(), 0, desk=mind.desk)["requests"][-1]["message"])


def test_an_executor_works_on_until_the_copies_of_its_tasks_are_about_caught_up(desks: Desks, asked: Request) -> None:
    assert open_request(desks) == "waiting for copies: 0 of 1 tasks have a warm one"
    desks.warms_up(behind=2)
    assert restarts(desks) == []
    desks.warms_up(behind=1)
    assert restarts(desks) == ["1"] and open_request(desks) == "restarting"
    desks.story.dies("1")
    desks.after()
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(asked) == DONE


def partner(desks: Desks, processor: str) -> str:
    """Who has the copy of the processor's task."""
    held = desks.story.mind.fleet.model.containers
    tasks = held[processor].actives.keys()
    return next(id for id, one in held.items() if tasks & {task.standby_of for task in one.tasks.values()})


def test_who_has_taken_tasks_over_works_on_until_they_have_warm_copies_again(desks: Desks) -> None:
    desks.warms_up()
    first, second = desks.places("0", LAST_SEEN, at_ms=1), desks.places(partner(desks, "0"), LAST_SEEN, at_ms=2)
    desks.is_read()
    desks.story.dies("1")
    desks.after()
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(first) == DONE and desks.changes(second) == DONE[:2]
    desks.after(TIMING.debounce_ms)
    assert restarts(desks) == ["1"], "the copies are in the plan, and not made yet"
    desks.warms_up()
    assert len(restarts(desks)) == 2


def test_tasks_whose_copies_are_in_no_plan_yet_are_waited_for(desks: Desks) -> None:
    desks.warms_up()
    taker = partner(desks, "0")
    desks.story.dies("1")
    asked = desks.places(taker, LAST_SEEN)
    desks.is_read()
    assert desks.changes(asked) == DONE[:2] and restarts(desks) == []
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    assert len(restarts(desks)) == 1


def test_copies_that_do_not_get_warm_are_waited_for_as_long_as_their_bytes_may_take(desks: Desks) -> None:
    measured(desks.story, desks.story.mind.fleet.timing.copy_bytes_a_second, partitions=4)
    desks.places("0", LAST_SEEN)
    desks.is_read()
    desks.after(TIMING.rebind_timeout_ms + 1_900)
    assert restarts(desks) == []
    desks.after(100)
    assert restarts(desks) == ["1"]


def test_the_loss_of_a_copy_does_not_end_the_waiting(desks: Desks) -> None:
    measured(desks.story, 60 * desks.story.mind.fleet.timing.copy_bytes_a_second, partitions=4)
    desks.places("0", LAST_SEEN)
    desks.is_read()
    desks.after(TIMING.rebind_timeout_ms + 60_000)
    desks.story.dies(desks.story.mind.fleet.executor_of[partner(desks, "0")])
    desks.after(TIMING.debounce_ms)
    assert restarts(desks) == []
    desks.warms_up()
    assert restarts(desks) == ["1"]


def test_copies_that_get_warm_do_not_shorten_the_waiting_for_the_others() -> None:
    desks = with_cold_copies(partitions=8)
    measured(desks.story, 60 * desks.story.mind.fleet.timing.copy_bytes_a_second, partitions=8)
    desks.places("0", LAST_SEEN)
    desks.is_read()
    first, second = sorted(tasks_of(desks, "0"))
    seen = {task: desks.story.copies["q"][task][0] for task in (first, second)}
    desks.after(TIMING.rebind_timeout_ms + 130_000)
    copy = events.CopyOfState(first, seen[first], 12, 0, 1_000, 77)
    desks.story.take(events.CopiesSeen(desks.story.now_ms, "q", 12, (copy,)))
    desks.after()
    assert open_request(desks) == "waiting for copies: 1 of 2 tasks have a warm one" and restarts(desks) == []


def test_a_query_that_starts_anew_has_its_plan_first(desks: Desks, asked: Request) -> None:
    desks.story.joins("7@e")  # so that a plan is due, and the query's first one waits for that
    desks.story.plans("q", partitions=4)
    desks.after()
    assert restarts(desks) == [] and open_request(desks).startswith("waiting for copies")


def test_a_host_that_is_to_come_back_may_have_the_copies() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    desks.runs_a_batch()
    desks.warms_up()
    desks.story.dies("2")
    desks.after(TIMING.debounce_ms)
    desks.places("0", LAST_SEEN)
    desks.is_read()
    assert restarts(desks) == []
    desks.story.joins("7@b")
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    assert restarts(desks) == ["1"]


def test_copies_that_can_not_be_made_are_not_waited_for(desks: Desks, asked: Request) -> None:
    desks.warms_up(behind=10, trouble=("no space left", TROUBLE_MS - 1))
    assert restarts(desks) == []
    desks.warms_up(behind=10, trouble=("no space left", TROUBLE_MS))
    assert restarts(desks) == ["1"]


def test_of_two_copies_one_has_to_be_warm_and_one_that_can_be_made_is_waited_for() -> None:
    desks = with_cold_copies(factor=3)
    desks.places("0", LAST_SEEN)
    desks.is_read()
    full, other = desks.story.copies["q"][min(tasks_of(desks, "0"))]
    desks.story.sees_copies(full, behind=10, trouble=("no space left", TROUBLE_MS))
    desks.after()
    assert restarts(desks) == []
    desks.story.sees_copies(other)
    desks.after()
    assert restarts(desks) == ["1"]


def test_a_warm_copy_that_ends_as_well_is_waited_for_where_the_other_one_can_not_be_made() -> None:
    desks = with_cold_copies(factor=3)
    full, other = desks.story.copies["q"][min(tasks_of(desks, "0"))]
    desks.story.sees_copies(full, behind=10, trouble=("no space left", TROUBLE_MS))
    desks.story.sees_copies(other)
    desks.story.take(events.ExecutorRestarting(desks.story.now_ms, "of an agent before", other))
    desks.places("0", LAST_SEEN)
    desks.is_read()
    assert restarts(desks) == []


def test_tasks_of_all_processors_on_the_executor_are_waited_for(desks: Desks) -> None:
    fleet = desks.story.mind.fleet
    beside = next(id for id in "123" if id not in sharing(desks, "0"))
    on_both = replace(fleet, processors={**fleet.processors, beside: replace(fleet.processors[beside], executor="1")})
    desks.story.mind = replace(desks.story.mind, fleet=on_both)
    holders = [desks.story.copies["q"][min(tasks_of(desks, id))][0] for id in ("0", beside)]
    desks.places("0", LAST_SEEN)
    desks.is_read()
    for executor in holders:
        assert restarts(desks) == []
        desks.story.sees_copies(executor)
        desks.after()
    assert restarts(desks) == ["1"]


def test_no_copy_is_waited_for_where_nothing_is(desks: Desks) -> None:
    mind = desks.story.mind
    timing = replace(TIMING, rebind_timeout_ms=0)
    desks.story.mind = replace(mind, fleet=replace(mind.fleet, timing=timing))
    measured(desks.story, timing.copy_bytes_a_second, partitions=4)
    desks.places("0", LAST_SEEN)
    desks.is_read()
    assert restarts(desks) == ["1"]


def test_a_task_and_its_only_copy_do_not_end_together(desks: Desks) -> None:
    """That both do is the plan of after their turns had come, as a third executor was lost."""
    apart = next(id for id in "123" if id not in sharing(desks, "0"))
    first, second = desks.places("0", LAST_SEEN, at_ms=1), desks.places(apart, LAST_SEEN, at_ms=2)
    desks.is_read()
    assert desks.changes(first) == desks.changes(second) == DONE[:2] and restarts(desks) == []
    executor_of = desks.story.mind.fleet.executor_of
    desks.story.dies(executor_of[partner(desks, "0")])
    desks.after(TIMING.debounce_ms)
    desks.runs_a_batch()
    desks.warms_up()
    assert set(sharing(desks, "0")) & {apart}, "the copies of one of them are on the other one"
    desks.after(TIMING.rebind_timeout_ms // 2)
    assert restarts(desks) == ["1"]
    desks.story.dies("1")
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(first) == DONE and len(restarts(desks)) == 2


def test_tasks_without_copies_are_not_waited_for(desks: Desks) -> None:
    desks.asks("STOP", at_ms=1)
    desks.places("0", LAST_SEEN, at_ms=2)
    desks.is_read()
    desks.after()
    assert restarts(desks) == ["1"]


def test_a_processor_that_loses_its_executor_meanwhile_is_restarted_all_the_same(desks: Desks, asked: Request) -> None:
    desks.story.dies("1")
    desks.after(TIMING.rebind_timeout_ms + 1_000)
    assert desks.changes(asked) == DONE[:2] and open_request(desks) == "restarting"
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(asked) == DONE and restarts(desks) == []


def test_a_successor_that_comes_with_the_loss_is_what_was_asked_for(desks: Desks, asked: Request) -> None:
    desks.story.dies("1")
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(asked) == DONE and restarts(desks) == []


def followed(desks: Desks) -> Desks:
    """The agent after this one, with what is in the store."""
    new = a_new_agent(desks.story)
    new.requests, new.responses = desks.requests, desks.responses
    return new


def test_an_agent_after_this_one_waits_on(desks: Desks, asked: Request) -> None:
    desks = followed(desks)
    desks.warms_up(behind=10)
    desks.is_read()
    desks.after(TIMING.rebind_timeout_ms - 1_000)
    assert restarts(desks) == [] and open_request(desks).startswith("waiting for copies")
    desks.warms_up()
    assert restarts(desks) == ["1"]


def test_an_agent_after_this_one_does_not_give_up_what_was_lost_meanwhile(desks: Desks, asked: Request) -> None:
    desks = followed(desks)
    desks.story.dies("1")
    desks.after(TIMING.rebind_timeout_ms + 1_000)  # the store is read late
    desks.is_read()
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(asked)[-1] == "SUCCEEDED" and restarts(desks) == []


def test_what_an_agent_before_this_one_was_ending_is_ended(desks: Desks, asked: Request) -> None:
    desks.warms_up()
    assert restarts(desks) == ["1"]
    desks.warms_up(behind=10)
    desks = followed(desks)
    desks.warms_up(behind=10)
    desks.is_read()
    assert restarts(desks) == ["1"]


def test_a_host_that_is_drained_meanwhile_has_nothing_to_restart(desks: Desks, asked: Request) -> None:
    desks.asks_of_host(HostAction.DRAIN, "a", at_ms=2)
    desks.is_read()
    desks.after()
    assert desks.changes(asked) == FAILED and "drained" in desks.message(asked) and restarts(desks) == []


def test_nothing_goes_to_an_executor_that_is_to_end(desks: Desks, asked: Request) -> None:
    beside = {"0", *sharing(desks, "0")}
    others = [id for id in "123" if id not in beside and not {"0"} & set(sharing(desks, id))]
    for id in others:
        desks.places(id, ANY_HOST, at_ms=2)
        desks.is_read()
    assert not [move for move in desks.story.mind.fleet.moves.values() if move.executor == "1"]
