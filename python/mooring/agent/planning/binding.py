"""Binding: which executor carries which processor.

The functions are pure. A processor outlives its executor. A new executor gets a processor that waits at the same
location, with the tasks that the processor still has: tasks with a copy have left it by then
(`mooring.agent.planning.failover`). When no processor waits there, the executor gets a new processor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from mooring.agent.state.fleet import Executor, Fleet, Processor
from mooring.model import JobModel, natural_order
from mooring.records.operator_overrides import NO_OVERRIDES, OperatorOverrides

_LAST_RUN: Final = "last run's "


def bind(fleet: Fleet, executor: Executor, now_ms: int) -> Fleet:
    """The fleet with the new executor bound to a processor that waits at its location, else to a new processor.

    A regrouping is asked for when the processor is new. With standbys it is also asked for when a processor has waited
    and a query runs, because the processor's tasks and copies are elsewhere by then.
    """
    waiting = _waiting_at(fleet, executor.location) or _on_a_restarting_executor_at(fleet, executor.location)
    if not waiting:
        return _with_new_processor(fleet, executor, now_ms)
    bound = replace(fleet, processors={**fleet.processors, **{p.id: _bound(p, executor) for p in waiting}})
    if any(processor.location != executor.location for processor in waiting):
        return ask_for_regrouping(bound, now_ms)
    has_tasks_elsewhere = fleet.settings.replication_factor > 1 and any(
        query.is_released for query in fleet.queries.values()
    )
    return ask_for_regrouping(bound, now_ms) if has_tasks_elsewhere else bound


def keep_executor(fleet: Fleet, request: str, executor_id: str, now_ms: int) -> Fleet:
    """The fleet after the JVM has given up the restart of an executor for a request.

    The executor keeps its processors. When another executor has already got them, it gets a new processor.
    """
    restarts = {other: executor for other, executor in fleet.ongoing.restarts.items() if other != request}
    after = replace(fleet, ongoing=replace(fleet.ongoing, restarts=restarts))
    executor = after.executors.get(executor_id)
    has_no_processor = executor is not None and executor.id not in (*after.executor_of.values(), *restarts.values())
    return _with_new_processor(after, executor, now_ms) if executor is not None and has_no_processor else after


def unbind(fleet: Fleet, executor_id: str, now_ms: int) -> Fleet:
    """The fleet after an executor is lost: its processors have no executor.

    Tasks without a copy stay with these processors until the rebind timeout. `with_failover` moves the others.
    """
    processors = {
        processor.id: replace(processor, executor=None, unbound_since_ms=now_ms, was_on=executor_id)
        if processor.executor == executor_id
        else processor
        for processor in fleet.processors.values()
    }
    return replace(fleet, processors=processors)


def drop_expired(fleet: Fleet, now_ms: int, kept: frozenset[str] = frozenset()) -> Fleet:
    """The fleet without processors that have waited longer than the rebind timeout. Their tasks are regrouped at once.

    `kept` are processors that restart for an operator: they wait as long as the request allows.
    """
    expired = {
        id
        for id, processor in fleet.processors.items()
        if id not in kept and rebind_deadline_ms(fleet, processor) <= now_ms
    }
    if not expired:
        return fleet
    remaining = {id: processor for id, processor in fleet.processors.items() if id not in expired}
    timers = replace(fleet.timers, regroup_at_ms=now_ms)
    return replace(fleet, processors=remaining, timers=timers).without_overrides_of_lost_processors()


def with_newcomers_bound(fleet: Fleet, now_ms: int, kept: frozenset[str] = frozenset()) -> Fleet:
    """The fleet with processors that wait in vain bound to executors that came elsewhere instead.

    When the application has all executors that it asks for, no other one comes to the place of a processor that waits.
    An executor whose processors are not in a job model yet gets the waiting processors of one executor, the ones with
    most tasks first, in place of its own. Not those in `kept`, which restart for an operator.
    """
    if not fleet.has_all_executors:
        return fleet
    for executor in sorted(fleet.executors.values(), key=lambda e: natural_order(e.id)):
        own = {p.id for p in fleet.processors.values() if p.executor == executor.id}
        is_new = own and not own & fleet.model.containers.keys()
        waiting = _waiting_in_vain(fleet, kept)
        if is_new and waiting and executor.location not in fleet.overrides.drained:
            others = {id: processor for id, processor in fleet.processors.items() if id not in own}
            bound = {processor.id: _bound(processor, executor) for processor in waiting}
            fleet = ask_for_regrouping(replace(fleet, processors={**others, **bound}), now_ms)
    return fleet


def _waiting_in_vain(fleet: Fleet, kept: frozenset[str]) -> list[Processor]:
    """The processors with the most tasks that wait and shared their last executor; not the spare ones."""
    waiting = [p for p in fleet.processors.values() if p.executor is None and not p.is_spare and p.id not in kept]
    return _with_most_tasks(fleet, waiting)


def rebind_deadline_ms(fleet: Fleet, processor: Processor) -> float:
    """When the processor is dropped, in milliseconds since the epoch; infinity while it has an executor."""
    return float("inf") if processor.executor else processor.unbound_since_ms + fleet.timing.rebind_timeout_ms


def ask_for_regrouping(fleet: Fleet, now_ms: int) -> Fleet:
    """The fleet with a regrouping due when the debounce is over.

    A regrouping that is already due keeps its time, so what happens until then becomes part of the same job model.
    """
    if fleet.timers.regroup_at_ms is not None:
        return fleet
    return replace(fleet, timers=replace(fleet.timers, regroup_at_ms=now_ms + fleet.timing.debounce_ms))


def restore(
    fleet: Fleet,
    model: JobModel | None,
    task_locality: Mapping[str, str],
    now_ms: int,
    overrides: OperatorOverrides = NO_OVERRIDES,
    last_executors: Mapping[str, str] = MappingProxyType({}),
) -> Fleet:
    """The fleet with what the last run, or the agent before this one, left in the metadata store.

    The processors of the stored job model exist again, and the known executors are bound to them. An executor gets the
    processor whose tasks the JVM already runs on it (the agent was restarted); otherwise any processor of its location.

    `overrides` are the operators' requests that still hold. `last_executors` maps a processor to the executor that it
    had in the last run: processors that shared an executor then share one again.
    """
    remembered = model or JobModel.of([])
    processors = {
        id: Processor(
            id,
            container.location_id or "",
            None,
            now_ms,
            is_awaited=True,
            was_on=_executor_of_last_run(last_executors.get(id)),
            is_spare=id in overrides.spare,
        )
        for id, container in remembered.containers.items()
    }
    start = replace(
        fleet,
        model=replace(remembered, version=max(remembered.version, fleet.model.version)),
        processors=processors,
        task_locality={**task_locality, **fleet.task_locality},
        timers=replace(fleet.timers, regroup_at_ms=None),
        overrides=replace(fleet.overrides, drained=overrides.drained),
        lending=fleet.lending.with_saved_loans(overrides.loans),
    )
    start = _bind_as_in_the_jvm(start, overrides.carriers)
    bound = {processor.executor for processor in start.processors.values()}
    for executor in sorted(fleet.executors.values(), key=lambda e: natural_order(e.id)):
        if executor.id not in bound and executor.id not in start.ongoing.restarts.values():
            start = bind(start, executor, now_ms)
    return start


def unused_id(fleet: Fleet) -> str:
    """An id for a new processor: the smallest number that no processor has."""
    number = 0
    while str(number) in fleet.processors:
        number += 1
    return str(number)


def _with_new_processor(fleet: Fleet, executor: Executor, now_ms: int) -> Fleet:
    """The fleet with a new processor for the executor, and a regrouping asked for."""
    processor = Processor(unused_id(fleet), executor.location, executor.id)
    return ask_for_regrouping(fleet.with_processor(processor), now_ms)


def _executor_of_last_run(executor: str | None) -> str:
    """The executor's id with a prefix, so that it differs from the ids of this run. Empty when it is not known."""
    return f"{_LAST_RUN}{executor.removeprefix(_LAST_RUN)}" if executor else ""


