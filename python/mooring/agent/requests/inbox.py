"""Accepts or refuses each request that clients have written into the store, once. Pure.

`mooring.agent.requests.run` carries the accepted requests out. Each change of a request's status is an order to write
the response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from mooring.agent.requests.action import Action
from mooring.agent.requests.already_there import last_successes, noted_at_acceptance
from mooring.agent.requests.orders import Answer, RemoveMessages
from mooring.agent.requests.queue import SHOWN_ANSWERS, RequestQueue, Responses, order_key
from mooring.agent.requests.restart import is_to_restart
from mooring.agent.requests.validation import lasting_refusal, refusal, refused_restart
from mooring.agent.state.fleet import Fleet
from mooring.model import events
from mooring.model.orders import ForgetRestart, LogLine, Order
from mooring.placement import (
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    HostAction,
    StatusCode,
    StoredMessages,
)
from mooring.placement.lifecycle import Happening
from mooring.records.operator_overrides import FinalAnswer

RESPONSES_KEPT_MS: Final = 3_600_000
"""How long a final response stays in the store. Older ones are removed after changes, and every ten minutes."""


@dataclass(frozen=True, slots=True)
class RequestsRead(events.Event):
    """The store was read; the reading began at `as_of_ms`.

    `messages` are all messages in the store, None where they are the same as at the reading before.
    """

    messages: StoredMessages | None
    as_of_ms: int


def handle(queue: RequestQueue, fleet: Fleet, event: events.Event) -> tuple[RequestQueue, list[Order]]:
    """The queue after an event, and the orders that answer new requests. Most events do not concern the queue."""
    match event:
        case RequestsRead():
            orders: list[Order] = []
            if event.messages is not None:
                queue, orders = accept_requests(queue, fleet, event.messages, event.at_ms)
            return replace(queue, read_ms=event.as_of_ms), orders
        case events.RestartGivenUp():
            return queue.with_restart_given_up(event.request), []
        case _:
            return queue, []


def accept_requests(
    queue: RequestQueue, fleet: Fleet, messages: StoredMessages, now_ms: int
) -> tuple[RequestQueue, list[Order]]:
    """Accept or refuse each new request in the store once, and remove the messages that are done with.

    `queue.read_ms` is of the reading before this one.
    """
    stored = {str(uuid) for uuid in (*messages.requests, *messages.malformed)}
    # A request that is out of the store was answered there. Until then the JVM keeps its restart for a later agent.
    to_forget = queue.ended_restarts - stored
    queue = replace(
        queue,
        ended_restarts=queue.ended_restarts & stored,
        answered_requests={uuid: answer for uuid, answer in queue.answered_requests.items() if uuid in stored},
        saved_progress={uuid: saved for uuid, saved in queue.saved_progress.items() if uuid in stored},
        history=queue.history or _final_answers(fleet, messages, now_ms),
    )
    reading = _Reading(queue, fleet, messages, now_ms)
    for request in sorted(messages.requests.values(), key=order_key):
        reading.take_in(request, refusal(fleet, request))
    for malformed in messages.malformed.values():
        reading.take_in(malformed.request, malformed.reason)
    queue = reading.queue.with_accepted(reading.accepted, reading.seen)
    forget = [ForgetRestart(uuid) for uuid in sorted(to_forget)]
    return queue, [*reading.orders, *forget, *_remove_old_responses(fleet, messages, now_ms)]


class _Reading:
    """One reading of the store: the queue, the orders and the accepted actions after each request that is taken in."""

    def __init__(self, queue: RequestQueue, fleet: Fleet, messages: StoredMessages, now_ms: int) -> None:
        self.queue, self._fleet, self._messages, self._now_ms = queue, fleet, messages, now_ms
        self.orders: list[Order] = []
        self.accepted: list[Action] = []
        self.seen = dict(queue.seen)
        self._in_queue = {action.request.uuid for action in queue.actions}
        self._successes = last_successes((*queue.history, *messages.responses.values()))

    def take_in(self, request: ContainerPlacementRequestMessage, refused: str | None) -> None:
        """Accept, refuse or remove one request; `refused` says why it can not be done, None when it can."""
        response = self._messages.responses.get(request.uuid)
        final_answer = self.queue.answered_requests.get(str(request.uuid))
        if request.deployment_id not in ("", self._fleet.application.id):
            self.orders.append(RemoveMessages(request.uuid, response_too=True))
            self.orders.append(
                LogLine(f"request {request.uuid} is removed: it is for deployment {request.deployment_id}")
            )
        elif request.uuid in self._in_queue:
            pass
        elif request.uuid in self.seen or (response is not None and response.status_code.is_final):
            self.orders.append(RemoveMessages(request.uuid))
            self.seen.setdefault(request.uuid)
        elif final_answer is not None:
            self._answer_as_before(request, response, final_answer)
        else:
            self._accept_or_refuse(request, response, refused)

    def _answer_as_before(
        self,
        request: ContainerPlacementRequestMessage,
        response: ContainerPlacementResponseMessage | None,
        final_answer: FinalAnswer,
    ) -> None:
        """Write the final answer that an earlier agent recorded, and the statuses before it that are missing."""
        status = StatusCode(final_answer.status)
        last = None if response is None else response.status_code
        if status is not StatusCode.BAD_REQUEST:
            action = Action.accepted(request)
            if last is None:
                self.orders.append(action.answered(f"accepted: {action.in_words}", self._now_ms))
            if last is not StatusCode.IN_PROGRESS:
                self.orders.append(action.in_progress(self._now_ms))
        final = request.answered(status, final_answer.message, self._now_ms)
        self.queue = self.queue.with_answer(final)
        self._successes = {**self._successes, **last_successes([final])}
        self.orders += [Answer(final), RemoveMessages(request.uuid)]
        self.seen[request.uuid] = None

    def _accept_or_refuse(
        self,
        request: ContainerPlacementRequestMessage,
        response: ContainerPlacementResponseMessage | None,
        refused: str | None,
    ) -> None:
        self.seen[request.uuid] = None
        saved_progress = self.queue.saved_progress.get(str(request.uuid))
        accepted = Action.accepted(request, self._now_ms, saved_progress)
        # The request was not in the reading before this one, so it was written after that reading began.
        action = noted_at_acceptance(self._fleet, accepted, self._successes, written_after_ms=self.queue.read_ms)
        refused = refused or _refused_at_its_own_host(self._fleet, action)
        if refused is not None and saved_progress is None and not self._may_become_possible(request):
            self._refuse(request, response, refused)
            return
        self.accepted.append(action)
        if response is None:  # else an earlier agent has accepted it
            self.orders.append(action.answered(f"accepted: {action.in_words}", self._now_ms))
            self.orders.append(LogLine(f"request {request.uuid} ({action.in_words}) is accepted", is_warning=False))

    def _refuse(
        self,
        request: ContainerPlacementRequestMessage,
        response: ContainerPlacementResponseMessage | None,
        refused: str,
    ) -> None:
        if response is None:
            action = Action(request, since_ms=self._now_ms).after(Happening.CAN_NOT_BE_DONE, self._now_ms)
        else:  # an earlier agent has accepted it
            accepted = Action.accepted(request, self._now_ms)
            action = accepted.after(Happening.NOT_POSSIBLE_ANY_MORE, self._now_ms)
            if response.status_code is StatusCode.ACCEPTED:
                self.orders.append(accepted.in_progress(self._now_ms))
        self.queue, answers = self.queue.finished(action, refused, self._now_ms)
        self.orders += answers

    def _may_become_possible(self, request: ContainerPlacementRequestMessage) -> bool:
        """Whether a request that can not be done now may be possible once the requests before it are done."""
        if lasting_refusal(self._fleet, request) is not None:
            return False
        waiting: Sequence[Action] = (*self.queue.actions, *self.accepted)
        return any(_may_change(self._fleet, before.request, request) for before in waiting)


def _refused_at_its_own_host(fleet: Fleet, action: Action) -> str | None:
    """Why a processor can not be restarted by a request that names its own host; None for every other request."""
    request = action.request
    is_of_a_processor = request.standby is None and request.processor_id in fleet.processors
    return refused_restart(fleet) if is_of_a_processor and is_to_restart(fleet, action) else None


def _may_change(
    fleet: Fleet, earlier: ContainerPlacementRequestMessage, request: ContainerPlacementRequestMessage
) -> bool:
    """Whether the rule that forbids a request now may allow it once an earlier request is done."""
    if order_key(earlier) > order_key(request) or request.uuid == earlier.uuid:
        return False
    if earlier.host_action is not None:
        # While any other host is open, a host may be drained.
        is_helped = request.host_action is HostAction.DRAIN or earlier.destination_host == request.destination_host
        return earlier.host_action is HostAction.OPEN and is_helped
    is_of_host = request.host_action is not None
    return not is_of_host and fleet.base_of(earlier.processor_id) == fleet.base_of(request.processor_id)


def _final_answers(fleet: Fleet, messages: StoredMessages, now_ms: int) -> Responses:
    """The newest final answers of earlier agents, the newest last."""
    out_of_date = _out_of_date(fleet, messages, now_ms)
    final = [
        response
        for uuid, response in messages.responses.items()
        if response.status_code.is_final and uuid not in out_of_date
    ]
    return tuple(sorted(final, key=lambda response: response.timestamp)[-SHOWN_ANSWERS:])


def _remove_old_responses(fleet: Fleet, messages: StoredMessages, now_ms: int) -> list[Order]:
    """Remove responses without a request: unreadable ones and those of other deployments at once, others when old."""
    asked = messages.requests.keys() | messages.malformed.keys()
    over = messages.unreadable | _out_of_date(fleet, messages, now_ms)
    return [RemoveMessages(uuid, response_too=True) for uuid in sorted(over - asked)]


def _out_of_date(fleet: Fleet, messages: StoredMessages, now_ms: int) -> set[UUID]:
    """The responses of other deployments, and old ones."""
    return {
        uuid
        for uuid, response in messages.responses.items()
        if response.request.deployment_id not in ("", fleet.application.id)
        or response.timestamp < now_ms - RESPONSES_KEPT_MS
    }
