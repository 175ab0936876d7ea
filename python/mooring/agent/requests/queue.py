"""What operators ask of processors: taking requests in, each once, and answering them.

Pure. `mooring.placement.lifecycle` says what may become of a request, and `mooring.agent.requests.run` does it. Each
change of its status is an order to write it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final
from uuid import UUID

from mooring.agent.requests.validation import lasting_refusal, refusal
from mooring.agent.state.fleet import Fleet
from mooring.model import events
from mooring.model.orders import LogLine, Order
from mooring.placement import (
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    HostAction,
    StandbyAction,
    StatusCode,
    StoredMessages,
)
from mooring.placement.lifecycle import Phase
from mooring.records.operator_overrides import Begun, Verdict

REMEMBERED_REQUESTS = 20_000
RESPONSES_KEPT_MS = 3_600_000
"""For how long a final response stays; older ones go when the next message is seen."""

SHOWN_ACTIONS = 20
"""How many of the last actions the status shows."""

ARRIVAL_MS: Final = 1_000
"""For how long after its client's timestamp a request waits for others that other clients write before it."""


Answers = tuple[ContainerPlacementResponseMessage, ...]
"""The newest last."""


@dataclass(frozen=True, slots=True)
class RequestsRead(events.Event):
    """The messages in the store, all that are there; None where they are the same as when they were read before.

    Whoever read them began with that at `as_of_ms`.
    """

    messages: StoredMessages | None
    as_of_ms: int


@dataclass(frozen=True, slots=True)
class Answer(Order):
    """Write a response."""

    response: ContainerPlacementResponseMessage


@dataclass(frozen=True, slots=True)
class RemoveMessages(Order):
    """Remove a request, and its response too when that is asked for."""

    uuid: UUID
    response_too: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """A request that is accepted: its phase since when, and the executors from and to which it goes.

    `version` is the job model's that has what it asks for. `begun` is how far an agent before this one had come.
    `is_given_up` where it is a restart, and the JVM could not end the source. `beside` are the processors that it was
    about when it was begun, `sharing` those that shared tasks with them then: no other action may begin for these,
    also when the executor is gone by now and its copies are elsewhere.
    """

    request: ContainerPlacementRequestMessage
    phase: Phase = Phase.WAITING
    since_ms: int = 0
    source: str = ""
    executor: str = ""
    version: int = -1
    begun: Begun | None = None
    is_given_up: bool = False
    beside: frozenset[str] = frozenset()
    sharing: frozenset[str] = frozenset()

    @property
    def is_under_way(self) -> bool:
        """Whether it is more than accepted."""
        return self.phase is not Phase.WAITING

    @property
    def is_restart_under_way(self) -> bool:
        """Whether it will end the source, or has ended it."""
        return self.phase in (Phase.AWAITING_COPIES, Phase.RESTARTING)

    @property
    def arrived_by_ms(self) -> int:
        """Who reads the store from then on knows what others have written before it; a client's clock may be ahead."""
        return min(self.request.timestamp, self.since_ms) + ARRIVAL_MS if self.begun is None else 0

    @property
    def in_words(self) -> str:
        """What is asked, in words."""
        request = self.request
        if request.host_action is not None:
            return f"{request.host_action.value.lower()} host {request.destination_host}"
        if request.standby is None:
            return f"place processor {request.processor_id} on {request.destination_host}"
        verb = "stop" if request.standby is StandbyAction.STOP else "start"
        return f"{verb} the standbys of processor {request.processor_id}"

    @property
    def as_begun(self) -> Begun:
        """What an agent after this one is to know of it."""
        return Begun(self.phase.label, self.source, self.executor, self.beside, self.sharing)

    def answered(self, message: str, now_ms: int) -> Order:
        """The answer for the phase it is in."""
        return Answer(self.request.answered(self.phase.status, message, now_ms))


