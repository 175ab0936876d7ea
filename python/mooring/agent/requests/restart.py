"""Restarting a processor where it is: its executor ends, and the cluster manager starts another.

Pure. Meanwhile tasks that have copies run where their copies are. So the executor works on until these copies are
warm; they may be cold after the restart of another executor. Where they do not get warm in time the executor ends all
the same.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from mooring.agent.planning.copies import all_copies, is_warm_at, transfer_allowance_ms, trouble_at
from mooring.agent.requests.action import Action
from mooring.agent.requests.already_there import needs_nothing
from mooring.agent.requests.move import TROUBLE_MS, tasks_of
from mooring.agent.requests.phase import Change, Outcome, PhaseHandler, View
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.requests.validation import refusal
from mooring.agent.state.fleet import Fleet, Processor
from mooring.model import natural_order
from mooring.model.orders import RestartExecutor
from mooring.placement import LAST_SEEN
from mooring.placement.lifecycle import Happening, Phase
from mooring.records.operator_overrides import SavedProgress

LABELS: Final = (Phase.AWAITING_COPIES.label, Phase.RESTARTING.label)
"""The labels of the phases of a restart, as they are recorded for a later agent."""

MOST_WAIT_FOR_IDLE_MS: Final = 60_000
"""How long the JVM waits for a moment at which no task runs on an executor that is to end."""

RESTART_MARGIN_MS: Final = 3_000
"""How long after its timeout a restart counts as failed where the executor still lives: the JVM may be ending it."""


def is_to_restart(fleet: Fleet, action: Action) -> bool:
    """Whether the request is done by a restart.

    It is when the destination is the processor's location, unless the processor has come there since the request was
    made. Without host affinity it always is: no tasks could move.
    """
    here = fleet.processors[action.request.processor_id].location
    is_here = action.request.destination_host in (LAST_SEEN, here) and not needs_nothing(fleet, action)
    return is_here or not fleet.settings.has_host_affinity


def progress_to_resume(action: Action) -> SavedProgress | None:
    """The progress that an earlier agent recorded, if it has to be resumed.

    None where that agent only waited for copies: then the request begins as a new one.
    """
    saved = action.saved_progress
    return None if saved is None or saved.phase == Phase.AWAITING_COPIES.label else saved


def executor_ended_before(fleet: Fleet, action: Action) -> str | None:
    """The executor that an earlier agent has ended, or was about to end, for this request; None without one."""
    ended = fleet.ongoing.restarts.get(str(action.request.uuid))
    if ended is None and action.saved_progress is not None and action.saved_progress.phase == Phase.RESTARTING.label:
        return action.saved_progress.source  # the JVM has given up ending it, or was never asked
    return ended


def beginning(queue: RequestQueue, fleet: Fleet, processor: Processor, source: str, has_begun: bool) -> Outcome:
    """With what a restart begins: the source may end now, or it waits until its tasks have warm copies.

    A source for which `has_begun` is true does not wait: an earlier agent has begun to end it.
    """
    if source not in fleet.executors:
        return Outcome(Happening.TURN_TO_RESTART, _gone(processor), source=source)
    cold = uncovered_tasks(queue, fleet, source)
    if cold and not has_begun and fleet.timing.rebind_timeout_ms:
        message = f"executor {source} ends when its tasks have warm copies: {len(cold)} have none, as {cold[0]}"
        return Outcome(Happening.TURN_TO_AWAIT_COPIES, message, source=source)
    return Outcome(Happening.TURN_TO_RESTART, _ends_when_idle(source), source=source)


def _await_copies(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    return Change(fleet, replace(action, source=outcome.source))


def _copies_awaited(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    """What ends the wait for copies.

    The wait lasts at most the rebind timeout, and the time that copying all of them to one executor would take.
    """
    id, source = action.request.processor_id, action.source
    if fleet.processors[id].executor != source:
        return Outcome(Happening.SOURCE_LOST, _gone(fleet.processors[id]), source=source)
    refused = refusal(fleet, action.request)
    if refused is not None:
        return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, refused)
    cold = uncovered_tasks(queue, fleet, source)
    if not cold and all(query.is_released for query in fleet.queries.values()):
        return Outcome(Happening.COVERED, _ends_when_idle(source), source=source)
    coming = [(task, source) for task in {*_tasks_on(fleet, source), *cold}]
    wait_ms = fleet.timing.rebind_timeout_ms + transfer_allowance_ms(fleet, coming)
    if view.now_ms >= action.since_ms + wait_ms:
        late = f"{len(cold)} tasks have no warm copy after {wait_ms} ms" + (f", as {cold[0]}" if cold else "")
        return Outcome(Happening.EXPIRED, f"{late}: {_ends_when_idle(source)}", source=source)
    return None


def _ends_when_idle(source: str) -> str:
    return f"executor {source} ends when no task runs on it"


def _gone(processor: Processor) -> str:
    return f"its executor is gone: another one is waited for at {processor.location}"


def uncovered_tasks(queue: RequestQueue, fleet: Fleet, source: str) -> list[str]:
    """The tasks that would have to run without a warm copy if that executor ended too, in natural order.

    They are of two kinds: tasks on the executor, except for those that get no copy or whose copies can not be made; and
    tasks on executors that are ending already, where this executor has the tasks' last warm copy.
    """
    if fleet.settings.replication_factor == 1:
        return []
    ends = {action.source for action in queue.actions if action.phase is Phase.RESTARTING}
    ends = {*ends, *fleet.ongoing.restarts.values()} - {source}
    holders: dict[str, list[str]] = {}
    for task, holder in all_copies(fleet):
        holders.setdefault(task, []).extend([] if holder is None else [holder])
    is_in_danger = {
        source: partial(_is_cold, fleet, ends),
        **dict.fromkeys(ends, partial(_is_last, fleet, ends, source)),
    }
    found = [
        name
        for id, carrier in fleet.executor_of.items()
        if carrier in is_in_danger and id not in fleet.overrides.stopped_standbys
        for name, query, partition in tasks_of(fleet, id)
        if fleet.queries[query].can_be_copied and is_in_danger[carrier](query, partition, holders.get(name, []))
    ]
    return sorted(found, key=natural_order)


def _is_cold(fleet: Fleet, ends: set[str], query: str, partition: int, holders: list[str]) -> bool:
    """Whether a task on the executor that is to end has no warm copy on an executor that stays."""
    if not holders:
        return fleet.timers.regroup_at_ms is not None or fleet.is_incomplete  # the next job model may have some
    end, stay = [h for h in holders if h in ends], [h for h in holders if h not in ends]
    if is_warm_at(fleet, query, partition, stay):
        return False
    # Copies that can not be made are not waited for, except while a warm copy is on an executor that is ending too.
    is_in_vain = stay and all(trouble_at(fleet, query, partition, [holder], TROUBLE_MS) for holder in stay)
    return not is_in_vain or is_warm_at(fleet, query, partition, end)


def _is_last(fleet: Fleet, ends: set[str], source: str, query: str, partition: int, holders: list[str]) -> bool:
    """Whether a task on another executor that ends has its last warm copy on the source."""
    stay = [holder for holder in holders if holder not in ends and holder != source]
    is_here = source in holders and is_warm_at(fleet, query, partition, [source])
    return is_here and not is_warm_at(fleet, query, partition, stay)


def progress(queue: RequestQueue, fleet: Fleet, action: Action) -> str:
    """How far an action is, in words."""
    if action.phase is not Phase.AWAITING_COPIES:
        return action.phase.label
    cold = set(uncovered_tasks(queue, fleet, action.source))
    all_of_them = cold | _tasks_on(fleet, action.source)
    return f"{action.phase.label}: {len(all_of_them - cold)} of {len(all_of_them)} tasks have a warm one"


def _tasks_on(fleet: Fleet, executor: str) -> set[str]:
    return {name for id, at in fleet.executor_of.items() if at == executor for name, *_ in tasks_of(fleet, id)}


def _most_idle_wait_ms(action: Action) -> int:
    """How long the JVM looks for a moment at which it may end the executor."""
    expiry_ms = action.request.request_expiry_ms
    return MOST_WAIT_FOR_IDLE_MS if expiry_ms is None else min(MOST_WAIT_FOR_IDLE_MS, expiry_ms)


def _begin_restart(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    source = outcome.source
    order = RestartExecutor(str(action.request.uuid), source, _most_idle_wait_ms(action))
    return Change(fleet, replace(action, source=source), orders=(order,) if source in fleet.executors else ())


def _restarted(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    """What ends a restart. An executor that comes after the expiry does not count: the operator wants one before it."""
    id, waited_ms = action.request.processor_id, view.now_ms - action.since_ms
    carrier = fleet.processors[id].executor
    expiry_ms = action.request.request_expiry_ms
    wait_ms = view.timeouts.restart_ms if expiry_ms is None else expiry_ms
    if carrier is not None and carrier != action.source:
        where = f"processor {id} is on executor {carrier} at {fleet.processors[id].location}"
        if waited_ms > wait_ms:
            return Outcome(Happening.EXPIRED, f"{where}, but was not within {wait_ms} ms")
        return Outcome(Happening.REPLACED, where, destination=carrier)
    if carrier is not None and action.is_given_up:
        tried_ms = _most_idle_wait_ms(action)
        return Outcome(Happening.EXPIRED, f"executor {carrier} could not be ended within {tried_ms} ms: it runs on")
    if waited_ms < wait_ms + (0 if carrier is None else RESTART_MARGIN_MS):
        return None
    if carrier is not None:
        return Outcome(Happening.EXPIRED, f"executor {carrier} did not end within {wait_ms} ms: it runs on")
    message = f"no executor has come for processor {id} within {wait_ms} ms; its tasks run elsewhere"
    return Outcome(Happening.EXPIRED, message)


AWAITING_COPIES: Final = PhaseHandler(_copies_awaited, enter=_await_copies)
RESTARTING: Final = PhaseHandler(_restarted, enter=_begin_restart)


def without_ended_restarts(
    queue: RequestQueue, fleet: Fleet, before: Action, over: Action
) -> tuple[RequestQueue, Fleet]:
    """The fleet without the restarts of requests that are over; the queue notes them, for the JVM to forget them.

    `over` is the action that has just ended, and `before` the same one in its last phase. An executor that did not end
    works on. Where the executor's successor came first, the executor still has to end: its restart stays until Spark
    has ended the executor or the JVM has given up, and another request is over.
    """
    under_way = {str(action.request.uuid) for action in queue.actions}
    failed = str(over.request.uuid) if over.phase is Phase.FAILED else None

    def is_to_end(request: str, executor: str) -> bool:
        return request in under_way or (executor in fleet.executors and request != failed)

    ongoing = fleet.ongoing.restarts
    restarts = {request: executor for request, executor in ongoing.items() if is_to_end(request, executor)}
    # The request itself may not be among `ongoing`: the JVM has given up, or its event has not come yet.
    begun = {*ongoing, *([str(over.request.uuid)] if before.phase is Phase.RESTARTING else [])}
    queue = replace(queue, ended_restarts=queue.ended_restarts | begun - restarts.keys())
    return queue, replace(fleet, ongoing=replace(fleet.ongoing, restarts=restarts))


def waited_for(queue: RequestQueue) -> frozenset[str]:
    """The processors whose executors end, or have ended, for a request that is not over. Such processors stay."""
    acting = [action.processors for action in queue.actions if action.phase is Phase.RESTARTING]
    to_resume = [  # requests that this agent has not taken up yet
        saved.processors
        for uuid, saved in queue.saved_progress.items()
        if saved.phase in LABELS and uuid not in queue.answered_requests
    ]
    return frozenset[str]().union(*acting, *to_resume)
