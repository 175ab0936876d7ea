"""The status that `mooring status` shows, and the agent's gauges. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mooring.agent.counters import Counters
from mooring.agent.drains.drainage import Drainage
from mooring.agent.planning.copies import standbys_of
from mooring.agent.planning.wanted_hosts import elsewhere
from mooring.agent.requests import drain_host, move, restart
from mooring.agent.requests.action import Action
from mooring.agent.requests.drain_host import left_on
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.state.barrier import PlanBarrier
from mooring.agent.state.fleet import Fleet, Processor, Query, SeenCopy
from mooring.model import TaskModel, events, natural_order
from mooring.placement import ContainerPlacementRequestMessage

_NO_BARRIER, _NO_QUEUE, _NO_DRAINS = PlanBarrier(), RequestQueue(), Drainage()

Standbys = Mapping[str, Mapping[TaskModel, SeenCopy | None]]
"""Processor id to its standbys, and the last report of each copy; None where there is no report."""


def metrics_of(
    fleet: Fleet, counters: Counters, queue: RequestQueue = _NO_QUEUE, drainage: Drainage = _NO_DRAINS
) -> dict[str, float]:
    """The gauges: moves, failovers and drains; of each task the lag of its copies, and the times of its restores."""
    names = ("moves", "failovers-to-standby", "failovers-to-any-host", "failed-standby-allocations")
    counts = counters.by_metric(fleet)
    gauges = {name: float(counts[name]) for name in names}
    gauges["failed-container-placement-actions"] = float(queue.failed)
    gauges |= {f"drain-state.{drainage.label_of(query)}": drainage.state_of(query) for query in drainage.progress}
    for task, copies in _copies_of_tasks(fleet).items():
        gauges[f"standby-lag-versions.{task}"] = float(max(copy.lag_versions for copy in copies))
        gauges[f"standby-lag-ms.{task}"] = float(max(copy.lag_ms for copy in copies))
    gauges |= {f"restore-ms.{task}": float(took) for task, took in counters.restore_ms(fleet).items()}
    for task, seconds in _recovery_seconds(fleet, counters).items():
        if seconds is not None:
            gauges[f"estimated-recovery-seconds.{task}"] = seconds
    return gauges


def status_of(
    fleet: Fleet,
    counters: Counters,
    at_ms: int,
    plan_barrier: PlanBarrier = _NO_BARRIER,
    queue: RequestQueue = _NO_QUEUE,
    drainage: Drainage = _NO_DRAINS,
    started: events.ApplicationStarted | None = None,
) -> dict[str, Any]:
    """The status as JSON, with the keys that the command line reads. Lists are in natural order."""
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
        **_allocation(fleet),
        "processors": [_processor(fleet, processor, standbys) for processor in processors],
        "queries": _queries(fleet.queries.values(), "running"),
        **({"ended-queries": _queries(counters.ended.values(), "ended")} if counters.ended else {}),
        "tasks": [*_actives(fleet, processors, counters), *_standbys(processors, standbys)],
        "counters": {**counters.by_metric(fleet), "failed-container-placement-actions": queue.failed},
        **_fetches(fleet, counters),
        **_requests(fleet, queue, at_ms),
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
    """The barrier of the newest version, and the executors that it awaits."""
    barrier = plan_barrier.barrier
    if barrier is None:
        return {}
    waits = barrier.awaits(plan_barrier.taken_up, fleet.executors) if plan_barrier.is_new else frozenset()
    waiting = sorted(waits, key=natural_order)
    return {"barrier": {"version": barrier.version, "state": barrier.state.value, "waiting-for": waiting}}


def _drained(fleet: Fleet) -> Mapping[str, Any]:
    """The hosts that operators want empty, and whether they are."""
    hosts = [
        {"location": host, "state": "draining" if any(left_on(fleet, host)) else "drained"}
        for host in sorted(fleet.overrides.drained, key=natural_order)
    ]
    return {"drained-hosts": hosts} if hosts else {}


def _allocation(fleet: Fleet) -> Mapping[str, Any]:
    """The hosts that executors were asked for on, and those that came instead of some of them."""
    asked = fleet.allocation.hosts_asked
    if not asked:
        return {}
    in_vain, instead = elsewhere(fleet.allocation)
    return {"allocation": {"asked": list(asked), "not-given": list(in_vain), "given-instead": list(instead)}}


def _fetches(fleet: Fleet, counters: Counters) -> Mapping[str, Any]:
    """The state that executors fetch for a started query before its tasks need it."""
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
        for (query, executor), seen in sorted(counters.fetches.items(), key=lambda entry: natural_order(entry[0][1]))
        if seen.fetched_bytes or seen.done < seen.of
    ]
    return {"restores": rows} if rows else {}


def _requests(fleet: Fleet, queue: RequestQueue, at_ms: int) -> Mapping[str, Any]:
    """The last finished requests of operators, oldest first, then the requests that are not finished."""
    done = [
        {**_request(response.request), "status": response.status_code.value, "message": response.response_message}
        for response in queue.history
    ]
    open = [
        {
            **_request(action.request),
            "status": action.phase.status.value,
            "message": _progress(queue, fleet, action, at_ms),
        }
        for action in queue.actions
    ]
    return {"requests": [*done, *open]} if done or open else {}


def _progress(queue: RequestQueue, fleet: Fleet, action: Action, at_ms: int) -> str:
    if action.request.host_action is not None:
        return drain_host.progress(fleet, action)
    if action.is_restart_under_way:
        return restart.progress(queue, fleet, action)
    return move.progress(fleet, action, at_ms)


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
    """The locations, with their executors, and their zone where it is known."""
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
    """Why tasks of the processor do not run on its executor."""
    executor = processor.executor or ""
    reasons = [fleet.withheld[executor]] if executor in fleet.withheld else []
    reasons += [
        f"{fleet.queries[query].label}: {loan.reason}"
        for (query, lender), loan in fleet.lending.loans.items()
        if lender == executor and query in fleet.queries
    ]
    return {"lent-because": "; ".join(reasons)} if reasons else {}


def _wanted(fleet: Fleet, processor: Processor) -> Mapping[str, Any]:
    """The locations that an operator wants for standbys of the processor."""
    locations = {
        id: location for id, location in fleet.overrides.pinned_standbys.items() if fleet.base_of(id) == processor.id
    }
    return {"standbys-wanted-at": dict(sorted(locations.items()))} if locations else {}


def _actives(fleet: Fleet, processors: Sequence[Processor], counters: Counters) -> list[Mapping[str, Any]]:
    sizes, restores, recoveries = fleet.expected_bytes(), counters.restore_ms(fleet), _recovery_seconds(fleet, counters)
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


def _recovery_seconds(fleet: Fleet, counters: Counters) -> dict[str, float | None]:
    """Active task's name to the time to restore it if its executor is lost, in seconds; None where it is not known."""
    sizes, copies = fleet.expected_bytes(), _copies_of_tasks(fleet)
    return {
        name: counters.recovery_seconds(0 if _has_caught_up_copy(copies.get(name, ())) else sizes.get(name))
        for container in fleet.model.containers.values()
        for name in container.actives
    }


def _standbys(processors: Sequence[Processor], standbys: Standbys) -> list[Mapping[str, Any]]:
    """One row for each standby. Values are None until there is a report of the copy."""
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
    """Active task's name to its copies that were reported."""
    found: dict[str, list[SeenCopy]] = {}
    for held in standbys_of(fleet, fleet.model).values():
        for task, copy in held.items():
            if copy is not None and task.standby_of is not None:
                found.setdefault(task.standby_of, []).append(copy)
    return found


def _has_caught_up_copy(copies: Iterable[SeenCopy]) -> bool:
    return any(copy.lag_versions == 0 for copy in copies)


def _shortages(fleet: Fleet) -> Mapping[str, Any]:
    """The standbys without a place, and those that share a zone; empty where there are none."""
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
