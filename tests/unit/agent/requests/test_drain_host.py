"""Emptying a host and opening it again; and that what moves goes in steps."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from mooring.agent.counters import Counters
from mooring.agent.planning.moves_in_steps import IDLE_MS
from mooring.agent.status import status_of
from mooring.model import events
from mooring.placement import ANY_HOST, ANY_PROCESSOR, LAST_SEEN, STANDBY, HostAction
from mooring.records.operator_overrides import OperatorOverrides
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.moving import DONE, FAILED, FOUR, a_new_agent, has_moved, kept_overrides
from tests.unit.agent.queues import APP, Queues, Request


def asks(queues: Queues, action: HostAction, host: str, at_ms: int = 1) -> Request:
    request = queues.asks_of_host(action, host, at_ms)
    queues.is_read()
    return request


def at_work(factor: int = 1, executors: tuple[str, ...] = FOUR, most: int = 1) -> Queues:
    """Eight tasks that have run, and copies that are caught up."""
    story = running(partitions=8, executors=executors, factor=factor)
    fleet = story.state.fleet
    settings = replace(fleet.settings, most_receivers=most)
    story.state = replace(story.state, fleet=replace(fleet, settings=settings))
    queues = Queues(story)
    queues.runs_a_batch()
    queues.warms_up()
    return queues


def goes_on(queues: Queues, rounds: int = 12) -> None:
    for _ in range(rounds):
        queues.after(TIMING.debounce_ms)
        queues.warms_up()
        queues.runs_a_batch()


def hosts_at_work(queues: Queues) -> set[str]:
    at = {id: executor.location for id, executor in queues.story.state.fleet.executors.items()}
    return {at[id] for id in queues.story.first_choice("q").values()}


@pytest.mark.parametrize("factor", [1, 2])
def test_a_host_is_emptied_stays_empty_and_refills_when_it_is_opened(factor: int) -> None:
    queues = at_work(factor)
    drain = asks(queues, HostAction.DRAIN, "b")
    assert queues.changes(drain) == DONE[:2] and "b" in hosts_at_work(queues)
    goes_on(queues)
    assert queues.changes(drain) == DONE and "stays so until" in queues.message(drain)
    assert hosts_at_work(queues) == {"a", "c", "d"}
    assert "2" not in {id for held in queues.story.copies.get("q", {}).values() for id in held}
    queues.story.joins("9@b", "8@e")
    goes_on(queues)
    assert "b" not in hosts_at_work(queues) and "e" in hosts_at_work(queues)
    opened = asks(queues, HostAction.OPEN, "b")
    assert queues.changes(opened) == DONE
    goes_on(queues)
    assert "b" in hosts_at_work(queues)


@pytest.mark.parametrize(("most", "steps"), [(1, [1, 1]), (2, [2])])
def test_so_many_processors_take_tasks_over_at_once(most: int, steps: list[int]) -> None:
    queues = at_work(executors=("1@a", "2@b", "3@c"), most=most)
    before, found = queues.story.first_choice("q"), []
    asks(queues, HostAction.DRAIN, "c")
    for _ in range(8):
        queues.after(TIMING.debounce_ms)
        queues.warms_up()
        now = queues.story.first_choice("q")
        found.append(len({now[p] for p in now if now[p] != before[p]}))
        before = now
        queues.runs_a_batch()
    assert [count for count in found if count] == steps


def test_the_next_step_waits_until_a_batch_has_run_or_none_comes() -> None:
    queues = at_work(executors=("1@a", "2@b", "3@c"))
    asks(queues, HostAction.DRAIN, "c")
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    queues.warms_up()
    assert list(queues.story.first_choice("q").values()).count("3") > 0
    queues.after(IDLE_MS + 1_000)
    queues.warms_up()
    assert hosts_at_work(queues) == {"a", "b"}


def test_a_host_is_not_empty_before_the_batch_has_ended_that_began_before() -> None:
    queues = at_work(executors=("1@a", "2@b", "3@c"))
    queues.begins_a_batch()
    drain = asks(queues, HostAction.DRAIN, "c")
    for _ in range(20):
        queues.after(TIMING.debounce_ms)
        queues.warms_up()
    assert queues.changes(drain) == DONE[:2], "its tasks there run still"
    goes_on(queues, rounds=3)
    assert queues.changes(drain) == DONE and hosts_at_work(queues) == {"a", "b"}


def test_a_host_is_not_empty_while_a_query_runs_its_first_batch_that_began_before() -> None:
    queues = at_work(executors=("1@a", "2@b", "3@c"))
    queues.story.plans("long", 6)
    queues.after(TIMING.first_plan_wait_ms)
    queues.carry_out(lambda: queues.story.take(events.BatchBegan(queues.story.now_ms, "long", 0)))
    drain = asks(queues, HostAction.DRAIN, "c")
    goes_on(queues)  # the other query's batches
    assert queues.changes(drain) == DONE[:2]
    queues.batch = -1
    queues.runs_a_batch("long")
    goes_on(queues, rounds=2)
    assert queues.changes(drain) == DONE


def test_a_batch_of_another_query_that_never_ends_holds_no_drain_up() -> None:
    queues = at_work(executors=("1@a", "2@b"))
    queues.story.plans("small", 1)
    queues.after(TIMING.first_plan_wait_ms)
    queues.batch = -1
    queues.runs_a_batch("small")
    (elsewhere,) = {"1": "b", "2": "a"}[queues.story.first_choice("small")[0]]
    queues.carry_out(lambda: queues.story.take(events.BatchBegan(queues.story.now_ms, "small", 1)))
    drain = asks(queues, HostAction.DRAIN, elsewhere)
    for _ in range(20):
        queues.after(TIMING.debounce_ms)
        queues.warms_up()
    assert queues.changes(drain) == DONE


def test_a_query_that_is_idle_runs_no_batch_though_its_end_was_not_heard() -> None:
    queues = at_work(executors=("1@a", "2@b"))
    queues.begins_a_batch()
    drain = asks(queues, HostAction.DRAIN, "b")
    for _ in range(20):
        queues.after(TIMING.debounce_ms)
        queues.warms_up()
    assert queues.changes(drain) == DONE[:2]
    queues.carry_out(lambda: queues.story.take(events.QueryIdle(queues.story.now_ms, "q")))
    queues.after(IDLE_MS)
    assert queues.changes(drain) == DONE


def test_what_does_not_get_warm_goes_when_the_time_is_over() -> None:
    queues = at_work(executors=("1@a", "2@b"))
    asks(queues, HostAction.DRAIN, "b")
    queues.after(TIMING.debounce_ms)
    assert hosts_at_work(queues) == {"a", "b"}
    queues.after(TIMING.rebind_timeout_ms)
    assert hosts_at_work(queues) == {"a"}


@pytest.mark.parametrize(
    ("action", "host", "words"),
    [
        (HostAction.DRAIN, "bb", "there is no host bb: expected one of a, b; nearest: b"),
        (HostAction.OPEN, "q", "there is no host q: expected one of a, b"),
    ],
)
def test_a_host_that_is_not_there_is_a_bad_request(action: HostAction, host: str, words: str) -> None:
    queues = at_work(executors=("1@a", "2@b"))
    asked = asks(queues, action, host)
    assert queues.changes(asked) == ["BAD_REQUEST"] and words in queues.message(asked)


def test_the_last_open_host_can_not_be_drained() -> None:
    queues = at_work(executors=("1@a", "2@b"))
    asks(queues, HostAction.DRAIN, "a")
    asked = asks(queues, HostAction.DRAIN, "b")
    assert queues.changes(asked) == ["BAD_REQUEST"] and "mooring open-host a first" in queues.message(asked)


def test_a_host_is_drained_after_an_earlier_request_that_opens_the_only_other_host() -> None:
    queues = at_work(executors=("1@a", "2@b"))
    asks(queues, HostAction.DRAIN, "a")
    goes_on(queues)
    opened = queues.asks_of_host(HostAction.OPEN, "a", at_ms=2)
    drain, unknown = (queues.asks_of_host(HostAction.DRAIN, host, at_ms=3) for host in ("b", "bb"))
    queues.is_read()
    assert queues.changes(opened) == DONE and queues.changes(drain) == DONE[:2]
    assert queues.changes(unknown) == ["BAD_REQUEST"] and "there is no host bb" in queues.message(unknown)
    goes_on(queues)
    assert queues.changes(drain) == DONE and hosts_at_work(queues) == {"a"}


def test_a_drain_waits_for_the_request_that_opens_another_host_while_that_has_to_wait() -> None:
    queues = at_work(executors=("1@a", "2@b"))
    first, second = (queues.asks_of_host(HostAction.DRAIN, "a", at_ms=at_ms) for at_ms in (1, 2))
    queues.is_read()
    opened = queues.asks_of_host(HostAction.OPEN, "a", at_ms=3)
    drain = queues.asks_of_host(HostAction.DRAIN, "b", at_ms=4)
    queues.is_read()
    assert queues.changes(first) == DONE[:2]
    assert [queues.changes(request) for request in (second, opened, drain)] == [DONE[:1]] * 3
    goes_on(queues)
    assert [queues.changes(request) for request in (first, second, opened)] == [DONE] * 3
    goes_on(queues)
    assert queues.changes(drain) == DONE and hosts_at_work(queues) == {"a"}


def test_nothing_is_moved_or_restarted_at_a_drained_host() -> None:
    queues = at_work()
    asks(queues, HostAction.DRAIN, "b")
    for processor, destination in (("0", "b"), ("1", LAST_SEEN)):
        asked = queues.places(processor, destination)
        queues.is_read()
        assert queues.changes(asked) == ["BAD_REQUEST"] and "host b is drained" in queues.message(asked)
    asks(queues, HostAction.DRAIN, "c")
    asks(queues, HostAction.DRAIN, "d")
    asked = queues.places("1", ANY_HOST)
    queues.is_read()
    assert {move.destination for move in queues.story.state.fleet.ongoing.moves.values()} <= {"1"}


def test_an_executor_that_a_move_vacated_takes_the_place_of_one_at_a_drained_host() -> None:
    queues = has_moved(("1@a", "2@b", "3@c"))
    assert hosts_at_work(queues) == {"b", "c"}
    drain = asks(queues, HostAction.DRAIN, "c")
    goes_on(queues)
    assert queues.changes(drain) == DONE
    assert hosts_at_work(queues) == {"a", "b"}
    model = queues.story.state.fleet.model
    assert sorted(len(held.actives) for held in model.containers.values() if held.actives) == [1, 1, 2]
    opened = asks(queues, HostAction.OPEN, "c")
    goes_on(queues)
    assert queues.changes(opened) == DONE
    assert "3" in queues.story.first_choice("q").values()


def test_while_a_host_stays_drained_a_later_move_is_not_undone() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b", "3@c")))
    asks(queues, HostAction.DRAIN, "c")
    goes_on(queues)
    queues.places("0", "b", at_ms=2)
    queues.is_read()
    goes_on(queues)
    assert hosts_at_work(queues) == {"b"}
    queues.story.plans("another", 4)
    goes_on(queues)
    assert hosts_at_work(queues) == {"b"} and set(queues.story.first_choice("another").values()) == {"2"}


@pytest.mark.parametrize("is_remembered", [False, True])
def test_a_replacement_works_on_when_the_drained_host_loses_its_executor_and_its_query_ends(
    is_remembered: bool,
) -> None:
    queues = has_moved(("1@a", "2@b", "3@c"))
    asks(queues, HostAction.DRAIN, "c")
    goes_on(queues)
    queues.story.dies("3")
    goes_on(queues)
    queues = a_new_agent(queues.story) if is_remembered else queues
    queues.story.ends("q")
    queues.after(TIMING.debounce_ms)
    queues.story.plans("q", 4)
    queues.after(TIMING.rebind_timeout_ms)
    goes_on(queues)
    assert hosts_at_work(queues) == {"a", "b"}


def test_an_executor_that_a_move_is_to_use_is_no_replacement() -> None:
    queues = has_moved(FOUR)
    queues.places("2", "a", at_ms=2)
    queues.is_read()
    asks(queues, HostAction.DRAIN, "d")
    on_first = [p for p in queues.story.state.fleet.processors.values() if p.executor == "1"]
    assert [p.is_spare for p in on_first] == [True]
    goes_on(queues)
    assert "c" not in hosts_at_work(queues) and "a" in hosts_at_work(queues)


def test_tasks_run_at_a_drained_host_when_no_other_lives_and_leave_when_one_comes() -> None:
    queues = at_work(executors=("1@a", "2@b"))
    asks(queues, HostAction.DRAIN, "b")
    goes_on(queues)
    queues.story.dies("1")
    assert hosts_at_work(queues) == {"b"}
    queues.after(TIMING.rebind_timeout_ms)
    assert hosts_at_work(queues) == {"b"} and queues.story.sizes("q") == [8]
    queues.story.joins("3@c")
    goes_on(queues)
    assert hosts_at_work(queues) == {"c"}


def test_a_host_may_be_opened_while_it_is_emptied() -> None:
    queues = at_work()
    drain = asks(queues, HostAction.DRAIN, "b")
    opened = asks(queues, HostAction.OPEN, "b", at_ms=2)
    queues.after()
    assert queues.changes(opened) == DONE and queues.changes(drain) == FAILED
    assert not queues.story.state.fleet.overrides.drained


def test_drained_hosts_are_remembered_and_shown() -> None:
    queues = at_work()
    asks(queues, HostAction.DRAIN, "b")
    shown = status_of(queues.story.state.fleet, Counters(), 0, queue=queues.story.state.queue)
    assert shown["drained-hosts"] == [{"location": "b", "state": "draining"}]
    assert shown["requests"][0]["host-action"] == "DRAIN"
    goes_on(queues)
    shown = status_of(queues.story.state.fleet, Counters(), 0, queue=queues.story.state.queue)
    assert shown["drained-hosts"] == [{"location": "b", "state": "drained"}]
    word = kept_overrides(queues.story)
    assert word is not None and OperatorOverrides.from_json(word.to_json()) == word
    new = a_new_agent(queues.story)
    goes_on(new, 3)
    assert new.story.state.fleet.overrides.drained == {"b"} and "b" not in hosts_at_work(new)


def test_a_host_that_held_copies_alone_is_empty_when_they_are_warm_elsewhere() -> None:
    queues = at_work(factor=2)
    moved = queues.places("0", STANDBY)
    queues.is_read()
    goes_on(queues, 3)
    assert queues.changes(moved) == DONE and "a" not in hosts_at_work(queues)
    assert "1" in {id for held in queues.story.copies["q"].values() for id in held}
    drain = asks(queues, HostAction.DRAIN, "a", at_ms=2)
    for _ in range(4):
        queues.after(TIMING.debounce_ms)
        queues.warms_up(behind=5)
        queues.runs_a_batch()
    assert queues.changes(drain) == DONE[:2], "copies are five versions behind"
    goes_on(queues, 3)
    assert queues.changes(drain) == DONE


def test_what_is_forbidden_now_and_allowed_after_an_earlier_request_waits_for_that() -> None:
    queues = at_work()
    asks(queues, HostAction.DRAIN, "b")
    goes_on(queues)
    opened = Request(uuid4(), APP, ANY_PROCESSOR, "b", 2, host_action=HostAction.OPEN)
    placed = Request(uuid4(), APP, "0", "b", 3)
    for request in (opened, placed):
        queues.requests[request.uuid] = request
    queues.is_read()
    goes_on(queues, 3)
    assert queues.changes(opened) == DONE and queues.changes(placed)[0] == "ACCEPTED"
    assert queues.changes(placed)[-1] == "SUCCEEDED", queues.message(placed)


@pytest.mark.parametrize(("processor", "words"), [("99", "there is no processor 99"), ("0-7", "no processor 0-7")])
def test_a_processor_that_is_not_there_is_refused_behind_a_request_that_opens_the_host(
    processor: str, words: str
) -> None:
    queues = at_work()
    asks(queues, HostAction.DRAIN, "b")
    goes_on(queues)
    opened = queues.asks_of_host(HostAction.OPEN, "b", at_ms=2)
    placed = queues.places(processor, "b", at_ms=3)
    queues.is_read()
    assert queues.changes(placed) == ["BAD_REQUEST"] and words in queues.message(placed)
    assert queues.changes(opened) == DONE


def test_what_operators_said_is_kept_before_they_are_told_that_it_is_done() -> None:
    queues = at_work()
    asks(queues, HostAction.DRAIN, "b")
    goes_on(queues)
    heard = len(queues.story.orders)
    opened = asks(queues, HostAction.OPEN, "b")
    goes_on(queues, 1)
    assert queues.changes(opened) == DONE
    kinds = [type(order).__name__ for order in queues.story.orders[heard:]]
    assert kinds.index("SaveOverrides") < kinds.index("Answer")
