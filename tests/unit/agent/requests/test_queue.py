"""Stopping and starting standbys: what the core decides, and what it answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import uuid4

import pytest

from mooring.agent.core import next_deadline_ms
from mooring.agent.requests import queue as queue_module
from mooring.agent.requests.action import READING_DELAY_MS, Action
from mooring.agent.requests.inbox import RESPONSES_KEPT_MS, accept_requests
from mooring.agent.requests.orders import RemoveMessages
from mooring.agent.requests.phase import View
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.requests.run import advanced
from mooring.model import events
from mooring.placement import ContainerPlacementResponseMessage, MalformedRequest, StatusCode
from mooring.placement.lifecycle import Phase
from mooring.records.operator_overrides import SaveOverrides
from tests.unit.agent.builders import TIMING, running
from tests.unit.agent.queues import APP, Queues, Request


@pytest.fixture
def queues() -> Queues:
    return Queues(running(factor=2))


DONE = ["ACCEPTED", "IN_PROGRESS", "SUCCEEDED"]


def test_stop_takes_the_copies_of_that_processors_tasks_and_moves_no_active(queues: Queues) -> None:
    before, version = queues.story.state.fleet.processor_of_task(), queues.story.state.fleet.model.version
    stop = queues.asks("STOP")
    queues.is_read()
    assert queues.changes(stop) == DONE
    assert queues.copied() == {"1", "2"}
    assert queues.story.state.fleet.processor_of_task() == before
    assert queues.story.state.fleet.model.version > version
    held = {partition for partition, row in queues.story.first_choice("q").items() if row == "1"}
    assert held and not held & queues.story.copies["q"].keys()
    queues.check()


def test_success_of_stop_is_said_when_the_jvm_has_the_plan(queues: Queues) -> None:
    queues.story.silent = {"2"}
    stop = queues.asks("STOP")
    queues.is_read()
    assert queues.changes(stop) == DONE[:2]
    queues.carry_out(lambda: queues.story.take(events.PlanPickedUp(0, "2", queues.story.state.fleet.model.version)))
    assert queues.changes(stop) == DONE and stop.uuid not in queues.requests


def test_start_brings_them_back_and_says_how_many(queues: Queues) -> None:
    queues.asks("STOP", at_ms=1)
    queues.is_read()
    queues.story.silent = {"2"}
    start = queues.asks("START", at_ms=2)
    queues.is_read()
    assert queues.changes(start) == DONE[:2]
    queues.after(TIMING.barrier_timeout_ms)
    assert queues.changes(start) == DONE and "2 copies are in the plan" in queues.message(start)
    assert queues.copied() == {"0", "1", "2"}
    queues.check()


def test_a_later_regrouping_does_not_bring_them_back(queues: Queues) -> None:
    queues.asks("STOP")
    queues.is_read()
    queues.story.joins("4@d")
    queues.story.after(TIMING.debounce_ms)
    queues.story.sees_copies(*queues.story.state.fleet.executors)
    queues.story.after(TIMING.rebind_timeout_ms)
    assert queues.story.sizes("q") == [2, 2, 1, 1]
    assert "0" not in queues.copied() and {"1", "2"} <= queues.copied()
    queues.check()


def test_a_pending_regrouping_stays_due(queues: Queues) -> None:
    queues.story.joins("4@d")
    due = queues.story.state.fleet.timers.regroup_at_ms
    queues.asks("STOP")
    queues.is_read()
    assert due is not None and queues.story.state.fleet.timers.regroup_at_ms == due


def test_a_processor_that_is_given_up_is_not_stopped_any_more(queues: Queues) -> None:
    queues.asks("STOP")
    queues.is_read()
    queues.story.dies("1")
    queues.story.after(TIMING.rebind_timeout_ms)
    assert queues.story.state.fleet.overrides.stopped_standbys == frozenset()
    queues.check()


def test_what_is_stopped_is_kept_before_success_is_said(queues: Queues) -> None:
    queues.asks("STOP", "2")
    queues.is_read()
    kinds = [type(order).__name__ for order in queues.story.orders]
    kept = next(order for order in queues.story.orders if isinstance(order, SaveOverrides))
    assert (kept.overrides.application, kept.overrides.stopped) == (APP, {"2"})
    assert kinds.index("SaveOverrides") < max(n for n, kind in enumerate(kinds) if kind == "Answer")


def test_a_copy_without_a_place_is_a_failure_that_says_why() -> None:
    queues = Queues(running(executors=("1@a",), factor=2))
    start = queues.asks("START")
    queues.is_read()
    assert queues.changes(start) == ["ACCEPTED", "IN_PROGRESS", "FAILED"]
    assert "6 of 6 copies have no place" in queues.message(start) and "too few locations" in queues.message(start)


@pytest.mark.parametrize(
    ("factor", "processor", "words"),
    [
        (1, "0", "replication.factor is 1"),
        (2, "01", "there is no processor 01: expected one of 0, 1, 2; nearest: "),
        (2, "0-0", "there is no processor 0-0: expected one of 0, 1, 2; nearest: 0"),
    ],
)
def test_what_can_not_be_done_is_a_bad_request(factor: int, processor: str, words: str) -> None:
    queues = Queues(running(factor=factor))
    request = queues.asks("STOP", processor)
    version = queues.story.state.fleet.model.version
    queues.is_read()
    assert queues.changes(request) == ["BAD_REQUEST"] and words in queues.message(request)
    assert not queues.requests and queues.story.state.fleet.model.version == version


def test_standbys_that_no_processor_has_are_refused_behind_another_request_too() -> None:
    queues = Queues(running(factor=1))
    first, stop = queues.places("0", "nowhere", at_ms=1), queues.asks("STOP", at_ms=2)
    queues.is_read()
    assert queues.changes(first) == ["ACCEPTED", "IN_PROGRESS"]
    assert queues.changes(stop) == ["BAD_REQUEST"] and "replication.factor is 1" in queues.message(stop)
    assert not queues.story.state.fleet.overrides.stopped_standbys


def test_a_standby_in_place_of_a_processor_is_refused_behind_another_request_too(queues: Queues) -> None:
    first, stop = queues.places("0", "nowhere", at_ms=1), queues.asks("STOP", "0-0", at_ms=2)
    queues.is_read()
    assert queues.changes(first) == ["ACCEPTED", "IN_PROGRESS"]
    assert queues.changes(stop) == ["BAD_REQUEST"] and "there is no processor 0-0" in queues.message(stop)


def test_a_malformed_message_is_a_bad_request_and_holds_nobody_up(queues: Queues) -> None:
    bad = Request(uuid4(), "", "", "", 0)
    queues.malformed[bad.uuid] = MalformedRequest(bad, "timestamp is missing")
    stop = queues.asks("STOP")
    queues.is_read()
    assert queues.changes(bad) == ["BAD_REQUEST"] and queues.message(bad) == "timestamp is missing"
    assert queues.changes(stop) == DONE and not queues.malformed


def test_what_is_for_another_deployment_is_removed_with_its_response_and_not_done(queues: Queues) -> None:
    old = queues.asks("STOP", deployment="app-0")
    queues.responses[old.uuid] = old.answered(StatusCode.ACCEPTED, "", 1)
    lonely = replace(old, uuid=uuid4())
    queues.responses[lonely.uuid] = lonely.answered(StatusCode.SUCCEEDED, "", 1)
    malformed = replace(old, uuid=uuid4())
    queues.malformed[malformed.uuid] = MalformedRequest(malformed, "timestamp is missing")
    queues.is_read()
    assert not queues.requests and not queues.responses and not queues.malformed and not queues.said
    assert queues.story.state.fleet.overrides.stopped_standbys == frozenset()


def test_a_uuid_acts_once_also_when_it_is_written_again(queues: Queues) -> None:
    stop = queues.asks("STOP", at_ms=1)
    queues.is_read()
    queues.asks("START", at_ms=2)
    queues.is_read()
    queues.requests[stop.uuid] = stop
    queues.responses.clear()
    queues.is_read()
    assert queues.changes(stop) == DONE and stop.uuid not in queues.requests
    assert queues.story.state.fleet.overrides.stopped_standbys == frozenset()


def test_a_new_agent_goes_on_with_what_was_under_way_and_leaves_alone_what_is_final(queues: Queues) -> None:
    stop, done = queues.asks("STOP", "1"), queues.asks("STOP", "2")
    queues.responses[stop.uuid] = stop.answered(StatusCode.IN_PROGRESS, "", 1)
    queues.responses[done.uuid] = done.answered(StatusCode.FAILED, "no", 1)
    queues.is_read()
    assert queues.changes(stop) == DONE[1:] and queues.changes(done) == []
    assert queues.responses[done.uuid].status_code is StatusCode.FAILED and done.uuid not in queues.requests
    assert queues.story.state.fleet.overrides.stopped_standbys == {"1"}
    assert queues.story.state.queue.history[0].request.uuid == done.uuid, "shown as its own are"


def test_requests_for_one_processor_are_served_in_their_clients_order_and_others_in_parallel(queues: Queues) -> None:
    queues.story.silent = {"1", "2", "3"}
    third = queues.asks("STOP", at_ms=30)
    first, second, other = queues.asks("STOP", at_ms=10), queues.asks("START", at_ms=20), queues.asks("STOP", "1", 40)
    queues.is_read()
    queues.after()  # one is begun at a time
    begun = {request.uuid for request in (first, second, third, other) if "IN_PROGRESS" in queues.changes(request)}
    assert begun == {first.uuid, other.uuid}
    queues.story.silent = set()
    for _ in range(4):
        queues.after(TIMING.barrier_timeout_ms)
    ends = [uuid for uuid, status in queues.said if status == "SUCCEEDED" and uuid != other.uuid]
    assert ends == [first.uuid, second.uuid, third.uuid]
    assert queues.story.state.fleet.overrides.stopped_standbys == {"0", "1"}


def test_an_earlier_request_that_comes_late_waits_for_what_is_under_way(queues: Queues) -> None:
    queues.story.silent = {"2"}
    stop = queues.asks("STOP", at_ms=20)
    queues.is_read()
    late = queues.asks("START", at_ms=10)
    queues.is_read()
    assert queues.changes(stop) == DONE[:2] and queues.changes(late) == ["ACCEPTED"]
    queues.after(TIMING.barrier_timeout_ms)
    queues.after()
    assert queues.changes(stop) == DONE and "IN_PROGRESS" in queues.changes(late)


@pytest.mark.parametrize("ahead_ms", [0, 3_600_000])
def test_one_that_another_client_wrote_a_moment_earlier_comes_first_though_it_is_read_later(
    queues: Queues, ahead_ms: int
) -> None:
    now_ms = queues.story.now_ms
    second = queues.asks("START", at_ms=now_ms + ahead_ms)
    queues.is_read()
    queues.after(READING_DELAY_MS)
    assert queues.changes(second) == ["ACCEPTED"], "it is not known yet what else is there"
    first = queues.asks("STOP", at_ms=now_ms - 1)
    queues.is_read()
    for _ in range(4):
        queues.after(TIMING.barrier_timeout_ms)
    assert [uuid for uuid, status in queues.said if status == "SUCCEEDED"] == [first.uuid, second.uuid]


def test_nothing_is_begun_while_a_query_waits_for_its_first_plan(queues: Queues) -> None:
    queues.story.joins("4@d")
    queues.story.plans("r", 3)
    stop = queues.asks("STOP")
    queues.is_read()
    assert queues.changes(stop) == ["ACCEPTED"]
    queues.after(TIMING.first_plan_wait_ms)
    queues.after()
    assert queues.changes(stop) == DONE
    queues.check()


def test_a_processor_that_goes_while_its_request_waits_is_a_failure(queues: Queues) -> None:
    queues.story.dies("1", "2", "3")
    queues.story.plans("r", 3)  # nobody is there to plan for
    stop = queues.asks("STOP")
    queues.is_read()
    queues.after(TIMING.rebind_timeout_ms)
    assert queues.changes(stop) == [*DONE[:2], "FAILED"] and "gone" in queues.message(stop)


def test_old_responses_are_removed_and_new_ones_stay(queues: Queues) -> None:
    stop = queues.asks("STOP")
    queues.is_read()
    queues.story.now_ms += RESPONSES_KEPT_MS
    queues.is_read()
    assert stop.uuid in queues.responses
    queues.story.now_ms += 1
    queues.is_read()
    assert stop.uuid not in queues.responses


def test_the_last_uuids_are_remembered_first_in_first_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "REMEMBERED_REQUESTS", 3)
    queue, uuids = RequestQueue(), [uuid4() for _ in range(5)]
    for uuid in uuids:
        queue = queue.with_accepted([], {**queue.seen, uuid: None})
    assert list(queue.seen) == uuids[2:]


def test_one_action_is_begun_at_a_time_and_the_loop_does_not_wait_for_the_next(queues: Queues) -> None:
    asked = [queues.asks("STOP", "1"), queues.asks("STOP", "2"), queues.asks("START", "2", at_ms=2)]
    state = queues.story.state
    queue, fleet = (
        RequestQueue(read_ms=READING_DELAY_MS + 2).with_accepted([Action.accepted(request) for request in asked], {}),
        state.fleet,
    )
    for number in range(2):
        assert next_deadline_ms(replace(state, queue=queue)) < queues.story.now_ms
        queue, fleet, _ = advanced(queue, fleet, View(queues.story.now_ms))
        assert sum(action.phase is Phase.RENEWING_COPIES for action in queue.actions) == number + 1
    assert next_deadline_ms(replace(state, queue=queue)) > queues.story.now_ms, "processor 2 is busy"
    assert advanced(queue, fleet, View(queues.story.now_ms)) == (queue, fleet, [])


def test_an_answer_is_never_too_long_to_be_read(queues: Queues) -> None:
    queues.story.joins(*(f"{number}@z{number}" for number in range(4, 64)))
    stop = queues.asks("STOP", "9" * 1000)
    queues.is_read()
    answer = queues.responses[stop.uuid]
    assert ContainerPlacementResponseMessage.from_json(answer.to_json()).response_message == answer.response_message
    assert "and 43 more" in answer.response_message or answer.response_message.endswith("...")


def test_a_response_that_can_not_be_read_is_removed_unless_its_request_is_there(queues: Queues) -> None:
    gone, asked = uuid4(), queues.asks("STOP").uuid
    stored = replace(queues.stored(), unreadable=frozenset({gone, asked}))
    _, orders = accept_requests(RequestQueue(), queues.story.state.fleet, stored, queues.story.now_ms)
    assert [order.uuid for order in orders if isinstance(order, RemoveMessages)] == [gone]


def test_reading_the_same_messages_again_orders_nothing(queues: Queues) -> None:
    queues.asks("STOP")
    queues.is_read()
    queues.is_read()  # the request is gone
    begin = len(queues.story.orders)
    queues.is_read()
    queues.after()
    assert Counter(type(order).__name__ for order in queues.story.orders[begin:]) == {}
