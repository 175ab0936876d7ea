"""Moving and restarting the standby of a processor, as 4-0: what the core decides, and what it answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.agent.planning.copies import copies_of_standby
from mooring.agent.requests.move import CATCH_UP_MS, TROUBLE_MS
from mooring.agent.requests.move_standby import CLOSING_MS
from mooring.agent.requests.phase import RequestTimeouts
from mooring.agent.requests.queue import RequestQueue
from mooring.model import events
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, StatusCode
from mooring.records.operator_overrides import SavedProgress
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.moving import (
    DONE,
    FAILED,
    a_new_agent,
    executor_at,
    kept_overrides,
    tasks_of,
    warm_on_four,
    where,
)
from tests.unit.agent.queues import Queues

REQUEST_TIMEOUTS = RequestTimeouts()
HOSTS = {"a", "b", "c", "d"}


@pytest.fixture
def queues() -> Queues:
    return warm_on_four(2)


def hosts_of(queues: Queues, standby: str = "0-0") -> set[str]:
    """Where the plan has the copies."""
    fleet = queues.story.state.fleet
    return {fleet.processors[id].location for id in copies_of_standby(fleet, standby).values()}


def free_for_standby(queues: Queues, standby: str = "0-0") -> str:
    own = queues.story.state.fleet.processors[standby[0]].location
    return min(HOSTS - {own} - hosts_of(queues, standby))


def told_to_hold(queues: Queues, processor: str = "0") -> set[str]:
    """The executors that the JVM was told to have copies of the processor's tasks."""
    copies = queues.story.copies.get("q", {})
    return {executor for partition in tasks_of(queues, processor) for executor in copies.get(partition, ())}


def test_a_standby_is_made_at_the_destination_before_it_leaves_the_source(queues: Queues) -> None:
    source, host = hosts_of(queues), free_for_standby(queues)
    there = executor_at(queues, host)
    asked = queues.places("0-0", host)
    queues.is_read()
    assert queues.changes(asked) == DONE[:2] and hosts_of(queues) == source
    assert told_to_hold(queues) == {there, *(executor_at(queues, place) for place in source)}
    queues.warms_up(behind=2)
    assert hosts_of(queues) == source
    queues.warms_up()
    assert hosts_of(queues) == {host} and told_to_hold(queues) == {there}
    assert queues.changes(asked) == DONE and host in queues.message(asked)
    assert where(queues, "0") == {"1"}, "its active stays where it is"
    queues.check()


def test_it_stays_there_through_later_plans_and_ends_with_its_processor(queues: Queues) -> None:
    host = free_for_standby(queues)
    queues.places("0-0", host)
    queues.is_read()
    queues.warms_up()
    queues.story.joins("9@e")
    for _ in range(3):
        queues.after(TIMING.debounce_ms)
        queues.warms_up()
        queues.runs_a_batch()
    assert hosts_of(queues) == {host}
    queues.check()
    queues.story.dies("1")
    queues.after(TIMING.rebind_timeout_ms + TIMING.debounce_ms)
    assert "0" not in queues.story.state.fleet.processors and not queues.story.state.fleet.overrides.pinned_standbys


@pytest.mark.parametrize("destination", [LAST_SEEN, "its host"])
def test_a_restart_lets_go_of_the_copies_and_makes_them_again_where_they_were(queues: Queues, destination: str) -> None:
    (host,) = hosts_of(queues)
    asked = queues.places("0-0", host if destination == "its host" else destination)
    queues.is_read()
    assert hosts_of(queues) == {host} and not told_to_hold(queues)
    queues.after(CLOSING_MS)
    assert told_to_hold(queues) == {executor_at(queues, host)} and queues.changes(asked) == DONE[:2]
    queues.warms_up(behind=1)
    assert queues.changes(asked) == DONE[:2], "they have not caught up"
    queues.warms_up()
    assert queues.changes(asked) == DONE and hosts_of(queues) == {host}
    assert not queues.story.state.fleet.overrides.pinned_standbys, "nobody has said where they are to be"


