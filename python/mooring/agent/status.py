"""What `mooring status` shows, put together from the fleet and from what executors counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.agent.barrier import Gate
from mooring.agent.fleet import Fleet, Processor
from mooring.model import events, natural_order

_NO_GATE = Gate()


@dataclass
class Tally:
    """Counts since this agent started.

    `restores` are state stores brought up from files; local when nothing but changelogs came from the checkpoint.
    """

    batches: Counter[str] = field(default_factory=Counter)
    planned: int = 0
    as_planned: int = 0
    moves: int = 0
    restores: Counter[str] = field(default_factory=Counter)

    def take(self, event: events.Event) -> None:
        """Count what an event says."""
        match event:
            case events.BatchEnded():
                self.batches[event.query] += 1
                self.planned += event.planned
                self.as_planned += event.as_planned
            case events.StoreOpened():
                self.restores["local-opens" if event.remote_files == 0 else "remote-opens"] += 1
                self.restores["restore-bytes-local"] += event.local_bytes
                self.restores["restore-bytes-remote"] += event.remote_bytes
                self.restores["remote-changelogs"] += event.remote_changelogs
                self.restores["restore-ms"] += event.milliseconds

    def counters(self) -> dict[str, int]:
        """All counts by the names of the metrics."""
        names = (
            "local-opens",
            "remote-opens",
            "restore-bytes-local",
            "restore-bytes-remote",
            "remote-changelogs",
            "restore-ms",
        )
        return {
            "batches": sum(self.batches.values()),
            "preferred-host-requests": self.planned,
            "placed-as-planned": self.as_planned,
            "moves": self.moves,
            **{name: self.restores[name] for name in names},
        }


def status_of(fleet: Fleet, tally: Tally, at_ms: int, gate: Gate = _NO_GATE) -> dict[str, Any]:
    """The status as JSON, in the form of the command line's contract; every list in natural order."""
    processors = sorted(fleet.processors.values(), key=lambda processor: natural_order(processor.id))
    sizes = _sizes(fleet)
    return {
        "application": fleet.application,
        "leader": fleet.application,
        "version": fleet.model.version,
        "at": at_ms,
        **_barrier(fleet, gate),
        "hosts": _hosts(fleet),
        "processors": [_processor(fleet, processor) for processor in processors],
        "queries": [
            {
                "name": query.label,
                "id": query.id,
                "run-id": query.run,
                "checkpoint": query.checkpoint,
                "batch": query.batch,
                "state": "running",
            }
            for query in sorted(fleet.queries.values(), key=lambda query: natural_order(query.label))
        ],
        "tasks": [row for processor in processors for row in _tasks(fleet, processor, sizes)],
        "counters": tally.counters(),
    }


def _barrier(fleet: Fleet, gate: Gate) -> Mapping[str, Any]:
    """How the newest version stands, and for which executors it waits."""
    barrier = gate.barrier
    if barrier is None:
        return {}
    waits = barrier.awaits(gate.known, fleet.executors) if gate.is_new else frozenset()
    waiting = sorted(waits, key=natural_order)
    return {"barrier": {"version": barrier.version, "state": barrier.state.value, "waiting-for": waiting}}


def _hosts(fleet: Fleet) -> list[Mapping[str, Any]]:
    """Locations with their executors, and with their zone where that is known."""
    hosts: dict[str, list[str]] = {}
    zones: dict[str, str] = {}
    for executor in fleet.executors.values():
        hosts.setdefault(executor.location, []).append(executor.id)
        if executor.zone:
            zones[executor.location] = executor.zone
    return [
        {
            "location": location,
            "executors": sorted(hosts[location], key=natural_order),
            **({"zone": zones[location]} if location in zones else {}),
        }
        for location in sorted(hosts, key=natural_order)
    ]


def _processor(fleet: Fleet, processor: Processor) -> Mapping[str, Any]:
    return {
        "id": processor.id,
        "executor": processor.executor,
        "location": processor.location,
        "state": "bound" if processor.executor else ("awaited" if processor.is_awaited else "unbound"),
        "tasks": _names(fleet, processor),
        "standby-tasks": [],
    }


def _sizes(fleet: Fleet) -> dict[str, int]:
    """Task name to bytes: as measured, else an even share of what the query's last batch counted."""
    shares = {
        str(query.task_name(partition)): query.state_bytes // query.task_count
        for query in fleet.queries.values()
        for partition in range(query.task_count)
    }
    return {**shares, **fleet.state_bytes()}


def _tasks(fleet: Fleet, processor: Processor, sizes: Mapping[str, int]) -> list[Mapping[str, Any]]:
    return [
        {
            "name": name,
            "mode": "Active",
            "processor": processor.id,
            "changed": name in fleet.changed_tasks,
            "location": fleet.task_locality.get(name, processor.location),
            "local-bytes": sizes.get(name),
            "lag-versions": 0,
            "estimated-recovery-seconds": None,
        }
        for name in _names(fleet, processor)
    ]


def _names(fleet: Fleet, processor: Processor) -> list[str]:
    container = fleet.model.containers.get(processor.id)
    return sorted(container.actives, key=natural_order) if container else []
