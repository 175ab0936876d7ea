"""Destinations of a move: without an executor, lost before or after the switch, and those that can not be."""

from __future__ import annotations

import pytest

from mooring.agent.requests.move import TROUBLE_MS
from mooring.agent.requests.phase import RequestTimeouts
from mooring.model import events
from mooring.placement import ANY_HOST, STANDBY
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.moving import (
    DONE,
    FAILED,
    FOUR,
    executor_at,
    free_host,
    tasks_of,
    where,
)
from tests.unit.agent.queues import Queues

REQUEST_TIMEOUTS = RequestTimeouts()


def test_an_executor_that_gets_no_tasks_is_no_destination(queues: Queues) -> None:
    host = free_host(queues)
    there = executor_at(queues, host)
    queues.story.take(events.TasksWithheld(queues.story.now_ms, {there: "Spark has excluded it after failures"}))
    asked = queues.places("0", host)
    queues.is_read()
    assert where(queues, "0") == {"1"} and there not in queues.story.state.fleet.ongoing.moves
    queues.after(REQUEST_TIMEOUTS.reserve_ms)
    assert queues.changes(asked) == FAILED
    assert f"executor {there} on {host} gets no tasks: Spark has excluded it" in queues.message(asked)


def test_a_destination_without_an_executor_is_waited_for_until_the_expiry(queues: Queues) -> None:
    before = queues.story.rows
    asked = queues.places("0", "e", expiry_ms=5_000)
    queues.is_read()
    queues.after(4_000)
    assert queues.changes(asked) == DONE[:2]
    queues.after(1_000)
    assert queues.changes(asked) == FAILED and "no executor was there for e within 5000 ms" in queues.message(asked)
    assert queues.story.rows == before


def test_an_executor_that_comes_in_time_is_taken(queues: Queues) -> None:
    asked = queues.places("0", "e", expiry_ms=5_000)
    queues.is_read()
    queues.story.joins("9@e")
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE and where(queues, "0") == {"9"}


def test_a_destination_that_dies_while_it_warms_up_leaves_the_source_untouched(queues: Queues) -> None:
    host = free_host(queues)
    asked = queues.places("0", host)
    queues.is_read()
    queues.story.dies(executor_at(queues, host))
    queues.after()
    assert queues.changes(asked) == FAILED and "was not touched" in queues.message(asked)
    assert where(queues, "0") == {"1"} and not queues.story.state.fleet.ongoing.moves


def test_a_destination_that_dies_after_the_switch_sends_the_tasks_back_to_the_source() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    asked = queues.places("0", "b")
    queues.is_read()
    queues.warms_up()
    assert where(queues, "0") == {"2"}
    queues.story.dies("2")
    queues.after()
    assert queues.changes(asked) == FAILED and "it is back on executor 1" in queues.message(asked)
    assert where(queues, "0") == {"1"} and queues.story.state.fleet.processors["0"].location == "a"


def test_when_the_source_is_lost_as_well_the_tasks_run_on_any_host() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    asked = queues.places("0", "b")
    queues.is_read()
    queues.warms_up()
    queues.story.dies("1", "2")
    queues.after()
    assert queues.changes(asked) == FAILED and "any host" in queues.message(asked)
    assert where(queues, "0") <= {"3", "4"}


def test_a_destination_that_can_not_make_copies_is_given_up_with_its_reason(queues: Queues) -> None:
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    queues.warms_up(behind=1, trouble=("disk on fire", 0))
    queues.after(2 * TROUBLE_MS)
    assert queues.changes(asked) == DONE[:2], "the next attempt may take long, and one behind in trouble is not warm"
    queues.warms_up(behind=5, trouble=("disk on fire", TROUBLE_MS - 1))
    assert queues.changes(asked) == DONE[:2], "it may pass"
    queues.warms_up(behind=6, trouble=("disk still on fire", TROUBLE_MS))
    assert queues.changes(asked) == FAILED and where(queues, "0") == {"1"}
    assert "(disk still on fire): the source was not touched" in queues.message(asked)


def test_any_host_is_the_one_with_the_least_to_do_and_without_copies(queues: Queues) -> None:
    queues.story.joins("9@e")
    queues.after(TIMING.debounce_ms)
    asked = queues.places("0", ANY_HOST)
    queues.is_read()
    queues.warms_up()
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE and where(queues, "0") == {"9"}


def test_two_moves_at_once_go_to_two_executors() -> None:
    queues = Queues(running(partitions=8, executors=FOUR))
    first, second = queues.places("0", ANY_HOST), queues.places("1", ANY_HOST)
    queues.is_read()
    moves = queues.story.state.fleet.ongoing.moves
    assert len({move.destination for move in moves.values()}) == 2
    queues.warms_up()
    queues.after()
    queues.runs_a_batch()
    assert queues.changes(first) == queues.changes(second) == DONE


def test_standby_takes_over_where_the_copies_are_and_the_old_place_holds_them() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    queues.warms_up()
    asked = queues.places("0", STANDBY)
    queues.is_read()
    queues.after()
    assert where(queues, "0") == {"2"}, "the copies are warm: it switches at once"
    assert all(queues.story.copies["q"][partition] == ("1",) for partition in tasks_of(queues, "0"))
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE
    queues.check()


@pytest.mark.parametrize(
    ("factor", "destination", "words"),
    [
        (1, STANDBY, "has no standby: spark.mooring.standby.replication.factor is 1"),
        (2, "standby", "expected a host, ANY_HOST, STANDBY or LAST_SEEN; nearest: STANDBY"),
        (1, "any_host", "nearest: ANY_HOST"),
        (1, "..", "nearest: "),
        (1, "no host", "expected a host, ANY_HOST or LAST_SEEN; nearest: "),
        (1, "Standby", "has no standby: spark.mooring.standby.replication.factor is 1"),
        (
            2,
            "b",
            "no two copies of a task at one location; give --destination-host STANDBY to move it to a host with copies",
        ),
    ],
)
def test_a_destination_that_can_not_be_is_a_bad_request(factor: int, destination: str, words: str) -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b"), factor=factor))
    before = queues.story.state.fleet
    asked = queues.places("0", destination)
    queues.is_read()
    assert queues.changes(asked) == ["BAD_REQUEST"] and words in queues.message(asked)
    assert queues.story.state.fleet == before


def test_what_no_earlier_request_can_mend_is_a_bad_request_at_once_and_what_one_can_is_judged_in_its_turn() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    first = queues.places("0", "c", at_ms=1)  # waits for an executor
    never = queues.places("0", "any_host", at_ms=2)
    later = queues.places("0", "b", at_ms=3)  # where a copy is, as long as it is not stopped
    queues.is_read()
    assert queues.changes(first) == ["ACCEPTED", "IN_PROGRESS"]
    assert queues.changes(never) == ["BAD_REQUEST"] and queues.changes(later) == ["ACCEPTED"]
