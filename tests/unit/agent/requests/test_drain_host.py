"""Emptying a host and opening it again; and that what moves goes in steps."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from mooring.agent.planning.staged_moves import IDLE_MS
from mooring.agent.status import Tally, status_of
from mooring.model import events
from mooring.placement import ANY_HOST, ANY_PROCESSOR, LAST_SEEN, STANDBY, HostAction
from mooring.records.operator_overrides import OperatorsWord
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.desks import APP, Desks, Request
from tests.unit.agent.moving import DONE, FAILED, FOUR, a_new_agent, kept_word


def asks(desks: Desks, action: HostAction, host: str, at_ms: int = 1) -> Request:
    request = desks.asks_of_host(action, host, at_ms)
    desks.is_read()
    return request


def at_work(factor: int = 1, executors: tuple[str, ...] = FOUR, most: int = 1) -> Desks:
    """Eight tasks that have run, and copies that are caught up."""
    story = running(partitions=8, executors=executors, factor=factor)
    story.mind = replace(story.mind, fleet=replace(story.mind.fleet, most_receivers=most))
    desks = Desks(story)
    desks.runs_a_batch()
    desks.warms_up()
    return desks


def goes_on(desks: Desks, rounds: int = 12) -> None:
    for _ in range(rounds):
        desks.after(TIMING.debounce_ms)
        desks.warms_up()
        desks.runs_a_batch()


def hosts_at_work(desks: Desks) -> set[str]:
    at = {id: executor.location for id, executor in desks.story.mind.fleet.executors.items()}
    return {at[id] for id in desks.story.first_choice("q").values()}


@pytest.mark.parametrize("factor", [1, 2])
def test_a_host_is_emptied_stays_empty_and_refills_when_it_is_opened(factor: int) -> None:
    desks = at_work(factor)
    drain = asks(desks, HostAction.DRAIN, "b")
    assert desks.changes(drain) == DONE[:2] and "b" in hosts_at_work(desks)
    goes_on(desks)
    assert desks.changes(drain) == DONE and "stays so until" in desks.message(drain)
    assert hosts_at_work(desks) == {"a", "c", "d"}
    assert "2" not in {id for held in desks.story.copies.get("q", {}).values() for id in held}
    desks.story.joins("9@b", "8@e")
    goes_on(desks)
    assert "b" not in hosts_at_work(desks) and "e" in hosts_at_work(desks)
    opened = asks(desks, HostAction.OPEN, "b")
    assert desks.changes(opened) == DONE
    goes_on(desks)
    assert "b" in hosts_at_work(desks)


@pytest.mark.parametrize(("most", "steps"), [(1, [1, 1]), (2, [2])])
def test_so_many_processors_take_tasks_over_at_once(most: int, steps: list[int]) -> None:
    desks = at_work(executors=("1@a", "2@b", "3@c"), most=most)
    before, found = desks.story.first_choice("q"), []
    asks(desks, HostAction.DRAIN, "c")
    for _ in range(8):
        desks.after(TIMING.debounce_ms)
        desks.warms_up()
        now = desks.story.first_choice("q")
        found.append(len({now[p] for p in now if now[p] != before[p]}))
        before = now
        desks.runs_a_batch()
    assert [count for count in found if count] == steps


def test_the_next_step_waits_until_a_batch_has_run_or_none_comes() -> None:
    desks = at_work(executors=("1@a", "2@b", "3@c"))
    asks(desks, HostAction.DRAIN, "c")
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    desks.warms_up()
    assert list(desks.story.first_choice("q").values()).count("3") > 0
    desks.after(IDLE_MS + 1_000)
    desks.warms_up()
    assert hosts_at_work(desks) == {"a", "b"}


def test_a_host_is_not_empty_before_the_batch_has_ended_that_began_before() -> None:
    desks = at_work(executors=("1@a", "2@b", "3@c"))
    desks.begins_a_batch()
    drain = asks(desks, HostAction.DRAIN, "c")
    for _ in range(20):
        desks.after(TIMING.debounce_ms)
        desks.warms_up()
    assert desks.changes(drain) == DONE[:2], "its tasks there run still"
    goes_on(desks, rounds=3)
    assert desks.changes(drain) == DONE and hosts_at_work(desks) == {"a", "b"}


def test_a_host_is_not_empty_while_a_query_runs_its_first_batch_that_began_before() -> None:
    desks = at_work(executors=("1@a", "2@b", "3@c"))
    desks.story.plans("long", 6)
    desks.after(TIMING.first_plan_wait_ms)
    desks.carry_out(lambda: desks.story.take(events.BatchBegan(desks.story.now_ms, "long", 0)))
    drain = asks(desks, HostAction.DRAIN, "c")
    goes_on(desks)  # the other query's batches
    assert desks.changes(drain) == DONE[:2]
    desks.batch = -1
    desks.runs_a_batch("long")
    goes_on(desks, rounds=2)
    assert desks.changes(drain) == DONE


def test_a_batch_of_another_query_that_never_ends_holds_no_drain_up() -> None:
    desks = at_work(executors=("1@a", "2@b"))
    desks.story.plans("small", 1)
    desks.after(TIMING.first_plan_wait_ms)
    desks.batch = -1
    desks.runs_a_batch("small")
    (elsewhere,) = {"1": "b", "2": "a"}[desks.story.first_choice("small")[0]]
    desks.carry_out(lambda: desks.story.take(events.BatchBegan(desks.story.now_ms, "small", 1)))
    drain = asks(desks, HostAction.DRAIN, elsewhere)
    for _ in range(20):
        desks.after(TIMING.debounce_ms)
        desks.warms_up()
    assert desks.changes(drain) == DONE


def test_a_query_that_is_idle_runs_no_batch_though_its_end_was_not_heard() -> None:
    desks = at_work(executors=("1@a", "2@b"))
    desks.begins_a_batch()
    drain = asks(desks, HostAction.DRAIN, "b")
    for _ in range(20):
        desks.after(TIMING.debounce_ms)
        desks.warms_up()
    assert desks.changes(drain) == DONE[:2]
    desks.carry_out(lambda: desks.story.take(events.QueryIdle(desks.story.now_ms, "q")))
    desks.after(IDLE_MS)
    assert desks.changes(drain) == DONE


def test_what_does_not_get_warm_goes_when_the_time_is_over() -> None:
    desks = at_work(executors=("1@a", "2@b"))
    asks(desks, HostAction.DRAIN, "b")
    desks.after(TIMING.debounce_ms)
    assert hosts_at_work(desks) == {"a", "b"}
    desks.after(TIMING.rebind_timeout_ms)
    assert hosts_at_work(desks) == {"a"}


@pytest.mark.parametrize(
    ("action", "host", "words"),
    [
        (HostAction.DRAIN, "bb", "there is no host bb: expected one of a, b; nearest: b"),
        (HostAction.OPEN, "q", "there is no host q: expected one of a, b"),
    ],
)
def test_a_host_that_is_not_there_is_a_bad_request(action: HostAction, host: str, words: str) -> None:
    desks = at_work(executors=("1@a", "2@b"))
    asked = asks(desks, action, host)
    assert desks.changes(asked) == ["BAD_REQUEST"] and words in desks.message(asked)


def test_the_last_open_host_can_not_be_drained() -> None:
    desks = at_work(executors=("1@a", "2@b"))
    asks(desks, HostAction.DRAIN, "a")
    asked = asks(desks, HostAction.DRAIN, "b")
    assert desks.changes(asked) == ["BAD_REQUEST"] and "mooring open-host a first" in desks.message(asked)


def test_nothing_is_moved_or_restarted_at_a_drained_host() -> None:
    desks = at_work()
    asks(desks, HostAction.DRAIN, "b")
    for processor, destination in (("0", "b"), ("1", LAST_SEEN)):
        asked = desks.places(processor, destination)
        desks.is_read()
        assert desks.changes(asked) == ["BAD_REQUEST"] and "host b is drained" in desks.message(asked)
    asks(desks, HostAction.DRAIN, "c")
    asks(desks, HostAction.DRAIN, "d")
    asked = desks.places("1", ANY_HOST)
    desks.is_read()
    assert {move.executor for move in desks.story.mind.fleet.moves.values()} <= {"1"}


def test_tasks_run_at_a_drained_host_when_no_other_lives_and_leave_when_one_comes() -> None:
    desks = at_work(executors=("1@a", "2@b"))
    asks(desks, HostAction.DRAIN, "b")
    goes_on(desks)
    desks.story.dies("1")
    assert hosts_at_work(desks) == {"b"}
    desks.after(TIMING.rebind_timeout_ms)
    assert hosts_at_work(desks) == {"b"} and desks.story.sizes("q") == [8]
    desks.story.joins("3@c")
    goes_on(desks)
    assert hosts_at_work(desks) == {"c"}


def test_a_host_may_be_opened_while_it_is_emptied() -> None:
    desks = at_work()
    drain = asks(desks, HostAction.DRAIN, "b")
    opened = asks(desks, HostAction.OPEN, "b", at_ms=2)
    desks.after()
    assert desks.changes(opened) == DONE and desks.changes(drain) == FAILED
    assert not desks.story.mind.fleet.drained


def test_drained_hosts_are_remembered_and_shown() -> None:
    desks = at_work()
    asks(desks, HostAction.DRAIN, "b")
    shown = status_of(desks.story.mind.fleet, Tally(), 0, desk=desks.story.mind.desk)
    assert shown["drained-hosts"] == [{"location": "b", "state": "draining"}]
    assert shown["requests"][0]["host-action"] == "DRAIN"
    goes_on(desks)
    shown = status_of(desks.story.mind.fleet, Tally(), 0, desk=desks.story.mind.desk)
    assert shown["drained-hosts"] == [{"location": "b", "state": "drained"}]
    word = kept_word(desks.story)
    assert word is not None and OperatorsWord.from_json(word.to_json()) == word
    new = a_new_agent(desks.story)
    goes_on(new, 3)
    assert new.story.mind.fleet.drained == {"b"} and "b" not in hosts_at_work(new)


def test_a_host_that_held_copies_alone_is_empty_when_they_are_warm_elsewhere() -> None:
    desks = at_work(factor=2)
    moved = desks.places("0", STANDBY)
    desks.is_read()
    goes_on(desks, 3)
    assert desks.changes(moved) == DONE and "a" not in hosts_at_work(desks)
    assert "1" in {id for held in desks.story.copies["q"].values() for id in held}
    drain = asks(desks, HostAction.DRAIN, "a", at_ms=2)
    for _ in range(4):
        desks.after(TIMING.debounce_ms)
        desks.warms_up(behind=5)
        desks.runs_a_batch()
    assert desks.changes(drain) == DONE[:2], "copies are five versions behind"
    goes_on(desks, 3)
    assert desks.changes(drain) == DONE


def test_what_is_forbidden_now_and_allowed_after_an_earlier_request_waits_for_that() -> None:
    desks = at_work()
    asks(desks, HostAction.DRAIN, "b")
    goes_on(desks)
    opened = Request(uuid4(), APP, ANY_PROCESSOR, "b", 2, host_action=HostAction.OPEN)
    placed = Request(uuid4(), APP, "0", "b", 3)
    for request in (opened, placed):
        desks.requests[request.uuid] = request
    desks.is_read()
    goes_on(desks, 3)
    assert desks.changes(opened) == DONE and desks.changes(placed)[0] == "ACCEPTED"
    assert desks.changes(placed)[-1] == "SUCCEEDED", desks.message(placed)


def test_what_operators_said_is_kept_before_they_are_told_that_it_is_done() -> None:
    desks = at_work()
    asks(desks, HostAction.DRAIN, "b")
    goes_on(desks)
    heard = len(desks.story.orders)
    opened = asks(desks, HostAction.OPEN, "b")
    goes_on(desks, 1)
    assert desks.changes(opened) == DONE
    kinds = [type(order).__name__ for order in desks.story.orders[heard:]]
    assert kinds.index("SaveWord") < kinds.index("Answer")
