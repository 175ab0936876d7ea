"""Restarting a processor where it is: its executor ends, and another one takes its place."""

from __future__ import annotations

import pytest

from mooring.model import events
from mooring.model.orders import RestartExecutor
from mooring.placement import LAST_SEEN
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.desks import Desks
from tests.unit.agent.moving import (
    DONE,
    FAILED,
    FOUR,
    restarts,
    two_on_one_executor,
    warm_on_four,
    where,
)


@pytest.fixture(params=[1, 2], ids=["one copy", "two copies"])
def desks(request: pytest.FixtureRequest) -> Desks:
    return warm_on_four(request.param)


@pytest.mark.parametrize("destination", [LAST_SEEN, "a"])
def test_a_restart_ends_the_executor_and_is_done_when_another_has_its_place(desks: Desks, destination: str) -> None:
    asked = desks.places("0", destination)
    desks.is_read()
    assert restarts(desks) == ["1"] and desks.changes(asked) == DONE[:2]
    desks.story.dies("1")
    desks.after()
    assert desks.changes(asked) == DONE[:2]
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(asked) == DONE and "executor 7 at a" in desks.message(asked)
    assert restarts(desks) == ["1"]


def test_an_executor_that_does_not_end_is_a_failure_and_runs_on(desks: Desks) -> None:
    asked = desks.places("0", LAST_SEEN, expiry_ms=30_000)
    desks.is_read()
    desks.after(33_000)
    assert desks.changes(asked) == FAILED and "it runs on" in desks.message(asked)


def test_an_executor_that_is_given_up_to_end_is_a_failure_long_before_the_expiry(desks: Desks) -> None:
    asked = desks.places("0", LAST_SEEN, expiry_ms=600_000)
    desks.is_read()
    desks.story.take(events.ExecutorRestarting(desks.story.now_ms, str(asked.uuid), "1"))
    desks.after(60_000)
    assert desks.changes(asked) == DONE[:2]
    desks.story.take(events.RestartGivenUp(desks.story.now_ms, str(asked.uuid), "1"))
    assert desks.changes(asked) == FAILED and "it runs on" in desks.message(asked)
    again = desks.places("0", LAST_SEEN, at_ms=2)
    desks.is_read()
    assert restarts(desks) == ["1", "1"] and desks.changes(again) == DONE[:2]


def test_that_an_executor_was_given_up_is_no_failure_of_another_request_nor_where_it_is_lost_all_the_same(
    desks: Desks,
) -> None:
    asked = desks.places("0", LAST_SEEN)
    desks.is_read()
    desks.story.take(events.RestartGivenUp(desks.story.now_ms, "of another request", "1"))
    desks.story.dies("1")
    desks.story.take(
        events.RestartGivenUp(desks.story.now_ms, str(asked.uuid), "1")
    )  # it ended by itself at that moment
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(asked) == DONE


def test_an_executor_that_does_not_come_back_is_a_failure(desks: Desks) -> None:
    asked = desks.places("0", LAST_SEEN, expiry_ms=30_000)
    desks.is_read()
    desks.story.dies("1")
    desks.after(30_000)
    assert desks.changes(asked) == FAILED and "its tasks run elsewhere" in desks.message(asked)


@pytest.mark.parametrize("after_ms, changes", [(30_000, DONE), (30_001, FAILED)])
@pytest.mark.parametrize("is_lost_before", [True, False])
def test_an_executor_that_comes_back_late_is_a_failure_though_nobody_looked_before(
    desks: Desks, is_lost_before: bool, after_ms: int, changes: list[str]
) -> None:
    asked = desks.places("0", LAST_SEEN, expiry_ms=30_000)
    desks.is_read()
    desks.story.take(events.ExecutorRestarting(desks.story.now_ms, str(asked.uuid), "1"))
    if is_lost_before:
        desks.story.dies("1")
    desks.story.now_ms += after_ms
    desks.story.joins("7@a")
    desks.after(0)
    assert desks.changes(asked) == changes and "processor 0 is on executor 7 at a" in desks.message(asked)


def test_actions_of_processors_that_hold_copies_of_each_other_wait() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    desks.warms_up()
    first, second = desks.places("0", LAST_SEEN, at_ms=1), desks.places("1", LAST_SEEN, at_ms=2)
    desks.is_read()
    assert desks.changes(first) == DONE[:2] and desks.changes(second) == DONE[:1]


def test_nobody_moves_to_an_executor_that_is_to_end() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    restart, move = desks.places("1", LAST_SEEN, at_ms=1), desks.places("0", "b", at_ms=2)
    desks.is_read()
    assert restarts(desks) == ["2"] and not desks.story.mind.fleet.moves
    desks.story.dies("2")
    desks.story.joins("7@b")
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    desks.runs_a_batch()
    assert desks.changes(restart) == desks.changes(move) == DONE and where(desks, "0") == {"7"}


def test_an_executor_to_which_somebody_is_on_the_way_is_not_ended_before_that_is_done() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    move, restart = desks.places("0", "b", at_ms=1), desks.places("1", LAST_SEEN, at_ms=2)
    desks.is_read()
    assert not restarts(desks)
    desks.warms_up()
    desks.runs_a_batch()
    desks.after()
    assert desks.changes(move) == DONE and restarts(desks) == ["2"] and desks.changes(restart) == DONE[:2]