def test_any_host_is_another_one_that_has_the_fewest_copies(queues: Queues) -> None:
    source = hosts_of(queues)
    asked = queues.places("0-0", ANY_HOST)
    queues.is_read()
    queues.warms_up()
    assert queues.changes(asked) == DONE and not hosts_of(queues) & (source | {"a"})


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
def test_what_can_not_be_is_refused_with_the_reason(
    queues: Queues, standby: str, destination: str, reason: str
) -> None:
    before = hosts_of(queues)
    asked = queues.places(standby, destination)
    queues.is_read()
    assert queues.changes(asked) == ["BAD_REQUEST"] and reason in queues.message(asked)
    assert hosts_of(queues) == before


def test_with_two_copies_the_place_of_the_other_one_is_refused_and_a_free_one_is_not() -> None:
    queues = warm_on_four(3)
    other = hosts_of(queues, "0-1")
    refused = queues.places("0-0", min(other))
    queues.is_read()
    assert queues.changes(refused) == ["BAD_REQUEST"] and "another copy of" in queues.message(refused)
    host = min(HOSTS - {"a"} - other - hosts_of(queues, "0-0"))
    asked = queues.places("0-0", host, at_ms=2)
    queues.is_read()
    queues.warms_up()
    assert queues.changes(asked) == DONE and hosts_of(queues, "0-0") == {host}
    assert len(hosts_of(queues, "0-1") - {host, "a"}) == 1
    queues.check()


def test_stopped_standbys_are_not_placed(queues: Queues) -> None:
    queues.asks("STOP")
    queues.is_read()
    asked = queues.places("0-0", "b", at_ms=2)
    queues.is_read()
    assert queues.changes(asked) == ["BAD_REQUEST"] and "control-standby --processor-id 0 start" in queues.message(
        asked
    )


def test_a_host_of_a_zone_that_has_another_copy_is_refused_while_there_is_a_free_one() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b", "3@c", "4@d"), factor=2))
    for id, zone in (("1", "x"), ("2", "x"), ("3", "y"), ("4", "y")):
        host = queues.story.state.fleet.executors[id].location
        queues.story.take(events.ExecutorRegistered(queues.story.now_ms, id, host, 1, zone))
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    refused = queues.places("0-0", "b")
    queues.is_read()
    assert queues.changes(refused) == ["BAD_REQUEST"] and "expected a host of zone y" in queues.message(refused)


def test_no_executor_before_the_expiry_is_a_failure_that_changes_nothing(queues: Queues) -> None:
    before = hosts_of(queues)
    asked = queues.places("0-0", "e", expiry_ms=5_000)
    queues.is_read()
    queues.after(5_000)
    assert queues.changes(asked) == FAILED and "no executor was there for e within 5000 ms" in queues.message(asked)
    assert hosts_of(queues) == before


