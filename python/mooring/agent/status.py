"""What `mooring status` shows, put together from the fleet and from what executors counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.agent.drains.drainage import Drainage
from mooring.agent.planning.copies import standbys_of
from mooring.agent.requests import drain_host, move, restart
from mooring.agent.requests.action import Action
from mooring.agent.requests.drain_host import left_on
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.state.barrier import PlanBarrier
from mooring.agent.state.fleet import Fleet, Processor, Query, SeenCopy, task_of_store
from mooring.model import TaskModel, events, natural_order
from mooring.placement import ContainerPlacementRequestMessage

_ENDED_KEPT = 100

_NO_BARRIER, _NO_QUEUE, _NO_DRAINS = PlanBarrier(), RequestQueue(), Drainage()

Standbys = Mapping[str, Mapping[TaskModel, SeenCopy | None]]
"""Processor id to its standbys, and what was seen of them."""


@dataclass
class Counters:
    """Counts since this agent started.

    `restores` are state stores brought up from files; local when nothing but changelogs came from the checkpoint.
    `milliseconds` is how long the local ones took in all, and those that fetched bytes. `fetches` is the last word of
    each executor (the second of the key) on what it fetches for a query that starts. `opened_in` maps checkpoint and
    partition to how long the last opening of each of its stores took, in milliseconds. `ended` are queries that have
    ended, by id.
    """

    batches: Counter[str] = field(default_factory=Counter)
    planned: int = 0
    as_planned: int = 0
    moves: int = 0
    restores: Counter[str] = field(default_factory=Counter)
    milliseconds: Counter[str] = field(default_factory=Counter)
    fetches: dict[tuple[str, str], events.StoresFetched] = field(default_factory=dict)
    opened_in: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    ended: dict[str, Query] = field(default_factory=dict)

    def end(self, gone: Iterable[Query], running: Container[str]) -> None:
        """Note queries that have ended, of those the newest; `running` has the ids of those that run."""
        known = {**self.ended, **{query.id: query for query in gone}}
        still = [(id, query) for id, query in known.items() if id not in running]
        self.ended = dict(still[-_ENDED_KEPT:])

    def take(self, event: events.Event) -> None:
        """Count what an event says."""
        match event:
            case events.BatchEnded():
                self.batches[event.query] += 1
                self.planned += event.planned
                self.as_planned += event.as_planned
            case events.StoreOpened():
                self.restores["local-opens" if event.remote_files == 0 else "remote-opens"] += 1
                self.milliseconds["local" if event.remote_files == 0 else "other"] += event.milliseconds
                took = event.milliseconds + event.ahead_ms
                self.milliseconds["fetching"] += took if event.remote_bytes else 0
                self.restores["restore-bytes-local"] += event.local_bytes
                self.restores["restore-bytes-remote"] += event.remote_bytes
                self.restores["remote-changelogs"] += event.remote_changelogs
                self.restores["restore-ms"] += took
                task = task_of_store(event.store)
                if task is not None:
                    self.opened_in.setdefault(task, {})[event.store] = took
            case events.StoresFetched():
                self.fetches[event.query, event.executor] = event
            case events.ExecutorLost():
                self.fetches = {key: seen for key, seen in self.fetches.items() if key[1] != event.executor}
            case events.QueryEnded():
                self.fetches = {key: seen for key, seen in self.fetches.items() if key[0] != event.query}
            case events.CopiesSeen():
                self.restores["standby-bytes-remote"] += sum(copy.fetched_bytes for copy in event.copies)

    def restore_ms(self, fleet: Fleet) -> dict[str, int]:
        """Task name to how long bringing up its state took the last time, all its stores together."""
        return {
            str(query.task_name(partition)): sum(stores.values())
            for query in fleet.queries.values()
            for partition in range(query.task_count)
            if (stores := self.opened_in.get((query.checkpoint.rstrip("/"), partition)))
        }

    def recovery_seconds(self, bytes_to_fetch: int | None) -> float | None:
        """How long a task takes to be back on an executor that lacks so much of its state.

        The bytes at the rate of the opens that fetched any, and the mean of the local opens. None while what is needed
        of these was not measured.
        """
        opens = self.restores["local-opens"]
        opening = self.milliseconds["local"] / opens if opens else None
        if bytes_to_fetch == 0:
            return None if opening is None else round(opening / 1000, 3)
        fetched, took = self.restores["restore-bytes-remote"], self.milliseconds["fetching"]
        if bytes_to_fetch is None or not fetched or not took:
            return None
        return round((bytes_to_fetch * took / fetched + (opening or 0)) / 1000, 3)

    def counters(self, fleet: Fleet) -> dict[str, int]:
        """All counts by the names of the metrics."""
        names = (
            "local-opens",
            "remote-opens",
            "restore-bytes-local",
            "restore-bytes-remote",
            "remote-changelogs",
            "restore-ms",
            "standby-bytes-remote",
        )
        standbys = fleet.standby_report.counts
        return {
            "batches": sum(self.batches.values()),
            "preferred-host-requests": self.planned,
            "placed-as-planned": self.as_planned,
            "moves": self.moves,
            "failovers-to-standby": standbys.failovers_to_standby,
            "failovers-to-any-host": standbys.failovers_to_any_host,
            "failed-standby-allocations": standbys.failed_allocations,
            **{name: self.restores[name] for name in names},
        }


def metrics_of(
    fleet: Fleet, tally: Counters, queue: RequestQueue = _NO_QUEUE, drainage: Drainage = _NO_DRAINS
) -> dict[str, float]:
    """The gauges: moves, failovers, drains; of each task what is known of its copies, and of bringing up its state."""
    names = ("moves", "failovers-to-standby", "failovers-to-any-host", "failed-standby-allocations")
    counters = tally.counters(fleet)
    gauges = {name: float(counters[name]) for name in names}
    gauges["failed-container-placement-actions"] = float(queue.failed)
    gauges |= {f"drain-state.{drainage.label_of(query)}": drainage.state_of(query) for query in drainage.progress}
    for task, copies in _copies_of_tasks(fleet).items():
        gauges[f"standby-lag-versions.{task}"] = float(max(copy.lag_versions for copy in copies))
        gauges[f"standby-lag-ms.{task}"] = float(max(copy.lag_ms for copy in copies))
    gauges |= {f"restore-ms.{task}": float(took) for task, took in tally.restore_ms(fleet).items()}
    for task, seconds in _recovery_seconds(fleet, tally).items():
        if seconds is not None:
            gauges[f"estimated-recovery-seconds.{task}"] = seconds
    return gauges


def status_of(
    fleet: Fleet,
    tally: Counters,
    at_ms: int,
    plan_barrier: PlanBarrier = _NO_BARRIER,
    queue: RequestQueue = _NO_QUEUE,
    drainage: Drainage = _NO_DRAINS,
    started: events.ApplicationStarted | None = None,
) -> dict[str, Any]:
    """The status as JSON, in the form of the command line's contract; every list in natural order."""
    processors = sorted(fleet.processors.values(), key=lambda processor: natural_order(processor.id))
    standbys = standbys_of(fleet, fleet.model)
    return {
        "application": fleet.application.id,
        "leader": fleet.application.id,
        "version": fleet.model.version,
        "at": at_ms,
        **({"name": started.name, "since": started.at_ms} if started else {}),
        **_barrier(fleet, plan_barrier),
        "hosts": _hosts(fleet),
        **_drained(fleet),
        "processors": [_processor(fleet, processor, standbys) for processor in processors],
        "queries": _queries(fleet.queries.values(), "running"),
        **({"ended-queries": _queries(tally.ended.values(), "ended")} if tally.ended else {}),
        "tasks": [*_actives(fleet, processors, tally), *_standbys(processors, standbys)],
        "counters": {**tally.counters(fleet), "failed-container-placement-actions": queue.failed},
        **_fetches(fleet, tally),
        **_requests(fleet, queue),
        **({"drains": drainage.as_json()} if drainage.progress else {}),
        **_shortages(fleet),
    }


