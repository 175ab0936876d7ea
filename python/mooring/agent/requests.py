"""What operators ask of processors, as far as this version does it: to stop and to start standbys.

Pure. A request goes from CREATED to BAD_REQUEST, or over ACCEPTED and IN_PROGRESS to SUCCEEDED or FAILED, and each
change is an order to write it. For one processor requests are served one by one, in the order of their clients'
timestamps; other processors do not wait. Nothing is begun while a query waits for its first plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice
from uuid import UUID

from mooring.agent.fleet import Fleet
from mooring.agent.planning import with_copies_renewed
from mooring.errors import InvalidGroupingError
from mooring.model import events, natural_order
from mooring.model.orders import Copies, Order, Say
from mooring.placement import (
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    StandbyAction,
    StatusCode,
    StoredMessages,
)

REMEMBERED_REQUESTS = 20_000
_NAMED = 20  # processors in a message
RESPONSES_KEPT_MS = 3_600_000
"""For how long a final response stays; older ones go when the next message is seen."""


@dataclass(frozen=True, slots=True)
class RequestsRead(events.Event):
    """The messages in the store have changed; all that are there."""

    messages: StoredMessages


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
class StoppedStandbys:
    """The processors whose standbys an operator has stopped, and the id of the application in which that was."""

    application: str = ""
    processors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SaveStoppedStandbys(Order):
    """Keep which processors' standbys are stopped."""

    stopped: StoppedStandbys


@dataclass(frozen=True, slots=True)
class Action:
    """A request that is accepted. Once it is begun, `version` is the job model's that has what it asks for."""

    request: ContainerPlacementRequestMessage
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Desk:
    """The requests that are not done yet, in the order in which they are served, and the newest ones ever seen."""

    actions: tuple[Action, ...] = ()
    seen: Mapping[UUID, None] = field(default_factory=dict)

    def with_news(self, accepted: list[Action], seen: dict[UUID, None]) -> Desk:
        """With more actions, and these remembered: the newest, in the order in which they came."""
        forgotten = len(seen) - REMEMBERED_REQUESTS
        kept = dict(islice(seen.items(), forgotten, None)) if forgotten > 0 else seen
        return Desk(tuple(sorted((*self.actions, *accepted), key=lambda one: _turn(one.request))), kept)


def taken_in(desk: Desk, fleet: Fleet, event: RequestsRead) -> tuple[Desk, list[Order]]:
    """Judge the requests that are new, each once, and clear away what is done with."""
    orders: list[Order] = []
    accepted: list[Action] = []
    seen = dict(desk.seen)
    under_way = {action.request.uuid for action in desk.actions}
    for request, refusal in _judged(fleet, event):
        response = event.messages.responses.get(request.uuid)
        if request.deployment_id not in ("", fleet.application):
            orders.append(RemoveMessages(request.uuid, response_too=True))
        elif request.uuid in under_way:
            pass
        elif request.uuid in seen or (response is not None and response.status_code.is_final):
            orders.append(RemoveMessages(request.uuid))
            seen[request.uuid] = None
        else:
            action = Action(request)
            seen[request.uuid] = None
            if refusal is not None:
                status = StatusCode.BAD_REQUEST if response is None else StatusCode.FAILED  # it had been accepted
                orders += _final(action, status, refusal, event.at_ms)
                continue
            accepted.append(action)
            if response is None:  # else an agent before this one had accepted it
                orders.append(_answer(action, StatusCode.ACCEPTED, f"accepted: {_in_words(action)}", event.at_ms))
    return desk.with_news(accepted, seen), [*orders, *_old_responses(fleet, event)]


def begun(desk: Desk, fleet: Fleet, now_ms: int) -> tuple[Desk, Fleet, list[Order]]:
    """Begin one action, if one may: each is a plan, and the agent is to hear of events between two of them."""
    action = next(_ready(desk, fleet), None)
    if action is None:
        return desk, fleet, []
    desk, fleet, orders = _carried_out(desk, fleet, action, now_ms)
    return desk, fleet, [_answer(action, StatusCode.IN_PROGRESS, _in_words(action), now_ms), *orders]


def may_begin(desk: Desk, fleet: Fleet) -> bool:
    """Whether `begun` would begin an action now."""
    return next(_ready(desk, fleet), None) is not None


def _ready(desk: Desk, fleet: Fleet) -> Iterator[Action]:
    """The first action of each processor that has none under way."""
    if not all(query.is_released for query in fleet.queries.values()):
        return
    busy = {action.request.processor_id for action in desk.actions if action.version is not None}
    for action in desk.actions:
        id = action.request.processor_id
        if id not in busy and id in fleet.processors:
            yield action
        busy.add(id)


def ended(desk: Desk, fleet: Fleet, obeyed: int, copies: Copies, now_ms: int) -> tuple[Desk, list[Order]]:
    """End the actions that are in force: `obeyed` is the version that the JVM has, `copies` those it was told of."""
    orders: list[Order] = []
    for action in desk.actions:
        outcome = _outcome(action, fleet, obeyed, copies)
        if outcome is not None:
            orders += _final(action, *outcome, now_ms)
            desk = _without(desk, action)
    return desk, orders


def _turn(request: ContainerPlacementRequestMessage) -> tuple[int, str]:
    return request.timestamp, str(request.uuid)


def _judged(fleet: Fleet, event: RequestsRead) -> Iterator[tuple[ContainerPlacementRequestMessage, str | None]]:
    """Every request, with why it can not be done, None when it can."""
    for request in sorted(event.messages.requests.values(), key=_turn):
        yield request, _refusal(fleet, request)
    for malformed in event.messages.malformed.values():
        yield malformed.request, malformed.reason


