"""Restarting a processor where it is: its executor ends, and the cluster manager starts another.

Pure. Tasks that have copies run where these are meanwhile. So the executor works on until they are warm, as after the
restart of another one that had taken its tasks over; where they do not get warm in time it ends all the same.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from mooring.agent.planning.copies import MOST_LAG_VERSIONS, all_copies, is_warm_at, transfer_allowance_ms, trouble_at
from mooring.agent.requests.move import TROUBLE_MS, RequestTimeouts, Seen, tasks_of
from mooring.agent.requests.queue import Action, RequestQueue
from mooring.agent.requests.validation import refusal
from mooring.agent.state.fleet import Fleet, Processor
from mooring.model import natural_order
from mooring.placement import LAST_SEEN
from mooring.placement.lifecycle import Happening, Phase
from mooring.records.operator_overrides import Begun

LABELS: Final = (Phase.AWAITING_COPIES.label, Phase.RESTARTING.label)

MOST_WAIT_FOR_IDLE_MS: Final = 60_000
"""For how long the JVM waits for a moment at which no task runs on an executor that is to end."""

RESTART_MARGIN_MS: Final = 3_000
"""How long after the JVM has given up to end an executor that is believed."""


def is_to_restart(fleet: Fleet, action: Action) -> bool:
    """Whether it is done by a restart: the destination is the processor's place, or it has no tasks that could move."""
    here = fleet.processors[action.request.processor_id].location
    return not fleet.has_host_affinity or action.request.destination_host in (LAST_SEEN, here)


def had_ended_nothing(begun: Begun | None) -> bool:
    """Whether an agent before this one only waited for copies: then it is as if it had not begun."""
    return begun is not None and begun.phase == Phase.AWAITING_COPIES.label


def turn(queue: RequestQueue, fleet: Fleet, processor: Processor, source: str, has_begun: bool) -> Seen:
    """What begins when the source may be ended: that, unless it `has_begun`, or waiting for copies."""
    if source not in fleet.executors:
        return Happening.TURN_TO_RESTART, _gone(processor), source
    cold = uncovered_tasks(queue, fleet, source)
    if cold and not has_begun and fleet.timing.rebind_timeout_ms:
        what = f"executor {source} ends when its tasks have warm copies: {len(cold)} have none, as {cold[0]}"
        return Happening.TURN_TO_AWAIT_COPIES, what, source
    return Happening.TURN_TO_RESTART, f"executor {source} ends when no task runs on it", source


def covered(queue: RequestQueue, fleet: Fleet, action: Action, now_ms: int) -> Seen | None:
    """What has come of waiting for copies: for no longer than if all of them came to one executor."""
    id, source = action.request.processor_id, action.source
    if fleet.processors[id].executor != source:
        return Happening.SOURCE_LOST, _gone(fleet.processors[id]), source
    refused = refusal(fleet, action.request)
    if refused is not None:
        return Happening.NOT_POSSIBLE_ANY_MORE, refused, ""
    cold = uncovered_tasks(queue, fleet, source)
    if not cold and all(query.is_released for query in fleet.queries.values()):
        return Happening.COVERED, f"executor {source} ends when no task runs on it", source
    coming = [(task, source) for task in {*_tasks_on(fleet, source), *cold}]
    wait_ms = fleet.timing.rebind_timeout_ms + transfer_allowance_ms(fleet, coming)
    if now_ms >= action.since_ms + wait_ms:
        late = f"{len(cold)} tasks have no warm copy after {wait_ms} ms" + (f", as {cold[0]}" if cold else "")
        return Happening.EXPIRED, f"{late}: executor {source} ends when no task runs on it", source
    return None


def _gone(processor: Processor) -> str:
    return f"its executor is gone: another one is waited for at {processor.location}"


def uncovered_tasks(queue: RequestQueue, fleet: Fleet, source: str) -> list[str]:
    """The tasks that would run where no warm copy of them is if that executor ended as well, in natural order.

    Those on it, but for those that have no copy and will get none, or whose copies can not be made; and those on the
    executors that end already whose last warm copy it has.
    """
    if fleet.replication_factor == 1:
        return []
    ends = {action.source for action in queue.actions if action.phase is Phase.RESTARTING}
    ends = {*ends, *fleet.restarts.values()} - {source}
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
        if carrier in is_in_danger and id not in fleet.stopped_standbys
        for name, query, partition in tasks_of(fleet, id)
        if fleet.queries[query].can_be_copied and is_in_danger[carrier](query, partition, holders.get(name, []))
    ]
    return sorted(found, key=natural_order)