def _bind_as_in_the_jvm(fleet: Fleet, carriers: Mapping[str, str]) -> Fleet:
    """The fleet with processors bound to the executors on which the JVM runs their tasks.

    `carriers` maps processor id to executor, and comes first. Only `carriers` can give an executor several processors.
    Without host affinity `carriers` names every processor, as the JVM's plan has no tasks that show the processors.
    """
    for id, carrier in carriers.items():
        if id in fleet.processors and carrier in fleet.executors:
            fleet = fleet.with_processor(_bound(fleet.processors[id], fleet.executors[carrier]))
    labels = {query.label: query for query in fleet.queries.values()}
    executor_of_task = {
        labels[label].task_name(partition): executor
        for (label, partition), executor in _executors_by_label(fleet).items()
        if executor in fleet.executors
    }
    for container in fleet.model.containers.values():
        tasks = sorted(container.actives, key=natural_order)
        executor = next((executor_of_task[task] for task in tasks if task in executor_of_task), None)
        processor = fleet.processors[container.processor_id]
        if processor.executor is not None:
            continue
        has_a_processor = any(other.executor == executor for other in fleet.processors.values())
        if executor and not has_a_processor and fleet.executors[executor].location == processor.location:
            fleet = fleet.with_processor(_bound(processor, fleet.executors[executor]))
    return fleet


