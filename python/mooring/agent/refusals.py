"""Why a request of an operator can not be done, in words for the operator. Pure."""

from __future__ import annotations

import re
from difflib import get_close_matches

from mooring.agent.fleet import Fleet
from mooring.model import natural_order
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, ContainerPlacementRequestMessage

_NAMED = 20  # processors in a message
_HOST = re.compile(r"[A-Za-z0-9._:/%\[\]-]+")


def refusal(fleet: Fleet, request: ContainerPlacementRequestMessage) -> str | None:
    """Why it can not be done now; None when it can."""
    if request.processor_id not in fleet.processors:
        return _unknown_processor(fleet, request.processor_id)
    if request.standby is not None:
        if fleet.replication_factor == 1:
            return "spark.mooring.standby.replication.factor is 1: no processor has standbys"
        return None
    return _refused_destination(fleet, request.processor_id, request.destination_host)


def places_of_copies(fleet: Fleet, processor_id: str) -> dict[str, list[str]]:
    """Location to the tasks of the processor that have a copy there, in natural order."""
    container = fleet.model.containers.get(processor_id)
    actives = container.actives if container else {}
    found: dict[str, list[str]] = {}
    for id, holder in fleet.model.containers.items():
        if id in fleet.processors:
            for task in holder.tasks.values():
                if task.standby_of in actives:
                    found.setdefault(fleet.processors[id].location, []).append(task.standby_of)
    return {place: sorted(tasks, key=natural_order) for place, tasks in found.items()}


def _refused_destination(fleet: Fleet, processor_id: str, destination: str) -> str | None:
    if destination in (ANY_HOST, LAST_SEEN):
        return None
    copies = places_of_copies(fleet, processor_id)
    if destination == STANDBY:
        if copies or not all(query.is_released for query in fleet.queries.values()):
            return None
        return f"processor {processor_id} has no standby: no task of it has a copy"
    if not _HOST.fullmatch(destination):
        known = sorted(set(fleet.places.values()), key=natural_order)
        near = get_close_matches(destination, known, n=1, cutoff=0)
        expected = f"a host, {ANY_HOST}, {STANDBY} or {LAST_SEEN}"
        return f"destinationHost is {destination!r}: expected {expected}; nearest: {near[0] if near else ANY_HOST}"
    if destination in copies:
        return (
            f"the standby of {copies[destination][0]} is at {destination}: no two copies of a task at one location;"
            f" {STANDBY} takes over where copies are"
        )
    return None


def _unknown_processor(fleet: Fleet, id: str) -> str:
    known = sorted(fleet.processors, key=natural_order)
    near = get_close_matches(id, known, n=1)
    hint = f"; nearest: {near[0]}" if near else ""
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    expected = f"one of {', '.join(known[:_NAMED])}{more}" if known else "one that is there, and there is none yet"
    return f"there is no processor {id}: expected {expected}{hint}"
