"""Restarting a processor where it is: its executor ends, and another one takes its place."""

from __future__ import annotations

import pytest

from mooring.model import events
from mooring.model.orders import ForgetRestart, RestartExecutor
from mooring.placement import LAST_SEEN
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.moving import (
    DONE,
    FAILED,
    FOUR,
    free_host,
    restarts,
    two_on_one_executor,
    where,
)
from tests.unit.agent.queues import APP, Queues


@pytest.mark.parametrize("destination", [LAST_SEEN, "a"])
def test_a_restart_ends_the_executor_and_is_done_when_another_has_its_place(queues: Queues, destination: str) -> None:
    asked = queues.places("0", destination)
    queues.is_read()
    assert restarts(queues) == ["1"] and queues.changes(asked) == DONE[:2]
    queues.story.dies("1")
    queues.after()
    assert queues.changes(asked) == DONE[:2]
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(asked) == DONE and "executor 7 at a" in queues.message(asked)
    assert restarts(queues) == ["1"]


@pytest.mark.parametrize("destination", [LAST_SEEN, "a"])
@pytest.mark.parametrize(("master", "name"), [("yarn", "YARN"), ("k8s://https://10.0.0.1:443", "Kubernetes")])
def test_no_executor_ends_whose_successor_comes_to_any_host(
    queues: Queues, destination: str, master: str, name: str
) -> None:
    queues.story.take(events.ApplicationStarted(queues.story.now_ms, APP, "clicks", {}, "", master=master))
    asked = queues.places("0", destination)
    queues.is_read()
    assert restarts(queues) == [] and queues.changes(asked) == ["BAD_REQUEST"]
    assert f"{name} starts the successor of an executor on any host: expected ANY_HOST" in queues.message(asked)


def test_a_processor_that_is_on_its_way_elsewhere_may_be_asked_back_to_its_own_host_on_yarn(queues: Queues) -> None:
    queues.story.take(events.ApplicationStarted(queues.story.now_ms, APP, "clicks", {}, "", master="yarn"))
    away = queues.places("0", free_host(queues), at_ms=1)
    back = queues.places("0", "a", at_ms=2)
    queues.is_read()
    assert queues.changes(away) == DONE[:2] and queues.changes(back) == DONE[:1]
    queues.warms_up()
    queues.runs_a_batch()
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(away) == queues.changes(back) == DONE
    assert where(queues, "0") == {"1"} and restarts(queues) == []


def forgotten(queues: Queues) -> list[str]:
    return [order.request for order in queues.story.orders if isinstance(order, ForgetRestart)]


@pytest.mark.parametrize("is_given_up", [False, True])
def test_the_jvm_forgets_a_restart_when_the_request_is_out_of_the_store(queues: Queues, is_given_up: bool) -> None:
    asked = queues.places("0", LAST_SEEN)
    queues.is_read()
    queues.story.take(events.ExecutorRestarting(queues.story.now_ms, str(asked.uuid), "1"))
    if is_given_up:
        queues.story.take(events.RestartGivenUp(queues.story.now_ms, str(asked.uuid), "1"))
    else:
        queues.story.dies("1")
        queues.story.joins("7@a")
    queues.after()
    assert queues.changes(asked) == (FAILED if is_given_up else DONE)
    queues.requests[asked.uuid] = asked  # the answer is not written yet
    queues.is_read()
    assert not forgotten(queues), "a later agent may have to learn that the executor was ended"
    queues.requests.clear()
    for _ in range(2):
        queues.is_read()
    assert forgotten(queues) == [str(asked.uuid)]


def test_a_new_agent_has_the_jvm_forget_what_an_agent_before_it_has_ended(queues: Queues) -> None:
    queues.story.take(events.ExecutorRestarting(queues.story.now_ms, "of a request long ago", "gone"))
    queues.places("0", free_host(queues))
    queues.is_read()
    queues.warms_up()
    queues.runs_a_batch()
    queues.is_read()
    assert forgotten(queues) == ["of a request long ago"]


def test_an_executor_that_does_not_end_is_a_failure_and_runs_on(queues: Queues) -> None:
    asked = queues.places("0", LAST_SEEN, expiry_ms=30_000)
    queues.is_read()
    queues.after(33_000)
    assert queues.changes(asked) == FAILED and "it runs on" in queues.message(asked)


