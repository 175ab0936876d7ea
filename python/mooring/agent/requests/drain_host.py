"""Emptying a host for an operator and opening it again: what is to hold, and when it does. Pure.

The plans that follow see to the rest: tasks leave a drained host in steps, warm, and nothing goes there.
"""

from __future__ import annotations

from dataclasses import replace

from mooring.agent.planning.binding import ask_for_regrouping
from mooring.agent.planning.copies import all_caught_up
from mooring.agent.planning.rows import fallbacks_in_use
from mooring.agent.planning.staged_moves import is_waiting_for_batches
from mooring.agent.requests.queue import Action
from mooring.agent.state.fleet import Fleet
from mooring.model.orders import Copies, Rows
from mooring.placement import HostAction
from mooring.placement.lifecycle import Happening

Outcome = tuple[Happening, str]


def turn(action: Action) -> Outcome:
    """What begins when its turn has come."""
    drains = action.request.host_action is HostAction.DRAIN
    return Happening.TURN_TO_DRAIN if drains else Happening.TURN_TO_OPEN, action.in_words


def controlled(fleet: Fleet, action: Action, now_ms: int) -> Fleet:
    """The fleet as the action wants it, to be planned anew."""
    host = {action.request.destination_host}
    drained = fleet.drained | host if action.request.host_action is HostAction.DRAIN else fleet.drained - host
    return fleet if drained == fleet.drained else ask_for_regrouping(replace(fleet, drained=drained), now_ms)


def outcome(
    action: Action, fleet: Fleet, version_in_force: int, rows: Rows, copies: Copies, is_late: bool
) -> Outcome | None:
    """What has come of it; None while something is left.

    `version_in_force` is the version of the job model that the JVM has, `rows` and `copies` what it was told. When it
    `is_late`, copies elsewhere that have not caught up are not waited for any more.
    """
    host = action.request.destination_host
    if action.request.host_action is HostAction.OPEN:
        return Happening.IN_FORCE, f"host {host} is open: tasks and copies come when the next plan gives it some"
    if host not in fleet.drained:
        return Happening.NOT_POSSIBLE_ANY_MORE, f"host {host} was opened again"
    is_in_force = not fleet.queries or version_in_force >= fleet.model.version
    if any(left_on(fleet, host)) or not is_in_force or fleet.settled_by_ms is not None:
        return None
    if is_waiting_for_batches(fleet, action.since_ms):
        return None
    here = {executor.id for executor in fleet.executors.values() if executor.location == host}
    held = {id for by in copies.values() for holders in by.values() for id in holders}
    if here & (held | set(fallbacks_in_use(fleet, rows).values())):
        return None
    sources = {move.source for move in fleet.moves.values() if move.is_switched}
    if here & sources:  # a processor that has just left it would come back if its move failed
        return None
    if not (is_late or all_caught_up(fleet)):
        return None
    return Happening.EMPTY, f"host {host} is empty, and stays so until mooring open-host {host}"


def left_on(fleet: Fleet, host: str) -> tuple[int, int]:
    """How many tasks and how many copies the job model has at a host."""
    held = [
        fleet.model.containers[id]
        for id, place in fleet.places.items()
        if place == host and id in fleet.model.containers
    ]
    actives = sum(len(container.actives) for container in held)
    return actives, sum(len(container.tasks) for container in held) - actives


def progress(fleet: Fleet, action: Action) -> str:
    """How far an action is, in words."""
    if not action.is_under_way:
        return action.phase.label
    tasks, copies = left_on(fleet, action.request.destination_host)
    place = "" if fleet.may_hold_copies else "; no other host lives, so they run on"
    return f"{action.phase.label}: {tasks} tasks and {copies} copies are left{place}"
