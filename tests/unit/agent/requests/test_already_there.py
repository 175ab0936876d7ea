"""Requests that name the host where the processor is by the time their turn comes."""

from __future__ import annotations

import pytest

from mooring.agent.planning.copies import MOST_LAG_VERSIONS
from mooring.agent.requests.move import CATCH_UP_MS
from mooring.model import events
from mooring.placement import ANY_HOST
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.moving import (
    DONE,
    FAILED,
    FOUR,
    a_new_agent,
    executor_at,
    has_moved,
    kept_overrides,
    restarts,
    where,
)
from tests.unit.agent.queues import Queues, Request


def goes_through(queues: Queues) -> None:
    """The move that is under way warms up, and a batch runs at its destination."""
    queues.warms_up()
    queues.runs_a_batch()
    queues.after()


def two_to_b() -> tuple[Queues, Request, Request]:
    queues = Queues(running(partitions=4, executors=FOUR))
    first, second = queues.places("0", "b", at_ms=1), queues.places("0", "b", at_ms=2)
    queues.is_read()
    assert queues.changes(second) == DONE[:1], "it waits for the first"
    return queues, first, second


def test_a_move_that_is_asked_for_twice_ends_no_executor() -> None:
    queues, first, second = two_to_b()
    goes_through(queues)
    assert queues.changes(first) == queues.changes(second) == DONE and not restarts(queues)
    assert f"is at b already, by request {first.uuid}" in queues.message(second)
    assert where(queues, "0") == {"2"}


def test_a_repeated_request_that_the_agent_sees_while_the_move_switches_ends_no_executor() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    queues.places("0", "b", at_ms=1)
    queues.is_read()
    queues.warms_up()
    assert where(queues, "0") == {"2"}, "the processor is there, and no batch has run there yet"
    again = queues.places("0", "b", at_ms=2)
    queues.is_read()
    queues.runs_a_batch()
    queues.after()
    assert queues.changes(again) == DONE and not restarts(queues)


@pytest.mark.parametrize("later_ms, is_restart", [(-1, False), (1, True)])
def test_a_request_that_is_read_after_the_move_counts_from_when_it_was_made(later_ms: int, is_restart: bool) -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    first = queues.places("0", "b", at_ms=1)
    queues.is_read()
    goes_through(queues)
    again = queues.places("0", "b", at_ms=queues.responses[first.uuid].timestamp + later_ms)
    queues.after(2_000)
    queues.is_read()
    assert restarts(queues) == (["2"] if is_restart else [])
    assert queues.changes(again) == (DONE[:2] if is_restart else DONE)


def test_a_restart_is_done_where_the_clock_of_the_client_is_behind() -> None:
    """The request was not in the reading after the success. So it was made after the success."""
    queues = Queues(running(partitions=4, executors=FOUR))
    queues.after(600_000)
    first = queues.places("0", "b", at_ms=queues.story.now_ms)
    queues.after(1_000)
    queues.is_read()
    goes_through(queues)
    queues.after(1_000)
    queues.is_read()
    again = queues.places("0", "b", at_ms=queues.responses[first.uuid].timestamp - 300_000)
    queues.after(1_000)
    queues.is_read()
    assert queues.changes(first) == DONE
    assert queues.changes(again) == DONE[:2] and restarts(queues) == ["2"]


def test_a_request_made_while_the_processor_was_elsewhere_ends_no_executor() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b")))
    queues.places("0", ANY_HOST, at_ms=1)
    asked = queues.places("0", "b", at_ms=2)
    queues.is_read()
    goes_through(queues)
    assert queues.changes(asked) == DONE and not restarts(queues)
    assert "processor 0 is at b already, since this request was made" in queues.message(asked)


def test_when_the_first_of_two_moves_fails_the_second_moves() -> None:
    queues, first, second = two_to_b()
    queues.story.dies("2")
    queues.story.joins("9@b")
    queues.after()
    assert queues.changes(first) == FAILED and queues.changes(second) == DONE[:2]
    goes_through(queues)
    assert queues.changes(second) == DONE and where(queues, "0") == {"9"} and not restarts(queues)


def test_a_restart_that_is_asked_for_twice_ends_one_executor() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    first, second = queues.places("0", "a", at_ms=1), queues.places("0", "a", at_ms=2)
    queues.is_read()
    queues.story.dies("1")
    queues.story.joins("7@a")
    queues.after(TIMING.debounce_ms)
    assert queues.changes(first) == queues.changes(second) == DONE and restarts(queues) == ["1"]


def test_a_restart_asked_for_twice_ends_one_executor_where_a_move_makes_a_job_model_between_the_two() -> None:
    """The first request ends and the move switches in the same step, before the second request is looked at."""
    queues = Queues(running(partitions=4, executors=FOUR))
    first, move = queues.places("0", "a", at_ms=1), queues.places("2", "d", at_ms=2)
    second = queues.places("0", "a", at_ms=3)
    queues.is_read()
    queues.carry_out(lambda: queues.story.sees_copies("4", behind=MOST_LAG_VERSIONS))
    queues.story.dies("1")
    assert queues.changes(first) == queues.changes(move) == DONE[:2] and restarts(queues) == ["1"]
    queues.story.now_ms += CATCH_UP_MS
    queues.story.joins("7@a")
    assert queues.changes(first) == queues.changes(second) == DONE and restarts(queues) == ["1"]
    assert where(queues, "2") == {"4"}, "the move has switched"