@dataclass(frozen=True, slots=True)
class RequestQueue:
    """The requests that are not done yet, in the order in which they are served, and the newest ones ever seen.

    `history` are the answers to the last that are done, the newest last; `failed` counts those that did not succeed.
    `resumed` is how far an agent before this one had come with requests. `answered_requests` says what became of
    those that are done and still in the store: their answers may not be there. `read_ms` is when the last reading of
    the store began.
    """

    actions: tuple[Action, ...] = ()
    seen: Mapping[UUID, None] = field(default_factory=dict)
    resumed: Mapping[str, Begun] = field(default_factory=dict)
    history: Answers = ()
    failed: int = 0
    answered_requests: Mapping[str, Verdict] = field(default_factory=dict)
    read_ms: int = 0

    def waits_for_reading(self, as_of_ms: int) -> bool:
        """Whether a request may begin when it is known that nothing else was written before it, by a reading then."""
        waiting = [action for action in self.actions if not action.is_under_way]
        return any(self.read_ms < action.arrived_by_ms <= as_of_ms for action in waiting)

    def with_news(self, accepted: list[Action], seen: dict[UUID, None]) -> RequestQueue:
        """With more actions, and the newest of these, in the order in which they came, remembered; `seen` is kept."""
        for uuid in list(islice(seen, max(0, len(seen) - REMEMBERED_REQUESTS))):
            del seen[uuid]
        actions = tuple(sorted((*self.actions, *accepted), key=lambda one: _turn(one.request)))
        return replace(self, actions=actions, seen=seen)

    def action(self, uuid: UUID) -> Action | None:
        """What a request has come to; None when it is over, or was never accepted."""
        return next((action for action in self.actions if action.request.uuid == uuid), None)

    def with_action(self, action: Action) -> RequestQueue:
        """With an action as it is now."""
        uuid = action.request.uuid
        return replace(self, actions=tuple(action if a.request.uuid == uuid else a for a in self.actions))

    @property
    def being_restarted(self) -> frozenset[str]:
        """The executors that will end, or have ended, for a request that is not over."""
        return frozenset(a.source for a in self.actions if a.is_restart_under_way and a.source)

    def with_restart_given_up(self, request: str) -> RequestQueue:
        """With what the JVM says of a request: that it could not end the executor."""
        given_up = (replace(a, is_given_up=a.is_given_up or str(a.request.uuid) == request) for a in self.actions)
        return replace(self, actions=tuple(given_up))

    def done(self, action: Action, message: str, now_ms: int) -> tuple[RequestQueue, list[Order]]:
        """Without an action that is over, and its last word, in the log as well: then the request goes."""
        request, status = action.request, action.phase.status
        response = request.answered(status, message, now_ms)
        said = LogLine(f"request {request.uuid} ({action.in_words}) {status.value}: {message}")
        left = tuple(a for a in self.actions if a.request.uuid != request.uuid)
        queue = replace(
            self,
            actions=left,
            history=_with_last(self.history, response),
            failed=self.failed + (status is StatusCode.FAILED),
            answered_requests={
                **self.answered_requests,
                str(request.uuid): Verdict(status.value, response.response_message),
            },
        )
        return queue, [Answer(response), RemoveMessages(request.uuid), said]


def heard(queue: RequestQueue, fleet: Fleet, event: events.Event) -> tuple[RequestQueue, list[Order]]:
    """The queue after an event, most of which do not concern it, and the answers to requests that are new."""
    match event:
        case RequestsRead():
            queue = replace(queue, read_ms=event.as_of_ms)
            return (queue, []) if event.messages is None else taken_in(queue, fleet, event.messages, event.at_ms)
        case events.RestartGivenUp():
            return queue.with_restart_given_up(event.request), []
        case _:
            return queue, []


def taken_in(
    queue: RequestQueue, fleet: Fleet, messages: StoredMessages, now_ms: int
) -> tuple[RequestQueue, list[Order]]:
    """Judge the requests that are new, each once, and clear away what is done with."""
    orders: list[Order] = []
    accepted: list[Action] = []
    seen = dict(queue.seen)
    under_way = {action.request.uuid for action in queue.actions}
    stored = {str(uuid) for uuid in (*messages.requests, *messages.malformed)}
    queue = replace(
        queue,
        answered_requests={uuid: said for uuid, said in queue.answered_requests.items() if uuid in stored},
        resumed={uuid: begun for uuid, begun in queue.resumed.items() if uuid in stored},
        history=queue.history or _last_words(fleet, messages, now_ms),
    )
    for request, refused in _judged(fleet, messages):
        response = messages.responses.get(request.uuid)
        if request.deployment_id not in ("", fleet.application):
            orders.append(RemoveMessages(request.uuid, response_too=True))
            orders.append(LogLine(f"request {request.uuid} is removed: it is for deployment {request.deployment_id}"))
        elif request.uuid in under_way:
            pass
        elif response is not None and response.status_code.is_final:
            orders.append(RemoveMessages(request.uuid))
            seen[request.uuid] = None
        elif request.uuid in seen:
            orders.append(RemoveMessages(request.uuid))
        elif str(request.uuid) in queue.answered_requests:
            said = queue.answered_requests[str(request.uuid)]
            orders += _left_out(Action(request), response, StatusCode(said.status), now_ms)
            response = request.answered(StatusCode(said.status), said.message, now_ms)
            queue = replace(queue, history=_with_last(queue.history, response))
            orders.append(Answer(response))
            orders.append(RemoveMessages(request.uuid))
            seen[request.uuid] = None
        else:
            action = _taken_up(request, queue.resumed.get(str(request.uuid)), now_ms)
            seen[request.uuid] = None
            earlier = [one.request for one in (*queue.actions, *accepted)]
            may_change = lasting_refusal(fleet, request) is None and any(
                _may_change(fleet, before, request) for before in earlier
            )
            if refused is not None and action.begun is None and not may_change:
                phase = Phase.REFUSED if response is None else Phase.FAILED  # it had been accepted
                queue, answers = queue.done(replace(action, phase=phase), refused, now_ms)
                was_waiting = response is not None and response.status_code is StatusCode.ACCEPTED
                orders += [*([in_progress(action, now_ms)] if was_waiting else []), *answers]
                continue
            accepted.append(action)
            if response is None:  # else an agent before this one had accepted it
                orders.append(action.answered(f"accepted: {action.in_words}", now_ms))
                orders.append(LogLine(f"request {request.uuid} ({action.in_words}) is accepted"))
    return queue.with_news(accepted, seen), [*orders, *_old_responses(fleet, messages, now_ms)]