def _queries(queries: Iterable[Query], state: str) -> list[Mapping[str, Any]]:
    return [
        {
            "name": query.label,
            "id": query.id,
            "run-id": query.run,
            "checkpoint": query.checkpoint,
            "batch": query.batch,
            "state": state,
        }
        for query in sorted(queries, key=lambda query: natural_order(query.label))
    ]


def _barrier(fleet: Fleet, plan_barrier: PlanBarrier) -> Mapping[str, Any]:
    """How the newest version stands, and for which executors it waits."""
    barrier = plan_barrier.barrier
    if barrier is None:
        return {}
    waits = barrier.awaits(plan_barrier.known, fleet.executors) if plan_barrier.is_new else frozenset()
    waiting = sorted(waits, key=natural_order)
    return {"barrier": {"version": barrier.version, "state": barrier.state.value, "waiting-for": waiting}}


def _drained(fleet: Fleet) -> Mapping[str, Any]:
    """The hosts that are to be empty, and whether they are."""
    hosts = [
        {"location": host, "state": "draining" if any(left_on(fleet, host)) else "drained"}
        for host in sorted(fleet.overrides.drained, key=natural_order)
    ]
    return {"drained-hosts": hosts} if hosts else {}


def _fetches(fleet: Fleet, tally: Counters) -> Mapping[str, Any]:
    """What executors have fetched, or fetch just now, before the tasks of a query that has started ask for it."""
    names = {query.id: query.label for query in fleet.queries.values()}
    rows = [
        {
            "query": names.get(query, query),
            "executor": executor,
            "stores": seen.of,
            "done": seen.done,
            "bytes": seen.fetched_bytes,
            "milliseconds": seen.milliseconds,
        }
        for (query, executor), seen in sorted(tally.fetches.items(), key=lambda entry: natural_order(entry[0][1]))
        if seen.fetched_bytes or seen.done < seen.of
    ]
    return {"restores": rows} if rows else {}