def test_an_executor_that_is_given_up_to_end_is_a_failure_long_before_the_expiry(queues: Queues) -> None:
    asked = queues.places("0", LAST_SEEN, expiry_ms=600_000)
    queues.is_read()
    queues.story.take(events.ExecutorRestarting(queues.story.now_ms, str(asked.uuid), "1"))
    queues.after(60_000)
    assert queues.changes(asked) == DONE[:2]
    queues.story.take(events.RestartGivenUp(queues.story.now_ms, str(asked.uuid), "1"))
    assert queues.changes(asked) == FAILED and "it runs on" in queues.message(asked)
    again = queues.places("0", LAST_SEEN, at_ms=2)
    queues.is_read()
    assert restarts(queues) == ["1", "1"] and queues.changes(again) == DONE[:2]


def test_that_an_executor_was_given_up_is_no_failure_of_another_request_nor_where_it_is_lost_all_the_same(
    queues: Queues,
) -> None:
    asked = queues.places("0", LAST_SEEN)
    queues.is_read()
    queues.story.take(events.RestartGivenUp(queues.story.now_ms, "of another request", "1"))
    queues.story.dies("1")
    queues.story.take(
        events.RestartGivenUp(queues.story.now_ms, str(asked.uuid), "1")
    )  # it ended by itself at that moment
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(asked) == DONE


def test_an_executor_that_does_not_come_back_is_a_failure(queues: Queues) -> None:
    asked = queues.places("0", LAST_SEEN, expiry_ms=30_000)
    queues.is_read()
    queues.story.dies("1")
    queues.after(30_000)
    assert queues.changes(asked) == FAILED and "its tasks run elsewhere" in queues.message(asked)


@pytest.mark.parametrize("after_ms, changes", [(30_000, DONE), (30_001, FAILED)])
@pytest.mark.parametrize("is_lost_before", [True, False])
def test_an_executor_that_comes_back_late_is_a_failure_though_nobody_looked_before(
    queues: Queues, is_lost_before: bool, after_ms: int, changes: list[str]
) -> None:
    asked = queues.places("0", LAST_SEEN, expiry_ms=30_000)
    queues.is_read()
    queues.story.take(events.ExecutorRestarting(queues.story.now_ms, str(asked.uuid), "1"))
    if is_lost_before:
        queues.story.dies("1")
    queues.story.now_ms += after_ms
    queues.story.joins("7@a")
    queues.after(0)
    assert queues.changes(asked) == changes and "processor 0 is on executor 7 at a" in queues.message(asked)


def test_actions_of_processors_that_hold_copies_of_each_other_wait() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    queues.warms_up()
    first, second = queues.places("0", LAST_SEEN, at_ms=1), queues.places("1", LAST_SEEN, at_ms=2)
    queues.is_read()
    assert queues.changes(first) == DONE[:2] and queues.changes(second) == DONE[:1]


def test_nobody_moves_to_an_executor_that_is_to_end() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    restart, move = queues.places("1", LAST_SEEN, at_ms=1), queues.places("0", "b", at_ms=2)
    queues.is_read()
    assert restarts(queues) == ["2"] and not queues.story.state.fleet.ongoing.moves
    queues.story.dies("2")
    queues.story.joins("7@b")
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(restart) == queues.changes(move) == DONE and where(queues, "0") == {"7"}


def test_an_executor_to_which_somebody_is_on_the_way_is_not_ended_before_that_is_done() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    move, restart = queues.places("0", "b", at_ms=1), queues.places("1", LAST_SEEN, at_ms=2)
    queues.is_read()
    assert not restarts(queues)
    queues.warms_up()
    queues.runs_a_batch()
    queues.after()
    assert queues.changes(move) == DONE and restarts(queues) == ["2"] and queues.changes(restart) == DONE[:2]


def test_an_expiry_is_also_for_how_long_the_jvm_tries_to_end_an_executor(queues: Queues) -> None:
    asked = queues.places("0", LAST_SEEN, expiry_ms=10_000)
    queues.is_read()
    (order,) = (order for order in queues.story.orders if isinstance(order, RestartExecutor))
    assert order.wait_ms == 10_000
    queues.after(10_000)
    assert queues.changes(asked) == DONE[:2]
    queues.after(3_000)
    assert queues.changes(asked) == FAILED