def _refusal(fleet: Fleet, request: ContainerPlacementRequestMessage) -> str | None:
    if request.standby is None:
        return "this version of Mooring starts and stops standbys (standby: START or STOP); it does not move processors"
    if fleet.replication_factor == 1:
        return "spark.mooring.standby.replication.factor is 1: no processor has standbys"
    if request.processor_id not in fleet.processors:
        known = sorted(fleet.processors, key=natural_order)
        near = get_close_matches(request.processor_id, known, n=1)
        hint = f"; nearest: {near[0]}" if near else ""
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        expected = f"one of {', '.join(known[:_NAMED])}{more}" if known else "one that is there, and there is none yet"
        return f"there is no processor {request.processor_id}: expected {expected}{hint}"
    return None


def _carried_out(desk: Desk, fleet: Fleet, action: Action, now_ms: int) -> tuple[Desk, Fleet, list[Order]]:
    """The fleet as the action wants it, planned at once; where that plan is refused all stays as it was."""
    stops = action.request.standby is StandbyAction.STOP
    one = {action.request.processor_id}
    stopped = fleet.stopped_standbys | one if stops else fleet.stopped_standbys - one
    try:
        after, told = with_copies_renewed(replace(fleet, stopped_standbys=stopped))
    except InvalidGroupingError as refusal:
        return _without(desk, action), fleet, _final(action, StatusCode.FAILED, f"no plan for it: {refusal}", now_ms)
    under_way = tuple(replace(action, version=after.model.version) if a is action else a for a in desk.actions)
    return replace(desk, actions=under_way), after, [Say(message) for message in told]


def _outcome(action: Action, fleet: Fleet, obeyed: int, copies: Copies) -> tuple[StatusCode, str] | None:
    """What to say of an action that is over; None while it is not."""
    id = action.request.processor_id
    if id not in fleet.processors:
        return StatusCode.FAILED, f"processor {id} is gone: its host did not come back"
    if action.version is None or (fleet.queries and obeyed < action.version):
        return None
    outcome = _outcome_of_stop if action.request.standby is StandbyAction.STOP else _outcome_of_start
    return outcome(id, fleet, copies)


def _outcome_of_stop(id: str, fleet: Fleet, copies: Copies) -> tuple[StatusCode, str] | None:
    tasks = _actives(fleet, id)
    partition_of = fleet.partition_of_task()
    told = [task for task in tasks if task in partition_of and _is_told(partition_of[task], copies)]
    if told or any(task in tasks for task in _copied_tasks(fleet)):
        return None
    return StatusCode.SUCCEEDED, f"the {len(tasks)} tasks of processor {id} have no copies now"


def _outcome_of_start(id: str, fleet: Fleet, copies: Copies) -> tuple[StatusCode, str] | None:
    tasks = _actives(fleet, id)
    wanted = len(tasks) * (fleet.replication_factor - 1)
    held = sum(task in tasks for task in _copied_tasks(fleet))
    lacks = [lack for lack in fleet.unplaced if lack.task_name in tasks]
    if lacks:
        return (
            StatusCode.FAILED,
            f"{len(lacks)} of {wanted} copies have no place, as that of {lacks[0].task_name}: {lacks[0].reason}; the"
            f" standbys of processor {id} are no longer stopped, and what is missing comes when there is a place",
        )
    if held < wanted and fleet.queries:  # some were lost meanwhile: the next plan makes new ones
        return None
    return StatusCode.SUCCEEDED, f"{held} copies are in the plan; they are warm when mooring status shows no lag"


def _is_told(partition: tuple[str, int], copies: Copies) -> bool:
    query, number = partition
    return number in copies.get(query, {})


def _actives(fleet: Fleet, id: str) -> frozenset[str]:
    container = fleet.model.containers.get(id)
    return frozenset(container.actives) if container else frozenset()


def _copied_tasks(fleet: Fleet) -> Iterator[str]:
    """For each copy in the job model the task that it is of."""
    for container in fleet.model.containers.values():
        for task in container.tasks.values():
            if task.standby_of is not None:
                yield task.standby_of


def _in_words(action: Action) -> str:
    verb = "stop" if action.request.standby is StandbyAction.STOP else "start"
    return f"{verb} the standbys of processor {action.request.processor_id}"


def _answer(action: Action, status: StatusCode, message: str, now_ms: int) -> Order:
    return Answer(action.request.answered(status, message, now_ms))


def _final(action: Action, status: StatusCode, message: str, now_ms: int) -> list[Order]:
    """The last word, in the log as well; then the request goes, and the response stays."""
    said = Say(f"request {action.request.uuid} {status.value}: {message}")
    return [_answer(action, status, message, now_ms), RemoveMessages(action.request.uuid), said]


def _without(desk: Desk, action: Action) -> Desk:
    return replace(desk, actions=tuple(a for a in desk.actions if a.request.uuid != action.request.uuid))


def _old_responses(fleet: Fleet, event: RequestsRead) -> list[Order]:
    """Remove responses without a request, of other deployments or unreadable at once, of this one after a while."""
    asked = event.messages.requests.keys() | event.messages.malformed.keys()
    over = event.messages.unreadable | {
        uuid
        for uuid, response in event.messages.responses.items()
        if response.request.deployment_id not in ("", fleet.application)
        or response.timestamp < event.at_ms - RESPONSES_KEPT_MS
    }
    return [RemoveMessages(uuid, response_too=True) for uuid in sorted(over - asked)]