def _requests(fleet: Fleet, queue: RequestQueue) -> Mapping[str, Any]:
    """What operators have asked: the last requests that are done, oldest first, then those that are not."""
    done = [
        {**_request(response.request), "status": response.status_code.value, "message": response.response_message}
        for response in queue.history
    ]
    open = [
        {**_request(action.request), "status": action.phase.status.value, "message": _progress(queue, fleet, action)}
        for action in queue.actions
    ]
    return {"requests": [*done, *open]} if done or open else {}


def _progress(queue: RequestQueue, fleet: Fleet, action: Action) -> str:
    if action.request.host_action is not None:
        return drain_host.progress(fleet, action)
    if action.is_restart_under_way:
        return restart.progress(queue, fleet, action)
    return move.progress(fleet, action)


def _request(request: ContainerPlacementRequestMessage) -> dict[str, Any]:
    standby = {"standby": request.standby.value} if request.standby else {}
    host_action = {"host-action": request.host_action.value} if request.host_action else {}
    return {
        "uuid": str(request.uuid),
        "processor": request.processor_id,
        "destination": request.destination_host,
        **standby,
        **host_action,
    }


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


def _processor(fleet: Fleet, processor: Processor, standbys: Standbys) -> Mapping[str, Any]:
    return {
        "id": processor.id,
        "executor": processor.executor,
        "location": processor.location,
        "state": "bound" if processor.executor else ("awaited" if processor.is_awaited else "unbound"),
        "tasks": _names(fleet, processor),
        "standby-tasks": [task.task_name for task, _ in _in_order(standbys.get(processor.id, {}))],
        **({"standby-stopped": True} if processor.id in fleet.overrides.stopped_standbys else {}),
        **_lent(fleet, processor),
        **_wanted(fleet, processor),
        **({"spare": True} if fleet.is_empty_spare(processor.id) else {}),
    }


def _lent(fleet: Fleet, processor: Processor) -> Mapping[str, Any]:
    """Why tasks of the processor run elsewhere although it has an executor."""
    executor = processor.executor or ""
    reasons = [fleet.withheld[executor]] if executor in fleet.withheld else []
    reasons += [
        f"{fleet.queries[query].label}: {loan.reason}"
        for (query, lender), loan in fleet.lending.loans.items()
        if lender == executor and query in fleet.queries
    ]
    return {"lent-because": "; ".join(reasons)} if reasons else {}