def _is_cold(fleet: Fleet, ends: set[str], query: str, partition: int, holders: list[str]) -> bool:
    """Of a task on the executor that is to end."""
    if not holders:
        return fleet.regroup_at_ms is not None or fleet.is_incomplete  # the next plan may have some
    end, stay = [h for h in holders if h in ends], [h for h in holders if h not in ends]
    if is_warm_at(fleet, query, partition, stay, MOST_LAG_VERSIONS):
        return False
    is_in_vain = stay and all(trouble_at(fleet, query, partition, [holder], TROUBLE_MS) for holder in stay)
    return not is_in_vain or is_warm_at(fleet, query, partition, end, MOST_LAG_VERSIONS)


def _is_last(fleet: Fleet, ends: set[str], source: str, query: str, partition: int, holders: list[str]) -> bool:
    """Of a task on another one that ends: whether its warm copy is on the source, and no other one is left."""
    stay = [holder for holder in holders if holder not in ends and holder != source]
    is_here = source in holders and is_warm_at(fleet, query, partition, [source], MOST_LAG_VERSIONS)
    return is_here and not is_warm_at(fleet, query, partition, stay, MOST_LAG_VERSIONS)


def progress(queue: RequestQueue, fleet: Fleet, action: Action) -> str:
    """How far an action is, in words."""
    if action.phase is not Phase.AWAITING_COPIES:
        return action.phase.label
    cold = set(uncovered_tasks(queue, fleet, action.source))
    all_of_them = cold | _tasks_on(fleet, action.source)
    return f"{action.phase.label}: {len(all_of_them - cold)} of {len(all_of_them)} tasks have a warm one"


def _tasks_on(fleet: Fleet, executor: str) -> set[str]:
    return {name for id, at in fleet.executor_of.items() if at == executor for name, *_ in tasks_of(fleet, id)}


def most_idle_wait_ms(action: Action) -> int:
    """For how long the JVM looks for a moment at which it may end the executor."""
    expiry_ms = action.request.request_expiry_ms
    return MOST_WAIT_FOR_IDLE_MS if expiry_ms is None else min(MOST_WAIT_FOR_IDLE_MS, expiry_ms)


def restarted(fleet: Fleet, action: Action, timeouts: RequestTimeouts, now_ms: int) -> Seen | None:
    """What has come of the restart: an executor that comes too late is of no use to who wanted it in time."""
    id = action.request.processor_id
    now = fleet.processors[id].executor
    wait = action.request.request_expiry_ms
    wait = timeouts.restart_ms if wait is None else wait
    if now is not None and now != action.source:
        where = f"processor {id} is on executor {now} at {fleet.processors[id].location}"
        if now_ms > action.since_ms + wait:
            return Happening.EXPIRED, f"{where}, but was not within {wait} ms", ""
        return Happening.CAME_BACK, where, now
    if now is not None and action.is_given_up:
        tried_ms = most_idle_wait_ms(action)
        return Happening.EXPIRED, f"executor {now} could not be ended within {tried_ms} ms: it runs on", ""
    if now_ms < action.since_ms + wait + (0 if now is None else RESTART_MARGIN_MS):
        return None
    if now is not None:
        return Happening.EXPIRED, f"executor {now} did not end within {wait} ms: it runs on", ""
    return Happening.EXPIRED, f"no executor has come for processor {id} within {wait} ms; its tasks run elsewhere", ""


def without_ended_restarts(fleet: Fleet, queue: RequestQueue, over: Action) -> Fleet:
    """With no executor that ended for a request that is over: the queue has those that are not.

    One that did not end works on. But where its successor came first it is to end still, until Spark has ended it or
    the JVM has given that up.
    """
    under_way = {str(action.request.uuid) for action in queue.actions}
    failed = str(over.request.uuid) if over.phase is Phase.FAILED else None

    def is_to_end(request: str, executor: str) -> bool:
        return request in under_way or (executor in fleet.executors and request != failed)

    return replace(fleet, restarts={request: one for request, one in fleet.restarts.items() if is_to_end(request, one)})


def waited_for(queue: RequestQueue) -> frozenset[str]:
    """The processors of executors that end, or have ended, for a request that is not over: they are not given up."""
    acting = [action.beside for action in queue.actions if action.phase is Phase.RESTARTING]
    begun = [  # by an agent before this one
        begun.beside
        for uuid, begun in queue.resumed.items()
        if begun.phase in LABELS and uuid not in queue.answered_requests
    ]
    return frozenset[str]().union(*acting, *begun)
