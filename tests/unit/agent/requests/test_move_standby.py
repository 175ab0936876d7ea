"""Moving and restarting the standby of a processor, as 4-0: what the core decides, and what it answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.agent.planning.copies import copies_of
from mooring.agent.requests.move import CATCH_UP_MS, TROUBLE_MS, Patience
from mooring.agent.requests.move_standby import LET_GO_MS
from mooring.agent.requests.queue import Desk
from mooring.model import events
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, StatusCode
from mooring.records.operator_overrides import Begun
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.desks import Desks
from tests.unit.agent.moving import DONE, FAILED, a_new_agent, executor_at, kept_word, tasks_of, warm_on_four, where

PATIENCE = Patience()
HOSTS = {"a", "b", "c", "d"}


@pytest.fixture
def desks() -> Desks:
    return warm_on_four(2)


def hosts_of(desks: Desks, standby: str = "0-0") -> set[str]:
    """Where the plan has the copies."""
    fleet = desks.story.mind.fleet
    return {fleet.processors[id].location for id in copies_of(fleet, standby).values()}


def free_for_standby(desks: Desks, standby: str = "0-0") -> str:
    own = desks.story.mind.fleet.processors[standby[0]].location
    return min(HOSTS - {own} - hosts_of(desks, standby))


def told_to_hold(desks: Desks, processor: str = "0") -> set[str]:
    """The executors that the JVM was told to have copies of the processor's tasks."""
    copies = desks.story.copies.get("q", {})
    return {executor for partition in tasks_of(desks, processor) for executor in copies.get(partition, ())}


def test_a_standby_is_made_at_the_destination_before_it_leaves_the_source(desks: Desks) -> None:
    source, host = hosts_of(desks), free_for_standby(desks)
    there = executor_at(desks, host)
    asked = desks.places("0-0", host)
    desks.is_read()
    assert desks.changes(asked) == DONE[:2] and hosts_of(desks) == source
    assert told_to_hold(desks) == {there, *(executor_at(desks, place) for place in source)}
    desks.warms_up(behind=2)
    assert hosts_of(desks) == source
    desks.warms_up()
    assert hosts_of(desks) == {host} and told_to_hold(desks) == {there}
    assert desks.changes(asked) == DONE and host in desks.message(asked)
    assert where(desks, "0") == {"1"}, "its active stays where it is"
    desks.check()


def test_it_stays_there_through_later_plans_and_ends_with_its_processor(desks: Desks) -> None:
    host = free_for_standby(desks)
    desks.places("0-0", host)
    desks.is_read()
    desks.warms_up()
    desks.story.joins("9@e")
    for _ in range(3):
        desks.after(TIMING.debounce_ms)
        desks.warms_up()
        desks.runs_a_batch()
    assert hosts_of(desks) == {host}
    desks.check()
    desks.story.dies("1")
    desks.after(TIMING.rebind_timeout_ms + TIMING.debounce_ms)
    assert "0" not in desks.story.mind.fleet.processors and not desks.story.mind.fleet.pinned_standbys


@pytest.mark.parametrize("destination", [LAST_SEEN, "its host"])
def test_a_restart_lets_go_of_the_copies_and_makes_them_again_where_they_were(desks: Desks, destination: str) -> None:
    (host,) = hosts_of(desks)
    asked = desks.places("0-0", host if destination == "its host" else destination)
    desks.is_read()
    assert hosts_of(desks) == {host} and not told_to_hold(desks)
    desks.after(LET_GO_MS)
    assert told_to_hold(desks) == {executor_at(desks, host)} and desks.changes(asked) == DONE[:2]
    desks.warms_up(behind=1)
    assert desks.changes(asked) == DONE[:2], "they have not caught up"
    desks.warms_up()
    assert desks.changes(asked) == DONE and hosts_of(desks) == {host}
    assert not desks.story.mind.fleet.pinned_standbys, "nobody has said where they are to be"


def test_any_host_is_another_one_that_has_the_fewest_copies(desks: Desks) -> None:
    source = hosts_of(desks)
    asked = desks.places("0-0", ANY_HOST)
    desks.is_read()
    desks.warms_up()
    assert desks.changes(asked) == DONE and not hosts_of(desks) & (source | {"a"})


