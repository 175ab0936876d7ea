"""Why a request of an operator can not be done, in words for the operator. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from mooring.agent.messages.listing import listed
from mooring.agent.planning.copies import copies_of_standby
from mooring.agent.state.fleet import Fleet
from mooring.model import natural_order
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, ContainerPlacementRequestMessage, HostAction

_NAMED = 20  # processors or hosts in a message
_HOST = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9._:/%\[\]-]+")
_NO_PLACES = "spark.mooring.host.affinity.enabled is false"
_NO_COPIES = "spark.mooring.standby.replication.factor is 1"


def refusal(fleet: Fleet, request: ContainerPlacementRequestMessage) -> str | None:
    """Why the request can not be done now; None when it can."""
    lasting = lasting_refusal(fleet, request)
    if lasting is not None or request.standby is not None:
        return lasting
    id = request.processor_id
    if request.host_action is not None:
        return _refused_host(fleet, request.destination_host, request.host_action)
    if _is_standby(fleet, id):
        return _refused_standby(fleet, id, request.destination_host)
    return _refused_destination(fleet, id, request.destination_host)


def lasting_refusal(fleet: Fleet, request: ContainerPlacementRequestMessage) -> str | None:
    """Why the request can never be done, whatever the requests before it change; None when it can, now or later."""
    id, destination = request.processor_id, request.destination_host
    is_known = request.host_action is not None or fleet.base_of(id) in fleet.processors
    if not is_known or (request.standby is not None and _is_standby(fleet, id)):
        return _unknown_processor(fleet, id)
    if not fleet.settings.has_host_affinity and (request.standby or request.host_action or destination != ANY_HOST):
        return f"{_NO_PLACES}: expected a processor and {ANY_HOST}, as no task has a place of its own"
    if request.host_action is not None:
        return _unknown_host(fleet, destination)
    if request.standby is not None:
        return None if fleet.settings.replication_factor > 1 else f"{_NO_COPIES}: no processor has standbys"
    is_standby, has_copies = _is_standby(fleet, id), fleet.settings.replication_factor > 1
    words = [ANY_HOST, *([STANDBY] if has_copies and not is_standby else []), LAST_SEEN]
    word = destination if destination in _known_hosts(fleet) else destination.upper()
    if word == STANDBY and is_standby:
        return f"{id} is a standby and has none: expected {_a_host_or(words)}"
    if word == STANDBY and not has_copies:
        return f"processor {id} has no standby: {_NO_COPIES}"
    is_misspelt = word in words and word != destination
    if is_misspelt or not _HOST.fullmatch(destination):
        return _no_host(fleet, destination, words)
    return None


def _known_hosts(fleet: Fleet) -> set[str]:
    return (
        {executor.location for executor in fleet.executors.values()}
        | set(fleet.locations.values())
        | fleet.overrides.drained
    )


def copies_by_location(fleet: Fleet, processor_id: str) -> dict[str, list[str]]:
    """Location to the tasks of the processor that have a copy there, in natural order."""
    container = fleet.model.containers.get(processor_id)
    actives = container.actives if container else {}
    found: dict[str, list[str]] = {}
    for id, holder in fleet.model.containers.items():
        if id in fleet.processors:
            for task in holder.tasks.values():
                if task.standby_of in actives:
                    found.setdefault(fleet.processors[id].location, []).append(task.standby_of)
    return {location: sorted(tasks, key=natural_order) for location, tasks in found.items()}


def replicas_by_location(fleet: Fleet, standby: str, others: bool = False) -> dict[str, list[str]]:
    """Location to the tasks whose copies are there, for the copies of one standby of a processor, such as 4-0.

    With `others`, for the copies of all other standbys of that processor.
    """
    known = fleet.standby_ids()
    mine = known[standby]
    ids = [standby] if not others else [name for name, of in known.items() if of[0] == mine[0] and of != mine]
    found: dict[str, list[str]] = {}
    for name in ids:
        for task, holder in copies_of_standby(fleet, name).items():
            found.setdefault(fleet.locations[holder], []).append(task)
    return {location: sorted(tasks, key=natural_order) for location, tasks in found.items()}


def _refused_standby(fleet: Fleet, standby: str, destination: str) -> str | None:
    id, _ = fleet.standby_ids()[standby]
    if id in fleet.overrides.stopped_standbys:
        start = f"mooring control-standby --processor-id {id} start"
        return f"the standbys of processor {id} are stopped: expected {start} first"
    if fleet.processors[id].executor is None:
        return f"processor {id} has no executor: its tasks run where their copies are"
    if destination in (ANY_HOST, LAST_SEEN):
        return None
    if destination in fleet.overrides.drained:
        expected = f"a host that is open, or mooring open-host {destination} first"
        return f"host {destination} is drained: expected {expected}{_nearest_open(fleet, destination)}"
    if destination == fleet.processors[id].location:
        return f"processor {id} itself is at {destination}: no two copies of a task at one location"
    others = replicas_by_location(fleet, standby, others=True)
    if destination in others:
        return f"another copy of {others[destination][0]} is at {destination}: no two copies of a task at one location"
    return _refused_zone(fleet, id, [fleet.processors[id].location, *others], destination)


def _refused_zone(fleet: Fleet, id: str, taken: list[str], destination: str) -> str | None:
    """Why no copy of the processor's tasks may go to the destination's zone, while another zone has no copy."""
    zones = {executor.location: executor.zone for executor in fleet.executors.values()}
    of_others = {zones.get(location, "") for location in taken}
    free = {zones.get(fleet.locations[holder], "") for holder in fleet.may_hold_copies} - of_others
    if not any(zones.values()) or zones.get(destination, "") not in of_others or not free:
        return None
    zone = zones.get(destination) or "without a name"
    return (
        f"{destination} is in zone {zone}, as another copy of the tasks of processor {id} is: expected a host of zone"
        f" {min(free) or 'without a name'}, as copies are in as many zones as there are"
    )


def _refused_destination(fleet: Fleet, processor_id: str, destination: str) -> str | None:
    if destination == ANY_HOST:
        return None
    where = fleet.processors[processor_id].location if destination == LAST_SEEN else destination
    if where in fleet.overrides.drained:
        expected = f"a host that is open, or mooring open-host {where} first"
        return f"host {where} is drained: expected {expected}{_nearest_open(fleet, where)}"
    if destination == LAST_SEEN:
        return refused_restart(fleet)
    copies = copies_by_location(fleet, processor_id)
    if destination == STANDBY:
        if copies.keys() - fleet.overrides.drained or not all(query.is_released for query in fleet.queries.values()):
            return None
        where = " at a host that is open" if copies else ""
        return f"processor {processor_id} has no standby: no task of it has a copy{where}"
    if destination in copies:
        return (
            f"the standby of {copies[destination][0]} is at {destination}: no two copies of a task at one location;"
            f" give --destination-host {STANDBY} to move it to a host with copies"
        )
    return None


def refused_restart(fleet: Fleet) -> str | None:
    """Why no executor can be restarted on its host; None where it can. Without host affinity any host will do."""
    if fleet.application.restarts_in_place or not fleet.settings.has_host_affinity:
        return None
    words = [ANY_HOST, *([STANDBY] if fleet.settings.replication_factor > 1 else []), "another host"]
    manager = "YARN" if fleet.application.master.startswith("yarn") else "Kubernetes"
    return f"{manager} starts the successor of an executor on any host: expected {', '.join(words[:-1])} or {words[-1]}"


def _unknown_host(fleet: Fleet, host: str) -> str | None:
    known = _known_hosts(fleet)
    if host in known:
        return None
    names = sorted(known - {""}, key=natural_order)
    near = get_close_matches(host, names, n=1, cutoff=0)
    expected = f"one of {listed(names, _NAMED)}" if names else "one that is there, and there is none yet"
    return f"there is no host {host}: expected {expected}{f'; nearest: {near[0]}' if near else ''}"


def _refused_host(fleet: Fleet, host: str, action: HostAction) -> str | None:
    others = {executor.location for executor in fleet.executors.values()} - fleet.overrides.drained - {host}
    if action is HostAction.DRAIN and not others:
        hint = ", ".join(
            f"mooring open-host {name}" for name in sorted(fleet.overrides.drained - {host}, key=natural_order)
        )
        first = f"{hint} first" if hint else "another host first"
        return f"host {host} is the last one that is open and lives: its state has no place to go; expected {first}"
    return None


def _is_standby(fleet: Fleet, id: str) -> bool:
    return fleet.base_of(id) != id


def _no_host(fleet: Fleet, destination: str, words: Sequence[str]) -> str:
    """Why the destination is no host; `words` are the words that a request may have in place of a host."""
    known = sorted(set(fleet.locations.values()), key=natural_order)
    meant = [word for word in words if word == destination.upper()]
    near = meant or get_close_matches(destination, known, n=1, cutoff=0) or [ANY_HOST]
    return f"destinationHost is {destination!r}: expected {_a_host_or(words)}; nearest: {near[0]}"


def _a_host_or(words: Sequence[str]) -> str:
    return f"a host, {', '.join(words[:-1])} or {words[-1]}"


def _nearest_open(fleet: Fleet, host: str) -> str:
    open = {executor.location for executor in fleet.executors.values()} - fleet.overrides.drained
    near = get_close_matches(host, sorted(open, key=natural_order), n=1, cutoff=0)
    return f"; nearest: {near[0]}" if near else ""


def _unknown_processor(fleet: Fleet, id: str) -> str:
    known = sorted(fleet.processors, key=natural_order)
    of_standby = [fleet.base_of(id)] if _is_standby(fleet, id) else []
    near = of_standby or get_close_matches(id, known, n=1)
    hint = f"; nearest: {near[0]}" if near else ""
    expected = f"one of {listed(known, _NAMED)}" if known else "one that is there, and there is none yet"
    return f"there is no processor {id}: expected {expected}{hint}"
