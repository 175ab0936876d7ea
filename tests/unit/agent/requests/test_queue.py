"""Stopping and starting standbys: what the core decides, and what it answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import uuid4

import pytest

from mooring.agent.core import next_deadline_ms
from mooring.agent.requests import queue
from mooring.agent.requests.queue import ARRIVAL_MS, Action, Desk, RemoveMessages, taken_in
from mooring.agent.requests.run import View, advanced
from mooring.model import events
from mooring.placement import ContainerPlacementResponseMessage, MalformedRequest, StatusCode
from mooring.placement.lifecycle import Phase
from mooring.records.operator_overrides import SaveWord
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.desks import APP, Desks, Request


@pytest.fixture
def desks() -> Desks:
    return Desks(running(factor=2))


DONE = ["ACCEPTED", "IN_PROGRESS", "SUCCEEDED"]


def test_stop_takes_the_copies_of_that_processors_tasks_and_moves_no_active(desks: Desks) -> None:
    before, version = desks.story.mind.fleet.processor_of_task(), desks.story.mind.fleet.model.version
    stop = desks.asks("STOP")
    desks.is_read()
    assert desks.changes(stop) == DONE
    assert desks.copied() == {"1", "2"}
    assert desks.story.mind.fleet.processor_of_task() == before
    assert desks.story.mind.fleet.model.version > version
    held = {partition for partition, row in desks.story.first_choice("q").items() if row == "1"}
    assert held and not held & desks.story.copies["q"].keys()
    desks.check()


def test_success_of_stop_is_said_when_the_jvm_has_the_plan(desks: Desks) -> None:
    desks.story.silent = {"2"}
    stop = desks.asks("STOP")
    desks.is_read()
    assert desks.changes(stop) == DONE[:2]
    desks.carry_out(lambda: desks.story.take(events.PlanPickedUp(0, "2", desks.story.mind.fleet.model.version)))
    assert desks.changes(stop) == DONE and stop.uuid not in desks.requests


def test_start_brings_them_back_and_says_how_many(desks: Desks) -> None:
    desks.asks("STOP", at_ms=1)
    desks.is_read()
    desks.story.silent = {"2"}
    start = desks.asks("START", at_ms=2)
    desks.is_read()
    assert desks.changes(start) == DONE[:2]
    desks.after(TIMING.barrier_timeout_ms)
    assert desks.changes(start) == DONE and "2 copies are in the plan" in desks.message(start)
    assert desks.copied() == {"0", "1", "2"}
    desks.check()


def test_a_later_regrouping_does_not_bring_them_back(desks: Desks) -> None:
    desks.asks("STOP")
    desks.is_read()
    desks.story.joins("4@d")
    desks.story.after(TIMING.debounce_ms)
    desks.story.sees_copies(*desks.story.mind.fleet.executors)
    desks.story.after(TIMING.rebind_timeout_ms)
    assert desks.story.sizes("q") == [2, 2, 1, 1]
    assert "0" not in desks.copied() and {"1", "2"} <= desks.copied()
    desks.check()


def test_a_pending_regrouping_stays_due(desks: Desks) -> None:
    desks.story.joins("4@d")
    due = desks.story.mind.fleet.regroup_at_ms
    desks.asks("STOP")
    desks.is_read()
    assert due is not None and desks.story.mind.fleet.regroup_at_ms == due


def test_a_processor_that_is_given_up_is_not_stopped_any_more(desks: Desks) -> None:
    desks.asks("STOP")
    desks.is_read()
    desks.story.dies("1")
    desks.story.after(TIMING.rebind_timeout_ms)
    assert desks.story.mind.fleet.stopped_standbys == frozenset()
    desks.check()


def test_what_is_stopped_is_kept_before_success_is_said(desks: Desks) -> None:
    desks.asks("STOP", "2")
    desks.is_read()
    kinds = [type(order).__name__ for order in desks.story.orders]
    kept = next(order for order in desks.story.orders if isinstance(order, SaveWord))
    assert (kept.word.application, kept.word.stopped) == (APP, {"2"})
    assert kinds.index("SaveWord") < max(n for n, kind in enumerate(kinds) if kind == "Answer")


def test_a_copy_without_a_place_is_a_failure_that_says_why() -> None:
    desks = Desks(running(executors=("1@a",), factor=2))
    start = desks.asks("START")
    desks.is_read()
    assert desks.changes(start) == ["ACCEPTED", "IN_PROGRESS", "FAILED"]
    assert "6 of 6 copies have no place" in desks.message(start) and "too few locations" in desks.message(start)


@pytest.mark.parametrize(
    ("factor", "processor", "words"),
    [
        (1, "0", "replication.factor is 1"),
        (2, "01", "there is no processor 01: expected one of 0, 1, 2; nearest: "),
        (2, "0-0", "there is no processor 0-0: expected one of 0, 1, 2; nearest: 0"),
    ],
)
def test_what_can_not_be_done_is_a_bad_request(factor: int, processor: str, words: str) -> None:
    desks = Desks(running(factor=factor))
    request = desks.asks("STOP", processor)
    version = desks.story.mind.fleet.model.version
    desks.is_read()
    assert desks.changes(request) == ["BAD_REQUEST"] and words in desks.message(request)
    assert not desks.requests and desks.story.mind.fleet.model.version == version


def test_standbys_that_no_processor_has_are_refused_behind_another_request_too() -> None:
    desks = Desks(running(factor=1))
    first, stop = desks.places("0", "nowhere", at_ms=1), desks.asks("STOP", at_ms=2)
    desks.is_read()
    assert desks.changes(first) == ["ACCEPTED", "IN_PROGRESS"]
    assert desks.changes(stop) == ["BAD_REQUEST"] and "replication.factor is 1" in desks.message(stop)
    assert not desks.story.mind.fleet.stopped_standbys


def test_a_malformed_message_is_a_bad_request_and_holds_nobody_up(desks: Desks) -> None:
    bad = Request(uuid4(), "", "", "", 0)
    desks.malformed[bad.uuid] = MalformedRequest(bad, "timestamp is missing")
    stop = desks.asks("STOP")
    desks.is_read()
    assert desks.changes(bad) == ["BAD_REQUEST"] and desks.message(bad) == "timestamp is missing"
    assert desks.changes(stop) == DONE and not desks.malformed


def test_what_is_for_another_deployment_is_removed_with_its_response_and_not_done(desks: Desks) -> None:
    old = desks.asks("STOP", deployment="app-0")
    desks.responses[old.uuid] = old.answered(StatusCode.ACCEPTED, "", 1)
    lonely = replace(old, uuid=uuid4())
    desks.responses[lonely.uuid] = lonely.answered(StatusCode.SUCCEEDED, "", 1)
    malformed = replace(old, uuid=uuid4())
    desks.malformed[malformed.uuid] = MalformedRequest(malformed, "timestamp is missing")
    desks.is_read()
    assert not desks.requests and not desks.responses and not desks.malformed and not desks.said
    assert desks.story.mind.fleet.stopped_standbys == frozenset()


def test_a_uuid_acts_once_also_when_it_is_written_again(desks: Desks) -> None:
    stop = desks.asks("STOP", at_ms=1)
    desks.is_read()
    desks.asks("START", at_ms=2)
    desks.is_read()
    desks.requests[stop.uuid] = stop
    desks.responses.clear()
    desks.is_read()
    assert desks.changes(stop) == DONE and stop.uuid not in desks.requests
    assert desks.story.mind.fleet.stopped_standbys == frozenset()


def test_a_new_agent_goes_on_with_what_was_under_way_and_leaves_alone_what_is_final(desks: Desks) -> None:
    stop, done = desks.asks("STOP", "1"), desks.asks("STOP", "2")
    desks.responses[stop.uuid] = stop.answered(StatusCode.IN_PROGRESS, "", 1)
    desks.responses[done.uuid] = done.answered(StatusCode.FAILED, "no", 1)
    desks.is_read()
    assert desks.changes(stop) == DONE[1:] and desks.changes(done) == []
    assert desks.responses[done.uuid].status_code is StatusCode.FAILED and done.uuid not in desks.requests
    assert desks.story.mind.fleet.stopped_standbys == {"1"}
    assert desks.story.mind.desk.history[0].request.uuid == done.uuid, "shown as its own are"


def test_requests_for_one_processor_are_served_in_their_clients_order_and_others_in_parallel(desks: Desks) -> None:
    desks.story.silent = {"1", "2", "3"}
    third = desks.asks("STOP", at_ms=30)
    first, second, other = desks.asks("STOP", at_ms=10), desks.asks("START", at_ms=20), desks.asks("STOP", "1", 40)
    desks.is_read()
    desks.after()  # one is begun at a time
    begun = {request.uuid for request in (first, second, third, other) if "IN_PROGRESS" in desks.changes(request)}
    assert begun == {first.uuid, other.uuid}
    desks.story.silent = set()
    for _ in range(4):
        desks.after(TIMING.barrier_timeout_ms)
    ends = [uuid for uuid, status in desks.said if status == "SUCCEEDED" and uuid != other.uuid]
    assert ends == [first.uuid, second.uuid, third.uuid]
    assert desks.story.mind.fleet.stopped_standbys == {"0", "1"}


def test_an_earlier_request_that_comes_late_waits_for_what_is_under_way(desks: Desks) -> None:
    desks.story.silent = {"2"}
    stop = desks.asks("STOP", at_ms=20)
    desks.is_read()
    late = desks.asks("START", at_ms=10)
    desks.is_read()
    assert desks.changes(stop) == DONE[:2] and desks.changes(late) == ["ACCEPTED"]
    desks.after(TIMING.barrier_timeout_ms)
    desks.after()
    assert desks.changes(stop) == DONE and "IN_PROGRESS" in desks.changes(late)


@pytest.mark.parametrize("ahead_ms", [0, 3_600_000])
def test_one_that_another_client_wrote_a_moment_earlier_comes_first_though_it_is_read_later(
    desks: Desks, ahead_ms: int
) -> None:
    now_ms = desks.story.now_ms
    second = desks.asks("START", at_ms=now_ms + ahead_ms)
    desks.is_read()
    desks.after(ARRIVAL_MS)
    assert desks.changes(second) == ["ACCEPTED"], "it is not known yet what else is there"
    first = desks.asks("STOP", at_ms=now_ms - 1)
    desks.is_read()
    for _ in range(4):
        desks.after(TIMING.barrier_timeout_ms)
    assert [uuid for uuid, status in desks.said if status == "SUCCEEDED"] == [first.uuid, second.uuid]


def test_nothing_is_begun_while_a_query_waits_for_its_first_plan(desks: Desks) -> None:
    desks.story.joins("4@d")
    desks.story.plans("r", 3)
    stop = desks.asks("STOP")
    desks.is_read()
    assert desks.changes(stop) == ["ACCEPTED"]
    desks.after(TIMING.first_plan_wait_ms)
    desks.after()
    assert desks.changes(stop) == DONE
    desks.check()


def test_a_processor_that_goes_while_its_request_waits_is_a_failure(desks: Desks) -> None:
    desks.story.dies("1", "2", "3")
    desks.story.plans("r", 3)  # nobody is there to plan for
    stop = desks.asks("STOP")
    desks.is_read()
    desks.after(TIMING.rebind_timeout_ms)
    assert desks.changes(stop) == [*DONE[:2], "FAILED"] and "gone" in desks.message(stop)


def test_old_responses_are_removed_and_new_ones_stay(desks: Desks) -> None:
    stop = desks.asks("STOP")
    desks.is_read()
    desks.story.now_ms += queue.RESPONSES_KEPT_MS
    desks.is_read()
    assert stop.uuid in desks.responses
    desks.story.now_ms += 1
    desks.is_read()
    assert stop.uuid not in desks.responses


def test_the_last_uuids_are_remembered_first_in_first_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "REMEMBERED_REQUESTS", 3)
    desk, uuids = Desk(), [uuid4() for _ in range(5)]
    for uuid in uuids:
        desk = desk.with_news([], {**desk.seen, uuid: None})
    assert list(desk.seen) == uuids[2:]


def test_one_action_is_begun_at_a_time_and_the_loop_does_not_wait_for_the_next(desks: Desks) -> None:
    asked = [desks.asks("STOP", "1"), desks.asks("STOP", "2"), desks.asks("START", "2", at_ms=2)]
    mind = desks.story.mind
    desk, fleet = Desk(read_ms=ARRIVAL_MS + 2).with_news([Action(request) for request in asked], {}), mind.fleet
    for number in range(2):
        assert next_deadline_ms(replace(mind, desk=desk)) < desks.story.now_ms
        desk, fleet, _ = advanced(desk, fleet, View(desks.story.now_ms))
        assert sum(action.phase is Phase.RENEWING_COPIES for action in desk.actions) == number + 1
    assert next_deadline_ms(replace(mind, desk=desk)) > desks.story.now_ms, "processor 2 is busy"
    assert advanced(desk, fleet, View(desks.story.now_ms)) == (desk, fleet, [])


def test_an_answer_is_never_too_long_to_be_read(desks: Desks) -> None:
    desks.story.joins(*(f"{number}@z{number}" for number in range(4, 64)))
    stop = desks.asks("STOP", "9" * 1000)
    desks.is_read()
    answer = desks.responses[stop.uuid]
    assert ContainerPlacementResponseMessage.from_json(answer.to_json()).response_message == answer.response_message
    assert "and 43 more" in answer.response_message or answer.response_message.endswith("...")


def test_a_response_that_can_not_be_read_is_removed_unless_its_request_is_there(desks: Desks) -> None:
    gone, asked = uuid4(), desks.asks("STOP").uuid
    stored = replace(desks.stored(), unreadable=frozenset({gone, asked}))
    _, orders = taken_in(Desk(), desks.story.mind.fleet, stored, desks.story.now_ms)
    assert [order.uuid for order in orders if isinstance(order, RemoveMessages)] == [gone]


def test_reading_the_same_messages_again_orders_nothing(desks: Desks) -> None:
    desks.asks("STOP")
    desks.is_read()
    desks.is_read()  # the request is gone
    begin = len(desks.story.orders)
    desks.is_read()
    desks.after()
    assert Counter(type(order).__name__ for order in desks.story.orders[begin:]) == {}