@pytest.mark.parametrize(
    ("standby", "destination", "reason"),
    [
        ("0-0", "a", "processor 0 itself is at a"),
        ("0-0", STANDBY, "0-0 is a standby and has none: expected a host, ANY_HOST or LAST_SEEN"),
        ("0-0", "standby", "0-0 is a standby and has none: expected a host, ANY_HOST or LAST_SEEN"),
        ("0-0", "last_seen", "nearest: LAST_SEEN"),
        ("0-0", "no host", "nearest: "),
        ("0-1", "b", "there is no processor 0-1"),
        ("9-0", "b", "there is no processor 9-0"),
    ],
)
def test_what_can_not_be_is_refused_with_the_reason(desks: Desks, standby: str, destination: str, reason: str) -> None:
    before = hosts_of(desks)
    asked = desks.places(standby, destination)
    desks.is_read()
    assert desks.changes(asked) == ["BAD_REQUEST"] and reason in desks.message(asked)
    assert hosts_of(desks) == before


def test_with_two_copies_the_place_of_the_other_one_is_refused_and_a_free_one_is_not() -> None:
    desks = warm_on_four(3)
    other = hosts_of(desks, "0-1")
    refused = desks.places("0-0", min(other))
    desks.is_read()
    assert desks.changes(refused) == ["BAD_REQUEST"] and "another copy of" in desks.message(refused)
    host = min(HOSTS - {"a"} - other - hosts_of(desks, "0-0"))
    asked = desks.places("0-0", host, at_ms=2)
    desks.is_read()
    desks.warms_up()
    assert desks.changes(asked) == DONE and hosts_of(desks, "0-0") == {host}
    assert len(hosts_of(desks, "0-1") - {host, "a"}) == 1
    desks.check()


def test_stopped_standbys_are_not_placed(desks: Desks) -> None:
    desks.asks("STOP")
    desks.is_read()
    asked = desks.places("0-0", "b", at_ms=2)
    desks.is_read()
    assert desks.changes(asked) == ["BAD_REQUEST"] and "control-standby --processor-id 0 start" in desks.message(asked)


def test_a_host_of_a_zone_that_has_another_copy_is_refused_while_there_is_a_free_one() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b", "3@c", "4@d"), factor=2))
    for id, zone in (("1", "x"), ("2", "x"), ("3", "y"), ("4", "y")):
        host = desks.story.mind.fleet.executors[id].location
        desks.story.take(events.ExecutorRegistered(desks.story.now_ms, id, host, 1, zone))
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    refused = desks.places("0-0", "b")
    desks.is_read()
    assert desks.changes(refused) == ["BAD_REQUEST"] and "expected a host of zone y" in desks.message(refused)


def test_no_executor_before_the_expiry_is_a_failure_that_changes_nothing(desks: Desks) -> None:
    before = hosts_of(desks)
    asked = desks.places("0-0", "e", expiry_ms=5_000)
    desks.is_read()
    desks.after(5_000)
    assert desks.changes(asked) == FAILED and "no executor was there for e within 5000 ms" in desks.message(asked)
    assert hosts_of(desks) == before