def _executors_by_label(fleet: Fleet) -> dict[tuple[str, int], str]:
    """Maps query label and partition to the executor on which the JVM wants the task."""
    return {
        (fleet.queries[query].label, partition): row[0]
        for query, rows in fleet.rows_at_start.items()
        if query in fleet.queries
        for partition, row in rows.items()
    }


def _waiting_at(fleet: Fleet, location: str) -> list[Processor]:
    """The processors without an executor that a new executor at this location gets together; empty when none waits.

    First comes the waiting processor with the most tasks, because most state would have to move without it. With it
    come those that shared its last executor.
    """
    waiting = [p for p in fleet.processors.values() if p.executor is None and _may_be_carried_at(fleet, p, location)]
    here = [p for p in waiting if p.location == location]
    first = _with_most_tasks(fleet, here or waiting)
    return [p for p in waiting if p in first or (first and p.was_on and p.was_on == first[0].was_on)]


def _with_most_tasks(fleet: Fleet, waiting: list[Processor]) -> list[Processor]:
    """The one of these processors with the most tasks, with those that shared its last executor."""
    first = min(waiting, key=lambda p: (-fleet.active_count(p.id), natural_order(p.id)), default=None)
    return [p for p in waiting if first and (p is first or (p.was_on and p.was_on == first.was_on))]


def _on_a_restarting_executor_at(fleet: Fleet, location: str) -> list[Processor]:
    """The processors of an executor at this location that restarts for an operator; empty when there is none.

    The new executor may start before the old one has ended.
    """
    restarting = sorted(
        {p.executor for p in fleet.processors.values() if p.executor and _may_be_carried_at(fleet, p, location)}
        & set(fleet.ongoing.restarts.values()),
        key=natural_order,
    )
    return [p for p in fleet.processors.values() if restarting and p.executor == restarting[0]]


def _may_be_carried_at(fleet: Fleet, processor: Processor, location: str) -> bool:
    """Whether an executor at this location may carry the processor. Without host affinity every executor may."""
    return processor.location == location or not fleet.settings.has_host_affinity


def _bound(processor: Processor, executor: Executor) -> Processor:
    """The processor, carried by this executor at the executor's location."""
    return Processor(processor.id, executor.location, executor.id, is_spare=processor.is_spare)