def test_when_a_restart_could_not_be_done_the_same_request_tries_again() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    first, second = queues.places("0", "a", at_ms=1), queues.places("0", "a", at_ms=2)
    queues.is_read()
    queues.story.take(events.RestartGivenUp(queues.story.now_ms, str(first.uuid), "1"))
    queues.after()
    assert queues.changes(first) == FAILED
    assert queues.changes(second) == DONE[:2] and restarts(queues) == ["1", "1"]


def test_a_new_agent_ends_no_executor_for_a_request_that_waited_for_the_same_move() -> None:
    old, first, second = two_to_b()
    old.warms_up()
    new = a_new_agent(old.story)
    new.requests, new.responses = dict(old.requests), dict(old.responses)
    new.is_read()
    new.runs_a_batch()
    new.after()
    assert new.changes(first) == new.changes(second) == DONE[1:] and not restarts(new)


def test_a_new_agent_knows_from_the_stored_answer_that_the_move_was_done() -> None:
    """The agent before it died between the answer to the first request and the turn of the second."""
    old = has_moved()
    second = old.places("0", "b", at_ms=2)
    new = a_new_agent(old.story)
    new.requests, new.responses = {second.uuid: second}, dict(old.responses)
    new.is_read()
    new.after()
    assert new.changes(second) == DONE and not restarts(new)


def test_a_new_agent_writes_the_answer_to_a_move_and_knows_that_the_next_request_repeats_it() -> None:
    """The agent before it died when it had recorded the answer to the first, and had not read the second."""
    old = Queues(running(partitions=4, executors=FOUR))
    first = old.places("0", "b", at_ms=1)
    old.is_read()
    old.warms_up()
    requests, responses = dict(old.requests), dict(old.responses)
    old.runs_a_batch()
    assert old.changes(first) == DONE
    new = a_new_agent(old.story)
    new.requests, new.responses = requests, responses
    second = new.places("0", "b", at_ms=2)
    new.is_read()
    new.after()
    assert new.changes(first) == DONE[2:]
    assert new.changes(second) == DONE and not restarts(new)
    assert f"is at b already, by request {first.uuid}" in new.message(second)


def test_a_new_agent_ends_a_request_that_looked_for_an_executor_where_the_processor_has_come() -> None:
    """Each executor of the host that is not the processor's own would do: there is none."""
    old = Queues(running(partitions=4, executors=FOUR))
    asked = old.places("0", "e", at_ms=1)
    old.is_read()
    overrides, responses = kept_overrides(old.story), dict(old.responses)
    old.story.dies("1")
    old.story.joins("9@e")
    old.after(TIMING.rebind_timeout_ms)
    assert where(old, "0") == {"9"}
    new = a_new_agent(old.story, overrides)
    new.requests, new.responses = {asked.uuid: asked}, responses
    new.is_read()
    assert new.changes(asked) == DONE[1:] and not restarts(new)
    assert "processor 0 is at e already" in new.message(asked)


def test_a_standby_that_came_to_the_host_by_itself_is_kept_there() -> None:
    """A standby that is at the host by chance may go elsewhere with the next job model."""
    queues = Queues(running(partitions=3, executors=("1@a", "2@b", "3@c"), factor=2))
    queues.warms_up()
    (holder,) = copies_of(queues)
    host = "c" if holder == "2" else "b"
    asked = queues.places("0-0", host, at_ms=queues.story.now_ms)
    queues.is_read()
    queues.story.dies(holder)
    queues.after(TIMING.rebind_timeout_ms)
    assert copies_of(queues) == {executor_at(queues, host)} and queues.changes(asked) == DONE[:1]
    queues.after(1_000)
    queues.is_read()
    for _ in range(3):
        queues.warms_up()
    assert queues.changes(asked) == DONE
    assert queues.story.state.fleet.overrides.pinned_standbys == {"0-0": host}
    assert not queues.story.state.fleet.ongoing.closed_standbys


def test_a_standby_that_is_placed_twice_keeps_its_copies() -> None:
    queues = Queues(running(partitions=4, executors=FOUR, factor=2))
    queues.warms_up()
    host = next(host for host in "bcd" if executor_at(queues, host) not in copies_of(queues))
    first, second = queues.places("0-0", host, at_ms=1), queues.places("0-0", host, at_ms=2)
    queues.is_read()
    for _ in range(3):
        queues.warms_up()
    assert queues.changes(first) == queues.changes(second) == DONE
    assert f"standby 0-0 is at {host} already, by request {first.uuid}" in queues.message(second)
    assert not queues.story.state.fleet.ongoing.closed_standbys


def copies_of(queues: Queues) -> set[str]:
    """The executors that have a copy of a task of processor 0."""
    fleet = queues.story.state.fleet
    actives = fleet.model.containers["0"].actives
    return {
        str(fleet.executor_of.get(id))
        for id, container in fleet.model.containers.items()
        if any(task.standby_of in actives for task in container.tasks.values())
    }
