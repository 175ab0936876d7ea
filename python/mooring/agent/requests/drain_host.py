"""Emptying a host for an operator, and opening it again. Pure.

The request only marks the host as drained or open. The job models that follow move tasks away from a drained host, in
steps and warm, and place nothing there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from mooring.agent.planning.binding import ask_for_regrouping
from mooring.agent.planning.copies import all_copies, all_warm, transfer_allowance_ms
from mooring.agent.planning.moves_in_steps import is_waiting_for_batches
from mooring.agent.planning.rows import executors_in_use
from mooring.agent.requests.action import Action
from mooring.agent.requests.phase import Change, Outcome, PhaseHandler, View
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.state.fleet import Fleet
from mooring.model import natural_order
from mooring.placement import HostAction
from mooring.placement.lifecycle import Happening


def beginning(action: Action) -> Outcome:
    """With what the request begins: the host is emptied or opened."""
    drains = action.request.host_action is HostAction.DRAIN
    return Outcome(Happening.TURN_TO_DRAIN if drains else Happening.TURN_TO_OPEN, action.in_words)


def _mark_host(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    """Mark the host as drained or open, and ask for a regrouping where that changes anything."""
    host = {action.request.destination_host}
    before = fleet.overrides.drained
    drained = before | host if action.request.host_action is HostAction.DRAIN else before - host
    if drained != before:
        fleet = replace(fleet, overrides=replace(fleet.overrides, drained=drained))
        if drained > before:
            fleet = _with_replacements(fleet, action.request.destination_host)
        fleet = ask_for_regrouping(fleet, action.since_ms)
    return Change(fleet, action)


def _with_replacements(fleet: Fleet, host: str) -> Fleet:
    """With one spare processor at work for each processor at the host: from now on it gets tasks as any other.

    Its executor must have no other work, and no request may be about to use or end it. Executors with more copies come
    first.
    """
    moves = fleet.ongoing.moves.values()
    taken = {
        *(processor.executor for processor in fleet.processors.values() if not processor.is_spare),
        *(executor for move in moves for executor in (move.source, move.destination)),
        *fleet.ongoing.restarts.values(),
        *fleet.withheld,
    }
    copies = Counter(executor for _, _, executor in fleet.copies)
    free = [
        (-copies[processor.executor], natural_order(processor.id), processor)
        for processor in fleet.processors.values()
        if processor.executor and fleet.is_empty_spare(processor.id)
        if processor.executor not in taken and processor.location not in fleet.overrides.drained
    ]
    leaving = sum(bool(p.executor) and p.location == host and not p.is_spare for p in fleet.processors.values())
    for _, _, processor in sorted(free, key=lambda found: found[:2])[:leaving]:
        fleet = fleet.with_processor(replace(processor, is_spare=False))
    return fleet


def _opened(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome:
    host = action.request.destination_host
    return Outcome(Happening.IN_FORCE, f"host {host} is open: tasks and copies come when the next plan gives it some")


def _emptied(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    """Whether the host is empty, in the job model and in what the JVM has."""
    host = action.request.destination_host
    if host not in fleet.overrides.drained:
        return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, f"host {host} was opened again")
    is_in_force = not fleet.queries or view.version_in_force >= fleet.model.version
    if any(left_on(fleet, host)) or not is_in_force or fleet.timers.new_batches_ignored_after_ms is not None:
        return None
    if is_waiting_for_batches(fleet, action.since_ms) or _is_in_use(fleet, host, view):
        return None
    if not (all_warm(fleet) or _has_waited_for_copies(fleet, action, view)):
        return None
    return Outcome(Happening.EMPTY, f"host {host} is empty, and stays so until mooring open-host {host}")


def _is_in_use(fleet: Fleet, host: str, view: View) -> bool:
    """Whether the JVM has tasks or copies there, or a processor that has just left would come back."""
    here = {executor.id for executor in fleet.executors.values() if executor.location == host}
    copies = {id for by_partition in view.copies.values() for holders in by_partition.values() for id in holders}
    tasks = set(executors_in_use(fleet, view.rows).values())
    sources = {move.source for move in fleet.ongoing.moves.values() if move.is_switched}
    return bool(here & (copies | tasks | sources))


def _has_waited_for_copies(fleet: Fleet, action: Action, view: View) -> bool:
    """Whether copies elsewhere that are not warm are no longer waited for."""
    return view.now_ms >= action.since_ms + view.timeouts.warm_up_ms + transfer_allowance_ms(fleet, all_copies(fleet))


EMPTYING: Final = PhaseHandler(_emptied, enter=_mark_host)
OPENING: Final = PhaseHandler(_opened, enter=_mark_host)


def left_on(fleet: Fleet, host: str) -> tuple[int, int]:
    """How many tasks and how many copies the job model has at a host."""
    held = [
        fleet.model.containers[id]
        for id, location in fleet.locations.items()
        if location == host and id in fleet.model.containers
    ]
    actives = sum(len(container.actives) for container in held)
    return actives, sum(len(container.tasks) for container in held) - actives


def progress(fleet: Fleet, action: Action) -> str:
    """How far an action is, in words."""
    if not action.is_under_way:
        return action.phase.label
    tasks, copies = left_on(fleet, action.request.destination_host)
    rest = "" if fleet.may_hold_copies else "; no other host lives, so they run on"
    return f"{action.phase.label}: {tasks} tasks and {copies} copies are left{rest}"
