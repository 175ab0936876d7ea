"""The hosts on which this application wants executors, and those that it got instead. Pure."""

from __future__ import annotations

from mooring.agent.state.fleet import Fleet, Processor
from mooring.allocation import Carrier, given_elsewhere, hosts_wanted


def wanted_hosts(fleet: Fleet) -> tuple[str, ...]:
    """One host for each executor that carries processors, the most important first.

    Hosts that are drained are left out. A processor that waits for an executor wants it at its own location.
    """
    closed = {fleet.host_of(location) or location for location in fleet.overrides.drained}
    return hosts_wanted(_carriers(fleet), closed)


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
            tasks=sum(_task_count(fleet, processor) for processor in processors),
        )
        for processors in shared.values()
        if (host := fleet.host_of(processors[0].location)) is not None
    ]


def _task_count(fleet: Fleet, processor: Processor) -> int:
    container = fleet.model.containers.get(processor.id)
    return len(container.actives) if container else 0


def describe_allocation(before: Fleet, fleet: Fleet) -> list[str]:
    """The log line for executors that came on other hosts than asked for, once as many are there as were asked for."""
    if not _is_complete(fleet) or _is_complete(before) or not fleet.allocation.hosts_asked:
        return []
    in_vain, instead = elsewhere(fleet)
    if not in_vain:
        return []
    return [
        f"the cluster manager gave {len(in_vain)} of {len(fleet.allocation.hosts_asked)} executors on other hosts than"
        f" asked for: on {_named(instead)}, not on {_named(in_vain)}; their state is fetched"
    ]


def elsewhere(fleet: Fleet) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts that the application asked for at its start and did not get, and those that it got instead."""
    given = [executor.host or executor.location for executor in fleet.executors.values()]
    return given_elsewhere(fleet.allocation.hosts_asked, given)


def _is_complete(fleet: Fleet) -> bool:
    return 0 < fleet.allocation.executors <= len(fleet.executors)


def _named(hosts: tuple[str, ...]) -> str:
    return ", ".join(hosts)
