"""Which executor carries which processor.

Pure. A processor outlives its executor: one that comes back on the same location takes it over with its tasks. An
executor for which no processor waits gets a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from mooring.agent.state.fleet import Executor, Fleet, Processor
from mooring.model import JobModel, natural_order
from mooring.records.operator_overrides import NOTHING_SAID, OperatorOverrides

_LAST_RUN: Final = "last run's "


def bind(fleet: Fleet, executor: Executor, now_ms: int) -> Fleet:
    """Give a new executor a processor that waits at its location, else a new one, which asks for a regrouping.

    With standbys one that waited asks for it as well once a query runs: its tasks and copies are elsewhere meanwhile.
    """
    waiting = _waiting_at(fleet, executor.location) or _of_who_ends_at(fleet, executor.location)
    if waiting:
        known = replace(fleet, processors={**fleet.processors, **{p.id: _bound(p, executor) for p in waiting}})
        if any(processor.location != executor.location for processor in waiting):
            return ask_for_regrouping(known, now_ms)
        has_lent = fleet.replication_factor > 1 and any(query.is_released for query in fleet.queries.values())
        return ask_for_regrouping(known, now_ms) if has_lent else known
    return _with_newcomer(fleet, executor, now_ms)


def keep_executor(fleet: Fleet, request: str, executor_id: str, now_ms: int) -> Fleet:
    """Have an executor work on that was to end for a request.

    With its processors; with a new one where another executor has come in its place, and has taken those over.
    """
    restarts = {other: executor for other, executor in fleet.restarts.items() if other != request}
    left = replace(fleet, restarts=restarts)
    executor = left.executors.get(executor_id)
    is_idle = executor is not None and executor.id not in (*left.executor_of.values(), *restarts.values())
    return _with_newcomer(left, executor, now_ms) if executor is not None and is_idle else left


def _with_newcomer(fleet: Fleet, executor: Executor, now_ms: int) -> Fleet:
    newcomer = Processor(unused_id(fleet), executor.location, executor.id)
    return ask_for_regrouping(fleet.with_processor(newcomer), now_ms)


def unbind(fleet: Fleet, executor_id: str, now_ms: int) -> Fleet:
    """Leave the processors of a lost executor without one; they keep their tasks until the rebind timeout."""
    processors = {
        processor.id: replace(processor, executor=None, unbound_since_ms=now_ms, was_on=executor_id)
        if processor.executor == executor_id
        else processor
        for processor in fleet.processors.values()
    }
    return replace(fleet, processors=processors)


def drop_expired(fleet: Fleet, now_ms: int, kept: frozenset[str] = frozenset()) -> Fleet:
    """Give up processors that have waited longer than the rebind timeout, and ask to regroup their tasks at once.

    `kept` are those that are restarted for an operator: they wait as long as their request does.
    """
    expired = {
        id
        for id, processor in fleet.processors.items()
        if id not in kept and rebind_deadline_ms(fleet, processor) <= now_ms
    }
    if not expired:
        return fleet
    left = {id: processor for id, processor in fleet.processors.items() if id not in expired}
    return replace(fleet, processors=left, regroup_at_ms=now_ms).without_wishes_of_the_gone()


def rebind_deadline_ms(fleet: Fleet, processor: Processor) -> float:
    """When a processor is given up; infinity for one that is bound."""
    return float("inf") if processor.executor else processor.unbound_since_ms + fleet.timing.rebind_timeout_ms


def ask_for_regrouping(fleet: Fleet, now_ms: int) -> Fleet:
    """Regroup when the debounce is over; what joins until then is part of the same plan."""
    if fleet.regroup_at_ms is not None:
        return fleet
    return replace(fleet, regroup_at_ms=now_ms + fleet.timing.debounce_ms)


def restore(
    fleet: Fleet,
    model: JobModel | None,
    task_locality: Mapping[str, str],
    now_ms: int,
    word: OperatorOverrides = NOTHING_SAID,
    together: Mapping[str, str] = MappingProxyType({}),
) -> Fleet:
    """Start from what the last run, or an agent before this one, left in the metadata store.

    Its processors are there again and wait for executors; the executors that are known already are bound to them.
    Where the JVM holds a plan (an agent died), an executor gets back the processor whose tasks it has; else any
    processor of its location. `word` is what operators have said in this application, and `together` maps processors
    that shared an executor in the last run to what names it.
    """
    remembered = model or JobModel.of([])
    processors = {
        id: Processor(
            id,
            container.location_id or "",
            None,
            now_ms,
            is_awaited=True,
            was_on=_of_the_last_run(together.get(id)),
            is_spare=id in word.spare,
        )
        for id, container in remembered.containers.items()
    }
    start = replace(
        fleet,
        model=replace(remembered, version=max(remembered.version, fleet.model.version)),
        processors=processors,
        task_locality={**task_locality, **fleet.task_locality},
        regroup_at_ms=None,
        drained=word.drained,
        lending=fleet.lending.with_kept(word.loans),
    )
    start = _bind_as_the_jvm_has_it(start, word.carriers)
    bound = {processor.executor for processor in start.processors.values()}
    for executor in sorted(fleet.executors.values(), key=lambda e: natural_order(e.id)):
        if executor.id not in bound and executor.id not in start.restarts.values():
            start = bind(start, executor, now_ms)
    return start


def _of_the_last_run(executor: str | None) -> str:
    """What tells it from the executors of this run."""
    return f"{_LAST_RUN}{executor.removeprefix(_LAST_RUN)}" if executor else ""


def _bind_as_the_jvm_has_it(fleet: Fleet, carriers: Mapping[str, str]) -> Fleet:
    """An executor has several processors only where `carriers`, processor id to executor, says so.

    Without host affinity that names all of them, as no task tells.
    """
    for id, carrier in carriers.items():
        if id in fleet.processors and carrier in fleet.executors:
            fleet = fleet.with_processor(_bound(fleet.processors[id], fleet.executors[carrier]))
    labels = {query.label: query for query in fleet.queries.values()}
    by_task = {
        labels[label].task_name(partition): executor
        for (label, partition), executor in _by_label(fleet).items()
        if executor in fleet.executors
    }
    for container in fleet.model.containers.values():
        executor = next(
            (by_task[task] for task in sorted(container.actives, key=natural_order) if task in by_task), None
        )
        processor = fleet.processors[container.processor_id]
        if processor.executor is not None:
            continue
        taken = any(other.executor == executor for other in fleet.processors.values())
        if executor and not taken and fleet.executors[executor].location == processor.location:
            fleet = fleet.with_processor(_bound(processor, fleet.executors[executor]))
    return fleet


def _by_label(fleet: Fleet) -> dict[tuple[str, int], str]:
    return {
        (fleet.queries[query].label, partition): executor
        for (query, partition), executor in fleet.wanted_by_jvm.items()
        if query in fleet.queries
    }


def _waiting_at(fleet: Fleet, location: str) -> list[Processor]:
    """The processor with the most tasks, which has the most to lose, and those that were on one executor with it."""
    waiting = [p for p in fleet.processors.values() if p.executor is None and _is_of(fleet, p, location)]
    first = min(waiting, key=lambda p: (p.location != location, -_size(fleet, p), natural_order(p.id)), default=None)
    return [p for p in waiting if first and (p is first or (p.was_on and p.was_on == first.was_on))]


def _of_who_ends_at(fleet: Fleet, location: str) -> list[Processor]:
    """The processors of an executor there that ends for an operator: its successor may come before it has gone."""
    ending = sorted(
        {p.executor for p in fleet.processors.values() if p.executor and _is_of(fleet, p, location)}
        & set(fleet.restarts.values()),
        key=natural_order,
    )
    return [p for p in fleet.processors.values() if ending and p.executor == ending[0]]


def _is_of(fleet: Fleet, processor: Processor, location: str) -> bool:
    """Whether an executor there may have it: any may where no task has a place."""
    return processor.location == location or not fleet.has_host_affinity


def _size(fleet: Fleet, processor: Processor) -> int:
    container = fleet.model.containers.get(processor.id)
    return len(container.actives) if container else 0


def _bound(processor: Processor, executor: Executor) -> Processor:
    return Processor(processor.id, executor.location, executor.id, is_spare=processor.is_spare)


def unused_id(fleet: Fleet) -> str:
    """An id for a new processor."""
    number = 0
    while str(number) in fleet.processors:
        number += 1
    return str(number)
