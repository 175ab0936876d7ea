"""Restarts whose executor is gone: what they are about stays as it was when they were begun."""

from __future__ import annotations

import pytest

from mooring.model.orders import LogLine
from mooring.placement import LAST_SEEN
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.moving import (
    DONE,
    FOUR,
    a_new_agent,
    kept_overrides,
    restarts,
    sharing,
    two_on_one_executor,
    warm_on_four,
    where,
)
from tests.unit.agent.queues import Queues

LONG_MS = 3 * TIMING.rebind_timeout_ms


def test_who_shares_copies_waits_until_the_successor_has_come() -> None:
    queues = warm_on_four(2)
    beside = sharing(queues, "0")[0]
    first, second = queues.places("0", LAST_SEEN, at_ms=1), queues.places(beside, LAST_SEEN, at_ms=2)
    queues.is_read()
    queues.story.dies("1")
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    assert not sharing(queues, "0"), "the plan has its tasks and copies elsewhere meanwhile"
    assert queues.changes(second) == DONE[:1] and restarts(queues) == ["1"]
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(first) == DONE and len(restarts(queues)) == 2


def test_another_one_of_the_same_executor_waits_until_the_successor_has_come() -> None:
    queues = two_on_one_executor()
    restart, away = queues.places("0", LAST_SEEN, at_ms=2), queues.places("1", "c", at_ms=3)
    queues.is_read()
    queues.story.dies("1")
    queues.after()
    assert queues.changes(restart) == DONE[:2] and queues.changes(away) == DONE[:1]
    queues.story.joins("7@a")
    queues.after()
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(restart) == queues.changes(away) == DONE
    assert where(queues, "0") == {"7"} and where(queues, "1") == {"3"}


@pytest.mark.parametrize("has_new_agent", [False, True])
def test_all_of_the_executor_are_waited_for_as_long_as_the_request(has_new_agent: bool) -> None:
    queues = two_on_one_executor()
    asked = queues.places("0", LAST_SEEN, at_ms=2, expiry_ms=LONG_MS)
    queues.is_read()
    queues.story.dies("1")
    queues.after()
    if has_new_agent:
        requests, responses = queues.requests, queues.responses
        queues = a_new_agent(queues.story)
        queues.requests, queues.responses = requests, responses
        queues.after(TIMING.rebind_timeout_ms + 1_000)  # the store is read late
        queues.is_read()
    queues.after(TIMING.rebind_timeout_ms + 1_000)
    queues.story.joins("7@a")
    queues.after()
    fleet = queues.story.state.fleet
    assert queues.responses[asked.uuid].status_code.value == "SUCCEEDED"
    assert {fleet.executor_of["0"], fleet.executor_of["1"]} == {"7"}


def test_a_processor_that_has_lost_its_executor_is_restarted_by_waiting_for_another() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    queues.story.dies("1")
    asked = queues.places("0", LAST_SEEN, expiry_ms=LONG_MS)
    queues.is_read()
    queues.after(TIMING.rebind_timeout_ms + 1_000)
    said = [order.message for order in queues.story.orders if isinstance(order, LogLine)]
    assert queues.changes(asked) == DONE[:2] and any("another one is waited for at a" in message for message in said)
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(asked) == DONE and restarts(queues) == []


def test_a_restart_waits_for_no_executor_that_is_lost() -> None:
    queues = two_on_one_executor()
    away = queues.places("1", "c", at_ms=2)
    queues.is_read()
    queues.begins_a_batch()
    queues.story.dies("1")
    queues.after()
    assert queues.changes(away) == DONE[:2], "it is at c now, and its first batch there has not ended"
    restart = queues.places("0", LAST_SEEN, at_ms=3)
    queues.is_read()
    assert queues.changes(restart) == DONE[:2] and queues.changes(away) == DONE[:2]
    queues.story.joins("7@a")
    queues.after()
    assert queues.changes(restart) == DONE


def test_after_the_agent_died_no_executor_is_ended_to_which_a_standby_was_on_its_way() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b", "3@c", "4@d", "5@e", "6@f"), factor=2))
    queues.warms_up()
    apart = next(id for id in "123" if id not in sharing(queues, "0") and not set(sharing(queues, id)) & {"0"})
    end, place = queues.story.state.fleet.executor_of[apart], queues.story.state.fleet.locations[apart]
    copies = queues.places("0-0", place, at_ms=2)
    queues.is_read()
    restart = queues.places(apart, LAST_SEEN, at_ms=1)
    queues.is_read()
    assert queues.changes(copies) == DONE[:2] and queues.changes(restart) == DONE[:1]
    requests, responses = queues.requests, queues.responses
    queues = a_new_agent(queues.story)
    queues.requests, queues.responses = requests, responses
    queues.is_read()
    assert restarts(queues) == []
    queues.warms_up()
    queues.after()
    assert queues.changes(copies)[-1:] == DONE[-1:] and restarts(queues) == [end]


def test_what_a_request_is_about_outlives_the_agent() -> None:
    queues = warm_on_four(2)
    asked = queues.places("0", LAST_SEEN)
    queues.is_read()
    word = kept_overrides(queues.story)
    assert word is not None
    saved = type(word).from_json(word.to_json()).saved_progress[str(asked.uuid)]
    assert (sorted(saved.processors), sorted(saved.sharing - {"0"})) == (["0"], sharing(queues, "0"))


def test_no_standby_goes_to_an_executor_that_is_to_end() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b", "3@c", "4@d", "5@e", "6@f"), factor=2))
    queues.warms_up()
    apart = next(id for id in "123" if id not in sharing(queues, "0") and not set(sharing(queues, id)) & {"0"})
    end = queues.story.state.fleet.executor_of[apart]
    place = queues.story.state.fleet.locations[apart]
    restart, copies = queues.places(apart, LAST_SEEN, at_ms=1), queues.places("0-0", place, at_ms=2)
    queues.is_read()
    assert restarts(queues) == [end] and queues.changes(copies) == DONE[:2]
    queues.story.dies(end)
    queues.after()
    queues.story.joins(f"7@{place}")
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    queues.after()
    assert queues.changes(restart) == DONE and queues.changes(copies) == DONE
