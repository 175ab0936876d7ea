"""Whether what a placement request asks for has come about since the request was made. Pure.

A request that names the host where its processor is restarts the processor's executor. But a request that was made
while the processor was elsewhere wants the processor at that host, and nothing more. So does a request that repeats an
earlier one, made before the earlier one succeeded. Such requests are done as soon as the processor is at the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mooring.agent.requests.action import Action
from mooring.agent.requests.validation import replicas_by_location
from mooring.agent.state.fleet import Fleet
from mooring.placement import (
    LAST_SEEN,
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    StatusCode,
)
from mooring.placement.lifecycle import Phase

LastSuccesses = Mapping[tuple[str, str], ContainerPlacementResponseMessage]
"""Processor or standby, and destination, to the last answer SUCCEEDED to a request that placed it there."""


def last_successes(answers: Iterable[ContainerPlacementResponseMessage]) -> LastSuccesses:
    """The last answer SUCCEEDED for each processor or standby and each destination."""
    found: dict[tuple[str, str], ContainerPlacementResponseMessage] = {}
    for answer in sorted(answers, key=lambda answer: answer.timestamp):
        if answer.status_code is StatusCode.SUCCEEDED and _is_placement(answer.request):
            found[_place(answer.request)] = answer
    return found


def noted_at_acceptance(fleet: Fleet, action: Action, successes: LastSuccesses, written_after_ms: int) -> Action:
    """The action of a new request, with what the agent knows when it accepts the request.

    The request was written after `written_after_ms` by the agent's clock; the client's clock may be behind.
    An earlier agent that was reserving had decided for a move: the processor was elsewhere when that agent began.
    """
    request = action.request
    if not _is_placement(request):
        return action
    if action.saved_progress is not None:
        return replace(action, was_elsewhere=action.saved_progress.phase == Phase.RESERVING.label)
    answer = successes.get(_place(request))
    is_repeated = answer is not None and answer.timestamp >= max(request.timestamp, written_after_ms)
    return replace(
        action,
        was_elsewhere=not is_at_destination(fleet, request),
        repeats=answer.request.uuid if answer is not None and is_repeated else None,
    )


def noted_at_success(waiting: Action, done: ContainerPlacementRequestMessage) -> Action:
    """A waiting action, after another request has succeeded."""
    is_same = _is_placement(done) and _is_placement(waiting.request) and _place(done) == _place(waiting.request)
    return replace(waiting, repeats=done.uuid) if is_same and not waiting.is_under_way else waiting


def is_at_destination(fleet: Fleet, request: ContainerPlacementRequestMessage) -> bool:
    """Whether the request names a host, and the processor is there, or all copies of the standby are.

    A processor whose executor is lost is nowhere.
    """
    id, host = request.processor_id, request.destination_host
    processor = fleet.processors.get(id)
    if processor is not None:
        return processor.executor is not None and processor.location == host
    return id in fleet.standby_ids() and replicas_by_location(fleet, id).keys() == {host}


def needs_nothing(fleet: Fleet, action: Action) -> bool:
    """Whether the processor or standby has come to the destination since the request was made."""
    has_come = action.was_elsewhere or action.repeats is not None
    return has_come and _is_placement(action.request) and is_at_destination(fleet, action.request)


def is_done(fleet: Fleet, action: Action) -> bool:
    """Whether the request needs nothing, and later job models keep what has come about.

    They keep a processor. They keep a standby only where it is pinned.
    """
    id, host = action.request.processor_id, action.request.destination_host
    stays = id in fleet.processors or fleet.overrides.pinned_standbys.get(id) == host
    return stays and needs_nothing(fleet, action)


def in_words(fleet: Fleet, action: Action) -> str:
    """What the operator is told of a request that needs nothing."""
    request = action.request
    kind = "standby" if action.is_of_a_standby(fleet) else "processor"
    how = "since this request was made" if action.repeats is None else f"by request {action.repeats}"
    is_there = f"{kind} {request.processor_id} is at {request.destination_host} already, {how}"
    return f"{is_there}: nothing was restarted; a new request with {LAST_SEEN} restarts it"


def _is_placement(request: ContainerPlacementRequestMessage) -> bool:
    return request.standby is None and request.host_action is None


def _place(request: ContainerPlacementRequestMessage) -> tuple[str, str]:
    return request.processor_id, request.destination_host
