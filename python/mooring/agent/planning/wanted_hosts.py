"""The hosts on which this application wants executors, and those that it got instead. Pure."""

from __future__ import annotations

from typing import Final

from mooring.agent.state.fleet import Fleet, Processor
from mooring.agent.state.fleet_parts import Allocation
from mooring.allocation import Carrier, given_elsewhere, hosts_wanted
from mooring.model import natural_order

_REASON_ON_YARN: Final = (
    "If those hosts had room, the scheduler gave them up early: yarn.scheduler.capacity.node-locality-delay and"
    " .rack-locality-additional-delay say when"
)
_REASON_IN_PODS: Final = (
    "A node is preferred, not required: a pod comes elsewhere where the node is full, cordoned or gone"
)


def wanted_hosts(fleet: Fleet) -> tuple[str, ...]:
    """One host for each executor that carries processors: first as many as the application asks for, then the others.

    Each part is sorted, so that the hosts change only when other ones are wanted. Hosts that are drained are left out.
    A processor that waits for an executor wants it at its own location.
    """
    found, most = hosts_wanted(_carriers(fleet), avoided_hosts(fleet)), fleet.allocation.executors
    return (*sorted(found[:most], key=natural_order), *sorted(found[most:], key=natural_order))


def avoided_hosts(fleet: Fleet) -> tuple[str, ...]:
    """The drained hosts. On Kubernetes a location without a node is left out."""
    known = {location: fleet.host_of(location) for location in fleet.overrides.drained}
    if not fleet.application.runs_in_pods:
        known = {location: host or location for location, host in known.items()}
    return tuple(sorted({host for host in known.values() if host}, key=natural_order))


def nodes_of_executors(fleet: Fleet) -> dict[str, str]:
    """On Kubernetes, each living executor to its node, where the node is known; empty elsewhere."""
    if not fleet.application.runs_in_pods:
        return {}
    nodes = {executor.id: fleet.host_of(executor.location) for executor in fleet.executors.values()}
    return {executor: node for executor, node in nodes.items() if node is not None}


def _carriers(fleet: Fleet) -> list[Carrier]:
    """One for each executor, or for each processor that has never had one here. A host that is not known has none."""
    shared: dict[str, list[Processor]] = {}
    for processor in fleet.processors.values():
        shared.setdefault(processor.last_executor or f"processor {processor.id}", []).append(processor)
    return [
        Carrier(
            host,
            is_alive=any(processor.executor for processor in processors),
            is_spare=all(processor.is_spare for processor in processors),
            tasks=sum(fleet.active_count(processor.id) for processor in processors),
        )
        for processors in shared.values()
        if (host := fleet.host_of(processors[0].location)) is not None
    ]


def describe_allocation(before: Fleet, fleet: Fleet) -> list[str]:
    """The log line for executors that came on other hosts than asked for, once all of the start are there."""
    if fleet.allocation.hosts_given is before.allocation.hosts_given:
        return []
    in_vain, instead = elsewhere(fleet.allocation)
    if not in_vain:
        return []
    return [
        f"the cluster manager gave {len(in_vain)} of {len(fleet.allocation.hosts_asked)} executors on other hosts than"
        f" asked for: on {_named(instead)}, not on {_named(in_vain)}; their state is fetched."
        f" {_REASON_IN_PODS if fleet.application.runs_in_pods else _REASON_ON_YARN}"
    ]


def elsewhere(allocation: Allocation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts that the application asked for at its start and did not get, and those that it got instead."""
    if not allocation.hosts_asked or allocation.hosts_given is None:
        return (), ()
    return given_elsewhere(allocation.hosts_asked, allocation.hosts_given)


def _named(hosts: tuple[str, ...]) -> str:
    return ", ".join(hosts)