def test_an_expiry_is_also_for_how_long_the_jvm_tries_to_end_an_executor(desks: Desks) -> None:
    asked = desks.places("0", LAST_SEEN, expiry_ms=10_000)
    desks.is_read()
    (order,) = (order for order in desks.story.orders if isinstance(order, RestartExecutor))
    assert order.wait_ms == 10_000
    desks.after(10_000)
    assert desks.changes(asked) == DONE[:2]
    desks.after(3_000)
    assert desks.changes(asked) == FAILED


def test_a_successor_that_comes_before_the_executor_has_gone_takes_its_processors() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b", "3@c")))
    desks.places("0", "b", at_ms=1)
    desks.is_read()
    desks.warms_up()
    desks.runs_a_batch()
    restart = desks.places("1", LAST_SEEN, at_ms=2)
    desks.is_read()
    (order,) = (order for order in desks.story.orders if isinstance(order, RestartExecutor))
    desks.story.take(events.ExecutorRestarting(desks.story.now_ms, order.request, order.executor))
    before = desks.story.mind.fleet.processor_of_task()
    desks.story.joins("7@b")
    desks.story.dies("2")
    desks.after(TIMING.rebind_timeout_ms)
    assert {desks.story.mind.fleet.processors[id].executor for id in ("0", "1")} == {"7"}
    assert desks.changes(restart) == DONE and desks.story.mind.fleet.processor_of_task() == before


def test_nobody_moves_to_an_executor_that_is_to_end_though_its_successor_has_come() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    restart = desks.places("1", LAST_SEEN, at_ms=1)
    desks.is_read()
    desks.story.take(events.ExecutorRestarting(desks.story.now_ms, str(restart.uuid), "2"))
    desks.story.joins("7@b")
    desks.after()
    assert desks.changes(restart) == DONE and "2" in desks.story.mind.fleet.executors
    desks.places("0", "b", at_ms=2)
    desks.is_read()
    assert desks.story.mind.fleet.moves["0"].executor == "7"
    desks.story.take(events.RestartGivenUp(desks.story.now_ms, str(restart.uuid), "2"))
    assert not desks.story.mind.fleet.restarts and "2" in desks.story.mind.fleet.executor_of.values()


@pytest.mark.parametrize("is_given_up_first", [True, False])
def test_an_executor_that_could_not_be_ended_works_beside_another_that_came_there(is_given_up_first: bool) -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b", "3@c")))
    restart = desks.places("1", LAST_SEEN)
    desks.is_read()
    began = events.ExecutorRestarting(desks.story.now_ms, str(restart.uuid), "2")
    desks.story.take(began)
    given_up = events.RestartGivenUp(desks.story.now_ms, began.request, began.executor)
    if is_given_up_first:
        desks.story.take(given_up)
    desks.story.joins("7@b")
    if not is_given_up_first:
        assert "2" not in desks.story.mind.fleet.executor_of.values()
        desks.story.take(given_up)
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    desks.runs_a_batch()
    fleet = desks.story.mind.fleet
    assert not fleet.restarts
    tasks = {fleet.executor_of[id]: len(held.actives) for id, held in fleet.model.containers.items()}
    assert tasks.keys() == {"1", "2", "3", "7"} and set(tasks.values()) == {1}


def test_after_a_restart_that_failed_the_next_executor_there_takes_nothing_over(desks: Desks) -> None:
    desks.places("0", LAST_SEEN, expiry_ms=30_000)
    desks.is_read()
    uuid = str(next(iter(desks.requests)))
    desks.story.take(events.ExecutorRestarting(desks.story.now_ms, uuid, "1"))
    desks.after(33_000)
    desks.story.joins("7@a")
    desks.after(TIMING.debounce_ms)
    fleet = desks.story.mind.fleet
    assert fleet.executor_of["0"] == "1" and not fleet.restarts
    assert "7" in fleet.executor_of.values()


def test_a_restart_is_waited_for_longer_than_processors_are_otherwise(desks: Desks) -> None:
    asked = desks.places("0", LAST_SEEN, expiry_ms=5 * TIMING.rebind_timeout_ms)
    desks.is_read()
    desks.story.dies("1")
    desks.after(TIMING.rebind_timeout_ms + 1_000)
    desks.after(TIMING.rebind_timeout_ms)
    assert desks.changes(asked) == DONE[:2]
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(asked) == DONE and desks.story.mind.fleet.executor_of["0"] == "7"
    desks.story.dies("7")
    desks.after(TIMING.rebind_timeout_ms + 1_000)
    assert "0" not in desks.story.mind.fleet.processors, "as ever"


def test_a_restart_waits_for_what_others_on_its_executor_are_about() -> None:
    desks = two_on_one_executor()
    assert where(desks, "1") == {"1"}, "two processors are on executor 1 now"
    away = desks.places("1", "c", at_ms=2)
    desks.is_read()
    restart = desks.places("0", LAST_SEEN, at_ms=3)
    desks.is_read()
    assert desks.changes(restart) == DONE[:1] and restarts(desks) == []
    desks.warms_up()
    assert restarts(desks) == [], "it is the refuge of processor 1 until that has worked at c"
    desks.runs_a_batch()
    desks.after()
    assert desks.changes(away) == DONE and restarts(desks) == ["1"]
