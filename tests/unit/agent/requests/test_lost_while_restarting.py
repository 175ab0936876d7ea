"""Restarts whose executor is gone: what they are about stays as it was when they were begun."""

from __future__ import annotations

import pytest

from mooring.model.orders import Say
from mooring.placement import LAST_SEEN
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.desks import Desks
from tests.unit.agent.moving import (
    DONE,
    FOUR,
    a_new_agent,
    kept_word,
    restarts,
    sharing,
    two_on_one_executor,
    warm_on_four,
    where,
)

LONG_MS = 3 * TIMING.rebind_timeout_ms


def test_who_shares_copies_waits_until_the_successor_has_come() -> None:
    desks = warm_on_four(2)
    beside = sharing(desks, "0")[0]
    first, second = desks.places("0", LAST_SEEN, at_ms=1), desks.places(beside, LAST_SEEN, at_ms=2)
    desks.is_read()
    desks.story.dies("1")
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    assert not sharing(desks, "0"), "the plan has its tasks and copies elsewhere meanwhile"
    assert desks.changes(second) == DONE[:1] and restarts(desks) == ["1"]
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(first) == DONE and len(restarts(desks)) == 2


def test_another_one_of_the_same_executor_waits_until_the_successor_has_come() -> None:
    desks = two_on_one_executor()
    restart, away = desks.places("0", LAST_SEEN, at_ms=2), desks.places("1", "c", at_ms=3)
    desks.is_read()
    desks.story.dies("1")
    desks.after()
    assert desks.changes(restart) == DONE[:2] and desks.changes(away) == DONE[:1]
    desks.story.joins("7@a")
    desks.after()
    desks.warms_up()
    desks.runs_a_batch()
    assert desks.changes(restart) == desks.changes(away) == DONE
    assert where(desks, "0") == {"7"} and where(desks, "1") == {"3"}


@pytest.mark.parametrize("has_new_agent", [False, True])
def test_all_of_the_executor_are_waited_for_as_long_as_the_request(has_new_agent: bool) -> None:
    desks = two_on_one_executor()
    asked = desks.places("0", LAST_SEEN, at_ms=2, expiry_ms=LONG_MS)
    desks.is_read()
    desks.story.dies("1")
    desks.after()
    if has_new_agent:
        requests, responses = desks.requests, desks.responses
        desks = a_new_agent(desks.story)
        desks.requests, desks.responses = requests, responses
        desks.after(TIMING.rebind_timeout_ms + 1_000)  # the store is read late
        desks.is_read()
    desks.after(TIMING.rebind_timeout_ms + 1_000)
    desks.story.joins("7@a")
    desks.after()
    fleet = desks.story.mind.fleet
    assert desks.responses[asked.uuid].status_code.value == "SUCCEEDED"
    assert {fleet.executor_of["0"], fleet.executor_of["1"]} == {"7"}


def test_a_processor_that_has_lost_its_executor_is_restarted_by_waiting_for_another() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    desks.story.dies("1")
    asked = desks.places("0", LAST_SEEN, expiry_ms=LONG_MS)
    desks.is_read()
    desks.after(TIMING.rebind_timeout_ms + 1_000)
    said = [order.message for order in desks.story.orders if isinstance(order, Say)]
    assert desks.changes(asked) == DONE[:2] and any("another one is waited for at a" in message for message in said)
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(asked) == DONE and restarts(desks) == []


def test_a_restart_waits_for_no_executor_that_is_lost() -> None:
    desks = two_on_one_executor()
    away = desks.places("1", "c", at_ms=2)
    desks.is_read()
    desks.begins_a_batch()
    desks.story.dies("1")
    desks.after()
    assert desks.changes(away) == DONE[:2], "it is at c now, and its first batch there has not ended"
    restart = desks.places("0", LAST_SEEN, at_ms=3)
    desks.is_read()
    assert desks.changes(restart) == DONE[:2] and desks.changes(away) == DONE[:2]
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(restart) == DONE


def test_after_the_agent_died_no_executor_is_ended_to_which_a_standby_was_on_its_way() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b", "3@c", "4@d", "5@e", "6@f"), factor=2))
    desks.warms_up()
    apart = next(id for id in "123" if id not in sharing(desks, "0") and not set(sharing(desks, id)) & {"0"})
    end, place = desks.story.mind.fleet.executor_of[apart], desks.story.mind.fleet.places[apart]
    copies = desks.places("0-0", place, at_ms=2)
    desks.is_read()
    restart = desks.places(apart, LAST_SEEN, at_ms=1)
    desks.is_read()
    assert desks.changes(copies) == DONE[:2] and desks.changes(restart) == DONE[:1]
    requests, responses = desks.requests, desks.responses
    desks = a_new_agent(desks.story)
    desks.requests, desks.responses = requests, responses
    desks.is_read()
    assert restarts(desks) == []
    desks.warms_up()
    desks.after()
    assert desks.changes(copies)[-1:] == DONE[-1:] and restarts(desks) == [end]


def test_what_a_request_is_about_outlives_the_agent() -> None:
    desks = warm_on_four(2)
    asked = desks.places("0", LAST_SEEN)
    desks.is_read()
    word = kept_word(desks.story)
    assert word is not None
    begun = type(word).from_json(word.to_json()).under_way[str(asked.uuid)]
    assert (sorted(begun.beside), sorted(begun.sharing - {"0"})) == (["0"], sharing(desks, "0"))


def test_no_standby_goes_to_an_executor_that_is_to_end() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b", "3@c", "4@d", "5@e", "6@f"), factor=2))
    desks.warms_up()
    apart = next(id for id in "123" if id not in sharing(desks, "0") and not set(sharing(desks, id)) & {"0"})
    end = desks.story.mind.fleet.executor_of[apart]
    place = desks.story.mind.fleet.places[apart]
    restart, copies = desks.places(apart, LAST_SEEN, at_ms=1), desks.places("0-0", place, at_ms=2)
    desks.is_read()
    assert restarts(desks) == [end] and desks.changes(copies) == DONE[:2]
    desks.story.dies(end)
    desks.after()
    desks.story.joins(f"7@{place}")
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    desks.after()
    assert desks.changes(restart) == DONE and desks.changes(copies) == DONE