def _wanted(fleet: Fleet, processor: Processor) -> Mapping[str, Any]:
    """Where an operator wants standbys of the processor."""
    places = {id: place for id, place in fleet.overrides.pinned_standbys.items() if fleet.base_of(id) == processor.id}
    return {"standbys-wanted-at": dict(sorted(places.items()))} if places else {}


def _actives(fleet: Fleet, processors: Sequence[Processor], tally: Counters) -> list[Mapping[str, Any]]:
    sizes, restores, recoveries = fleet.expected_bytes(), tally.restore_ms(fleet), _recovery_seconds(fleet, tally)
    not_placed = {query.task_name(p) for query in fleet.queries.values() for p in query.not_placed}
    return [
        {
            "name": name,
            "mode": "Active",
            "processor": processor.id,
            "changed": name in fleet.changed_tasks,
            "location": fleet.task_locality.get(name, processor.location),
            **({"not-placed": True} if name in not_placed else {}),
            "local-bytes": sizes.get(name),
            "lag-versions": 0,
            "lag-ms": 0,
            "restore-ms": restores.get(name),
            "estimated-recovery-seconds": recoveries[name],
        }
        for processor in processors
        for name in _names(fleet, processor)
    ]


def _recovery_seconds(fleet: Fleet, tally: Counters) -> dict[str, float | None]:
    """Active task's name to how long it would take to be back were its executor lost; None where that is not known."""
    sizes, copies = fleet.expected_bytes(), _copies_of_tasks(fleet)
    return {
        name: tally.recovery_seconds(0 if _has_caught_up_copy(copies.get(name, ())) else sizes.get(name))
        for container in fleet.model.containers.values()
        for name in container.actives
    }


def _standbys(processors: Sequence[Processor], standbys: Standbys) -> list[Mapping[str, Any]]:
    """One row for each; what is not known of it, as nobody has seen it yet, is None."""
    return [
        {
            "name": task.task_name,
            "mode": "Standby",
            "processor": processor.id,
            "changed": False,
            "location": processor.location,
            "local-bytes": copy.local_bytes if copy else None,
            "lag-versions": copy.lag_versions if copy else None,
            "lag-ms": copy.lag_ms if copy else None,
            "estimated-recovery-seconds": None,
        }
        for processor in processors
        for task, copy in _in_order(standbys.get(processor.id, {}))
    ]


def _in_order(standbys: Mapping[TaskModel, SeenCopy | None]) -> list[tuple[TaskModel, SeenCopy | None]]:
    return sorted(standbys.items(), key=lambda entry: natural_order(entry[0].task_name))


def _copies_of_tasks(fleet: Fleet) -> dict[str, list[SeenCopy]]:
    """Active task's name to its copies, without those that nobody has seen yet."""
    found: dict[str, list[SeenCopy]] = {}
    for held in standbys_of(fleet, fleet.model).values():
        for task, copy in held.items():
            if copy is not None and task.standby_of is not None:
                found.setdefault(task.standby_of, []).append(copy)
    return found


def _has_caught_up_copy(copies: Iterable[SeenCopy]) -> bool:
    return any(copy.lag_versions == 0 for copy in copies)


def _shortages(fleet: Fleet) -> Mapping[str, Any]:
    """What the newest plan could not do for the standbys; nothing when it could do all."""
    unplaced = [
        {"task": lack.task_name, "replica": lack.replica, "reason": lack.reason}
        for lack in fleet.standby_report.unplaced
    ]
    sharing = [{"task": shared.task_name, "zone": shared.zone} for shared in fleet.standby_report.sharing_zone]
    return {
        **({"unplaced-standbys": unplaced} if unplaced else {}),
        **({"standbys-sharing-a-zone": sharing} if sharing else {}),
    }


def _names(fleet: Fleet, processor: Processor) -> list[str]:
    container = fleet.model.containers.get(processor.id)
    return sorted(container.actives, key=natural_order) if container else []