def test_a_destination_that_dies_or_never_catches_up_is_a_failure_and_the_copies_stay(desks: Desks) -> None:
    before, host = hosts_of(desks), free_for_standby(desks)
    asked = desks.places("0-0", host)
    desks.is_read()
    desks.story.dies(executor_at(desks, host))
    desks.after()
    assert desks.changes(asked) == FAILED and "no copy has moved" in desks.message(asked)
    host = min(HOSTS - {"a", host} - before)
    never = desks.places("0-0", host)
    desks.is_read()
    desks.warms_up(behind=5, trouble=("no space left", TROUBLE_MS))
    desks.after(TROUBLE_MS)
    assert desks.changes(never) == FAILED and "(no space left): no copy has moved" in desks.message(never)
    late = desks.places("0-0", host, at_ms=2)
    desks.is_read()
    for _ in range(2):
        desks.warms_up(behind=5)
        desks.after(PATIENCE.warm_up_ms // 2 + 100)
    assert desks.changes(late) == FAILED and "were not there after" in desks.message(late)
    assert not desks.story.mind.fleet.moves and not desks.story.mind.fleet.pinned_standbys


def test_when_the_source_of_the_active_dies_the_copies_work_and_the_request_fails(desks: Desks) -> None:
    (holder,) = {executor_at(desks, host) for host in hosts_of(desks)}
    tasks = tasks_of(desks, "0")
    asked = desks.places("0-0", free_for_standby(desks))
    desks.is_read()
    desks.story.dies("1")
    desks.after()
    assert desks.changes(asked) == FAILED and "its tasks run where their copies are" in desks.message(asked)
    assert {desks.story.first_choice("q")[task] for task in tasks} == {holder}


def test_requests_for_a_processor_and_for_its_standby_are_done_one_by_one(desks: Desks) -> None:
    host = free_for_standby(desks)
    first = desks.places("0-0", host, at_ms=1)
    second = desks.places("0", STANDBY, at_ms=2)
    desks.is_read()
    assert desks.changes(first) == DONE[:2] and desks.changes(second) == DONE[:1]
    desks.warms_up()
    assert desks.changes(first) == DONE
    desks.warms_up()
    desks.runs_a_batch()
    assert desks.changes(second) == DONE and where(desks, "0") == {executor_at(desks, host)}


def test_a_new_agent_goes_on_with_a_move_and_keeps_where_standbys_are_wanted(desks: Desks) -> None:
    host = free_for_standby(desks)
    asked = desks.places("0-0", host)
    desks.is_read()
    new = a_new_agent(desks.story)
    new.requests[asked.uuid] = asked
    new.responses.update(desks.responses)
    new.is_read()
    new.warms_up()
    new.after(CATCH_UP_MS)
    assert new.changes(asked)[-1] == "SUCCEEDED" and hosts_of(new) == {host}
    word = kept_word(new.story)
    assert word is not None and word.pinned == {"0-0": host}
    assert type(word).from_json(word.to_json()) == word


def test_a_processor_that_moves_to_where_its_standby_is_wanted_keeps_the_rule(desks: Desks) -> None:
    host = free_for_standby(desks)
    desks.places("0-0", host)
    desks.is_read()
    desks.warms_up()
    moved = desks.places("0", STANDBY, at_ms=2)
    desks.is_read()
    desks.warms_up()
    desks.runs_a_batch()
    assert desks.changes(moved) == DONE and where(desks, "0") == {executor_at(desks, host)}
    assert hosts_of(desks) and host not in hosts_of(desks)
    desks.check()


def test_a_destination_that_dies_at_the_end_is_a_failure_and_wanted_no_more(desks: Desks) -> None:
    host = free_for_standby(desks)
    asked = desks.places("0-0", host)
    desks.is_read()
    desks.warms_up(behind=1)
    desks.after(CATCH_UP_MS)
    assert desks.changes(asked) == DONE[:2] and hosts_of(desks) == {host}
    desks.story.dies(executor_at(desks, host))
    desks.after(TIMING.rebind_timeout_ms + TIMING.debounce_ms)
    desks.warms_up()
    assert desks.changes(asked) == FAILED and "was lost" in desks.message(asked)
    assert not desks.story.mind.fleet.pinned_standbys


def test_a_new_agent_does_not_restart_copies_that_an_old_one_had_moved(desks: Desks) -> None:
    host = free_for_standby(desks)
    asked = desks.places("0-0", host)
    desks.is_read()
    desks.warms_up()
    desks.story.mind = replace(desks.story.mind, desk=Desk())  # it has answered nothing yet
    new = a_new_agent(desks.story)
    new.requests[asked.uuid] = asked
    new.responses[asked.uuid] = asked.answered(StatusCode.IN_PROGRESS, "on its way", 1)
    new.story.mind = replace(
        new.story.mind, desk=Desk(begun={str(asked.uuid): Begun("renewing copies", "", executor_at(desks, host))})
    )
    new.is_read()
    assert not new.story.mind.fleet.let_go
    new.warms_up()
    new.after(CATCH_UP_MS)
    assert new.changes(asked)[-1] == "SUCCEEDED" and hosts_of(new) == {host}


def test_copies_that_are_spread_may_go_to_any_host(desks: Desks) -> None:
    desks = Desks(running(partitions=12, executors=("1@a", "2@b", "3@c"), factor=2))
    desks.warms_up()
    assert hosts_of(desks) == {"b", "c"}
    asked = desks.places("0-0", ANY_HOST)
    desks.is_read()
    desks.warms_up()
    desks.warms_up()
    assert desks.changes(asked) == DONE and len(hosts_of(desks)) == 1