def _taken_up(request: ContainerPlacementRequestMessage, begun: Begun | None, now_ms: int) -> Action:
    """An action that waits; an agent before this one may have begun it."""
    if begun is None:
        return Action(request, since_ms=now_ms)
    return Action(request, since_ms=now_ms, begun=begun, beside=begun.beside, sharing=begun.sharing)


def _with_last(history: Answers, response: ContainerPlacementResponseMessage) -> Answers:
    return (*history, response)[-SHOWN_ACTIONS:]


def _last_words(fleet: Fleet, messages: StoredMessages, now_ms: int) -> Answers:
    """What agents before this one had answered last, the newest last."""
    left_out = _out_of_date(fleet, messages, now_ms)
    final = [one for uuid, one in messages.responses.items() if one.status_code.is_final and uuid not in left_out]
    return tuple(sorted(final, key=lambda response: response.timestamp)[-SHOWN_ACTIONS:])


def _may_change(
    fleet: Fleet, earlier: ContainerPlacementRequestMessage, request: ContainerPlacementRequestMessage
) -> bool:
    """Whether what forbids a request now may be over when an earlier one is done: then it is judged in its turn."""
    if _turn(earlier) > _turn(request) or request.uuid == earlier.uuid:
        return False
    if earlier.host_action is not None:
        return earlier.host_action is HostAction.OPEN and earlier.destination_host == request.destination_host
    known = fleet.base_of(request.processor_id)
    return known in fleet.processors and fleet.base_of(earlier.processor_id) == known


def _left_out(
    action: Action, response: ContainerPlacementResponseMessage | None, last: StatusCode, now_ms: int
) -> list[Order]:
    """The statuses before the last that an agent before this one had no time to say."""
    if last is StatusCode.BAD_REQUEST:
        return []
    said = None if response is None else response.status_code
    accepted = [action.answered(f"accepted: {action.in_words}", now_ms)] if said is None else []
    return [*accepted, *([] if said is StatusCode.IN_PROGRESS else [in_progress(action, now_ms)])]


def in_progress(action: Action, now_ms: int) -> Order:
    """What comes before the last word on an action that was accepted: clients see no status left out."""
    return Answer(action.request.answered(StatusCode.IN_PROGRESS, action.in_words, now_ms))


def _turn(request: ContainerPlacementRequestMessage) -> tuple[int, str]:
    return request.timestamp, str(request.uuid)


def _judged(fleet: Fleet, messages: StoredMessages) -> Iterator[tuple[ContainerPlacementRequestMessage, str | None]]:
    """Every request, with why it can not be done, None when it can."""
    for request in sorted(messages.requests.values(), key=_turn):
        yield request, refusal(fleet, request)
    for malformed in messages.malformed.values():
        yield malformed.request, malformed.reason


def _old_responses(fleet: Fleet, messages: StoredMessages, now_ms: int) -> list[Order]:
    """Remove responses without a request, of other deployments or unreadable at once, of this one after a while."""
    asked = messages.requests.keys() | messages.malformed.keys()
    over = messages.unreadable | _out_of_date(fleet, messages, now_ms)
    return [RemoveMessages(uuid, response_too=True) for uuid in sorted(over - asked)]


def _out_of_date(fleet: Fleet, messages: StoredMessages, now_ms: int) -> set[UUID]:
    """The responses of other deployments, and old ones."""
    return {
        uuid
        for uuid, response in messages.responses.items()
        if response.request.deployment_id not in ("", fleet.application)
        or response.timestamp < now_ms - RESPONSES_KEPT_MS
    }
