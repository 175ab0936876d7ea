"""Restarting a processor where it is: its executor ends, and the cluster manager starts another.

Pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mooring.agent.fleet import Fleet
from mooring.agent.moves import Patience, Seen
from mooring.agent.requests import Action, Desk
from mooring.placement import LAST_SEEN
from mooring.placement.lifecycle import Happening, Phase

MOST_WAIT_FOR_IDLE_MS: Final = 60_000
"""For how long the JVM waits for a moment at which no task runs on an executor that is to end."""

RESTART_MARGIN_MS: Final = 3_000
"""How long after the JVM has given up to end an executor that is believed."""


def is_to_restart(fleet: Fleet, action: Action) -> bool:
    """Whether it is done by a restart: the destination is the processor's place, or it has no tasks that could move."""
    here = fleet.processors[action.request.processor_id].location
    return not fleet.has_host_affinity or action.request.destination_host in (LAST_SEEN, here)


def most_idle_wait_ms(action: Action) -> int:
    """For how long the JVM looks for a moment at which it may end the executor."""
    expiry_ms = action.request.request_expiry_ms
    return MOST_WAIT_FOR_IDLE_MS if expiry_ms is None else min(MOST_WAIT_FOR_IDLE_MS, expiry_ms)


def restarted(fleet: Fleet, action: Action, patience: Patience, now_ms: int) -> Seen | None:
    """What has come of the restart: an executor that comes too late is of no use to who wanted it in time."""
    id = action.request.processor_id
    now = fleet.processors[id].executor
    wait = action.request.request_expiry_ms
    wait = patience.restart_ms if wait is None else wait
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


def without_ended_restarts(fleet: Fleet, desk: Desk, over: Action) -> Fleet:
    """With no executor that ended for a request that is over: the desk has those that are not.

    One that did not end works on. But where its successor came first it is to end still, until Spark has ended it or
    the JVM has given that up.
    """
    under_way = {str(action.request.uuid) for action in desk.actions}
    failed = str(over.request.uuid) if over.phase is Phase.FAILED else None

    def is_to_end(request: str, executor: str) -> bool:
        return request in under_way or (executor in fleet.executors and request != failed)

    return replace(fleet, restarts={request: one for request, one in fleet.restarts.items() if is_to_end(request, one)})


def waited_for(desk: Desk) -> frozenset[str]:
    """The processors of executors that end, or have ended, for a request that is not over: they are not given up."""
    acting = [action.beside for action in desk.actions if action.phase is Phase.RESTARTING]
    begun = [  # by an agent before this one
        begun.beside
        for uuid, begun in desk.begun.items()
        if begun.phase == Phase.RESTARTING.label and uuid not in desk.done_with
    ]
    return frozenset[str]().union(*acting, *begun)