def test_a_successor_that_comes_before_the_executor_has_gone_takes_its_processors() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b", "3@c")))
    queues.places("0", "b", at_ms=1)
    queues.is_read()
    queues.warms_up()
    queues.runs_a_batch()
    restart = queues.places("1", LAST_SEEN, at_ms=2)
    queues.is_read()
    (order,) = (order for order in queues.story.orders if isinstance(order, RestartExecutor))
    queues.story.take(events.ExecutorRestarting(queues.story.now_ms, order.request, order.executor))
    before = queues.story.state.fleet.processor_of_task()
    queues.story.joins("7@b")
    queues.story.dies("2")
    queues.after(TIMING.rebind_timeout_ms)
    assert {queues.story.state.fleet.processors[id].executor for id in ("0", "1")} == {"7"}
    assert queues.changes(restart) == DONE and queues.story.state.fleet.processor_of_task() == before


def test_nobody_moves_to_an_executor_that_is_to_end_though_its_successor_has_come() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    restart = queues.places("1", LAST_SEEN, at_ms=1)
    queues.is_read()
    queues.story.take(events.ExecutorRestarting(queues.story.now_ms, str(restart.uuid), "2"))
    queues.story.joins("7@b")
    queues.after()
    assert queues.changes(restart) == DONE and "2" in queues.story.state.fleet.executors
    queues.places("0", "b", at_ms=2)
    queues.is_read()
    assert queues.story.state.fleet.ongoing.moves["0"].destination == "7"
    queues.story.take(events.RestartGivenUp(queues.story.now_ms, str(restart.uuid), "2"))
    assert not queues.story.state.fleet.ongoing.restarts and "2" in queues.story.state.fleet.executor_of.values()


@pytest.mark.parametrize("is_given_up_first", [True, False])
def test_an_executor_that_could_not_be_ended_works_beside_another_that_came_there(is_given_up_first: bool) -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b", "3@c")))
    restart = queues.places("1", LAST_SEEN)
    queues.is_read()
    began = events.ExecutorRestarting(queues.story.now_ms, str(restart.uuid), "2")
    queues.story.take(began)
    given_up = events.RestartGivenUp(queues.story.now_ms, began.request, began.executor)
    if is_given_up_first:
        queues.story.take(given_up)
    queues.story.joins("7@b")
    if not is_given_up_first:
        assert "2" not in queues.story.state.fleet.executor_of.values()
        queues.story.take(given_up)
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    queues.runs_a_batch()
    fleet = queues.story.state.fleet
    assert not fleet.ongoing.restarts
    tasks = {fleet.executor_of[id]: len(held.actives) for id, held in fleet.model.containers.items()}
    assert tasks.keys() == {"1", "2", "3", "7"} and set(tasks.values()) == {1}


def test_after_a_restart_that_failed_the_next_executor_there_takes_nothing_over(queues: Queues) -> None:
    queues.places("0", LAST_SEEN, expiry_ms=30_000)
    queues.is_read()
    uuid = str(next(iter(queues.requests)))
    queues.story.take(events.ExecutorRestarting(queues.story.now_ms, uuid, "1"))
    queues.after(33_000)
    queues.story.joins("7@a")
    queues.after(TIMING.debounce_ms)
    fleet = queues.story.state.fleet
    assert fleet.executor_of["0"] == "1" and not fleet.ongoing.restarts
    assert "7" in fleet.executor_of.values()


def test_a_restart_is_waited_for_longer_than_processors_are_otherwise(queues: Queues) -> None:
    asked = queues.places("0", LAST_SEEN, expiry_ms=5 * TIMING.rebind_timeout_ms)
    queues.is_read()
    queues.story.dies("1")
    queues.after(TIMING.rebind_timeout_ms + 1_000)
    queues.after(TIMING.rebind_timeout_ms)
    assert queues.changes(asked) == DONE[:2]
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(asked) == DONE and queues.story.state.fleet.executor_of["0"] == "7"
    queues.story.dies("7")
    queues.after(TIMING.rebind_timeout_ms + 1_000)
    assert "0" not in queues.story.state.fleet.processors, "as ever"


def test_a_restart_waits_for_what_others_on_its_executor_are_about() -> None:
    queues = two_on_one_executor()
    assert where(queues, "1") == {"1"}, "two processors are on executor 1 now"
    away = queues.places("1", "c", at_ms=2)
    queues.is_read()
    restart = queues.places("0", LAST_SEEN, at_ms=3)
    queues.is_read()
    assert queues.changes(restart) == DONE[:1] and restarts(queues) == []
    queues.warms_up()
    assert restarts(queues) == [], "it is the refuge of processor 1 until that has worked at c"
    queues.runs_a_batch()
    queues.after()
    assert queues.changes(away) == DONE and restarts(queues) == ["1"]