def test_a_destination_that_dies_or_never_catches_up_is_a_failure_and_the_copies_stay(queues: Queues) -> None:
    before, host = hosts_of(queues), free_for_standby(queues)
    asked = queues.places("0-0", host)
    queues.is_read()
    queues.story.dies(executor_at(queues, host))
    queues.after()
    assert queues.changes(asked) == FAILED and "no copy has moved" in queues.message(asked)
    host = min(HOSTS - {"a", host} - before)
    never = queues.places("0-0", host)
    queues.is_read()
    queues.warms_up(behind=5, trouble=("no space left", TROUBLE_MS))
    queues.after(TROUBLE_MS)
    assert queues.changes(never) == FAILED and "(no space left): no copy has moved" in queues.message(never)
    late = queues.places("0-0", host, at_ms=2)
    queues.is_read()
    for _ in range(2):
        queues.warms_up(behind=5)
        queues.after(REQUEST_TIMEOUTS.warm_up_ms // 2 + 100)
    assert queues.changes(late) == FAILED and "are not warm after" in queues.message(late)
    assert not queues.story.state.fleet.ongoing.moves and not queues.story.state.fleet.overrides.pinned_standbys


def test_when_the_source_of_the_active_dies_the_copies_work_and_the_request_fails(queues: Queues) -> None:
    (holder,) = {executor_at(queues, host) for host in hosts_of(queues)}
    tasks = tasks_of(queues, "0")
    asked = queues.places("0-0", free_for_standby(queues))
    queues.is_read()
    queues.story.dies("1")
    queues.after()
    assert queues.changes(asked) == FAILED and "its tasks run where their copies are" in queues.message(asked)
    assert {queues.story.first_choice("q")[task] for task in tasks} == {holder}


def test_requests_for_a_processor_and_for_its_standby_are_done_one_by_one(queues: Queues) -> None:
    host = free_for_standby(queues)
    first = queues.places("0-0", host, at_ms=1)
    second = queues.places("0", STANDBY, at_ms=2)
    queues.is_read()
    assert queues.changes(first) == DONE[:2] and queues.changes(second) == DONE[:1]
    queues.warms_up()
    assert queues.changes(first) == DONE
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(second) == DONE and where(queues, "0") == {executor_at(queues, host)}


def test_a_new_agent_goes_on_with_a_move_and_keeps_where_standbys_are_wanted(queues: Queues) -> None:
    host = free_for_standby(queues)
    asked = queues.places("0-0", host)
    queues.is_read()
    new = a_new_agent(queues.story)
    new.requests[asked.uuid] = asked
    new.responses.update(queues.responses)
    new.is_read()
    new.warms_up()
    new.after(CATCH_UP_MS)
    assert new.changes(asked)[-1] == "SUCCEEDED" and hosts_of(new) == {host}
    word = kept_overrides(new.story)
    assert word is not None and word.pinned == {"0-0": host}
    assert type(word).from_json(word.to_json()) == word


def test_a_processor_that_moves_to_where_its_standby_is_wanted_keeps_the_rule(queues: Queues) -> None:
    host = free_for_standby(queues)
    queues.places("0-0", host)
    queues.is_read()
    queues.warms_up()
    moved = queues.places("0", STANDBY, at_ms=2)
    queues.is_read()
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(moved) == DONE and where(queues, "0") == {executor_at(queues, host)}
    assert hosts_of(queues) and host not in hosts_of(queues)
    queues.check()


def test_a_destination_that_dies_at_the_end_is_a_failure_and_wanted_no_more(queues: Queues) -> None:
    host = free_for_standby(queues)
    asked = queues.places("0-0", host)
    queues.is_read()
    queues.warms_up(behind=1)
    queues.after(CATCH_UP_MS)
    assert queues.changes(asked) == DONE[:2] and hosts_of(queues) == {host}
    queues.story.dies(executor_at(queues, host))
    queues.after(TIMING.rebind_timeout_ms + TIMING.debounce_ms)
    queues.warms_up()
    assert queues.changes(asked) == FAILED and "was lost" in queues.message(asked)
    assert not queues.story.state.fleet.overrides.pinned_standbys


def test_a_new_agent_does_not_restart_copies_that_an_old_one_had_moved(queues: Queues) -> None:
    host = free_for_standby(queues)
    asked = queues.places("0-0", host)
    queues.is_read()
    queues.warms_up()
    queues.story.state = replace(queues.story.state, queue=RequestQueue())  # it has answered nothing yet
    new = a_new_agent(queues.story)
    new.requests[asked.uuid] = asked
    new.responses[asked.uuid] = asked.answered(StatusCode.IN_PROGRESS, "on its way", 1)
    new.story.state = replace(
        new.story.state,
        queue=RequestQueue(
            saved_progress={str(asked.uuid): SavedProgress("renewing copies", "", executor_at(queues, host))}
        ),
    )
    new.is_read()
    assert not new.story.state.fleet.ongoing.closed_standbys
    new.warms_up()
    new.after(CATCH_UP_MS)
    assert new.changes(asked)[-1] == "SUCCEEDED" and hosts_of(new) == {host}


def test_copies_that_are_spread_may_go_to_any_host(queues: Queues) -> None:
    queues = Queues(running(partitions=12, executors=("1@a", "2@b", "3@c"), factor=2))
    queues.warms_up()
    assert hosts_of(queues) == {"b", "c"}
    asked = queues.places("0-0", ANY_HOST)
    queues.is_read()
    queues.warms_up()
    queues.warms_up()
    assert queues.changes(asked) == DONE and len(hosts_of(queues)) == 1
