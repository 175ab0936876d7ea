"""From the job model to rows for the scheduler: for each task the executors in order of preference.

Pure. The first is the executor of the task's processor. Behind it stand the executors that take over at once when
that one is lost: those with a copy of the task, in the order in which they are to take it, then a survivor of the same
location, else the least loaded, so that the JVM needs nobody's advice at that moment. For a processor that has no
executor now, those are the interim row. The same executors have the tasks of one to which Spark offers no tasks.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from functools import lru_cache

from mooring.agent.state.fleet import Fleet, Processor, Query
from mooring.model import JobModel, TaskName, natural_order
from mooring.model.orders import Rows
from mooring.standby import failover_order

FALLBACKS = 3
"""How many executors are named behind the first and those with copies: enough for as many losses before the agent has
answered the first."""


def plan_rows(fleet: Fleet, published: Rows) -> Rows:
    """The rows of every query that is released.

    `published` is what the JVM holds now: where it has already fallen back to an executor for a task, the task stays
    there.
    """
    loads = loads_of(fleet)
    warm = _executors_with_copies(fleet)
    spares = heapq.nsmallest(
        FALLBACKS + fleet.replication_factor,
        loads,
        key=lambda id: (
            id in fleet.withheld,
            fleet.executors[id].location in fleet.drained,
            loads[id],
            natural_order(id),
        ),
    )
    open = _open(fleet, loads)
    refuge = {task: id for task, id in fallbacks_in_use(fleet, published).items() if id in open}
    held = {**{task: id for task, id in _as_an_agent_before_had_it(fleet).items() if id in open}, **refuge}
    wanted: dict[str, tuple[str, ...]] = {}
    # Processors whose tasks do run elsewhere first: they count there.
    for processor in sorted(fleet.processors.values(), key=lambda p: (_has_its_tasks(fleet, p), natural_order(p.id))):
        tasks = sorted(_tasks_of(fleet, processor), key=natural_order)
        if processor.executor is None:
            interim = {task: (refuge[task], *warm.get(task, ())) for task in tasks if task in refuge}
            interim |= {task: warm[task] for task in tasks if task in warm and task not in refuge}
            for named in interim.values():
                loads[named[0]] += 1
            wanted |= {task: _row(fleet, spares, *named) for task, named in interim.items()}
            tasks = [task for task in tasks if task not in interim]
        lent = _lent(fleet, processor, tasks)
        wanted |= _rows_of(processor, [task for task in tasks if task not in lent], fleet, loads, spares, warm)
        wanted |= _rows_of_lent(processor, lent, fleet, loads, warm, held)
    return {
        query.id: rows
        for query in fleet.queries.values()
        if query.is_released and (rows := _rows_of_query(query, wanted))
    }


def _rows_of_query(query: Query, wanted: Mapping[str, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    names = {partition: query.task_name(partition) for partition in range(query.task_count)}
    return {partition: wanted[name] for partition, name in names.items() if wanted.get(name)}


def fallbacks_in_use(fleet: Fleet, published: Rows) -> dict[str, str]:
    """Task name to the first executor of the row that the JVM holds that lives and gets tasks."""
    return {
        fleet.queries[query].task_name(partition): living[0]
        for query, rows in published.items()
        if query in fleet.queries
        for partition, row in rows.items()
        if (living := [id for id in row if id in fleet.executors and id not in fleet.withheld])
    }


def _as_an_agent_before_had_it(fleet: Fleet) -> dict[str, str]:
    """Task name to the first executor of its row when this agent began."""
    return {
        fleet.queries[query].task_name(partition): executor
        for (query, partition), executor in fleet.wanted_by_jvm.items()
        if query in fleet.queries and fleet.lending.loans
    }


def _executors_with_copies(fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """Task name to the living executors with a copy of it, in the order in which they take it; without the others."""
    if fleet.replication_factor == 1:
        return {}
    executor_of = fleet.executor_of
    return {
        task: living
        for task, processors in _failover_order(fleet.model).items()
        if (living := tuple(executor_of[id] for id in processors if id in executor_of))
    }


@lru_cache(maxsize=1)
def _failover_order(model: JobModel) -> Mapping[TaskName, tuple[str, ...]]:
    """The order of the newest job model is asked for at each event."""
    return failover_order(model)


def _rows_of(
    processor: Processor,
    tasks: list[str],
    fleet: Fleet,
    loads: dict[str, int],
    spares: list[str],
    warm: Mapping[str, tuple[str, ...]],
) -> dict[str, tuple[str, ...]]:
    """Rows of tasks whose refuge is still to be found: near survivors in turn, else all, least loaded first."""
    survivors = _open(fleet, [id for id in loads if id != processor.executor])
    near = [id for id in survivors if fleet.executors[id].location == processor.location]
    # What would happen to tasks that run on their processor is only supposed: it must not count as load.
    counted = dict(loads) if _has_its_tasks(fleet, processor) else loads
    queue = [(counted[id], natural_order(id), id) for id in near or survivors]
    heapq.heapify(queue)
    first: tuple[str, ...] = (processor.executor,) if processor.executor else ()
    comes_from, goes_to = _ends_of_its_move(processor, fleet)
    first += comes_from
    rows: dict[str, tuple[str, ...]] = {}
    for task in tasks:
        if queue:
            load, order, refuge = queue[0]
            heapq.heapreplace(queue, (load + 1, order, refuge))
            counted[refuge] = load + 1
            rows[task] = _row(fleet, spares, *first, *warm.get(task, ()), *goes_to, refuge)
        else:
            rows[task] = first
    return rows


def _lent(fleet: Fleet, processor: Processor, tasks: list[str]) -> dict[str, str]:
    """Task name to query, of those that are lent because the executor serves them badly."""
    executor = processor.executor
    if executor is None or executor in fleet.withheld or not fleet.lending.loans:
        return {}
    partition_of = fleet.partition_of_task()
    return {
        task: partition_of[task][0]
        for task in tasks
        if task in partition_of and fleet.is_lent(*partition_of[task], executor)
    }


def _rows_of_lent(
    processor: Processor,
    lent: Mapping[str, str],
    fleet: Fleet,
    loads: dict[str, int],
    warm: Mapping[str, tuple[str, ...]],
    held: Mapping[str, str],
) -> dict[str, tuple[str, ...]]:
    """Rows that end with the task's own executor; `held` is where the JVM has tasks now.

    One that is lent already stays where it is. Else those with a copy come first, then others in turn, best elsewhere.
    """
    lender = processor.executor or ""
    others_of = {query: _borrowers(fleet, processor, query, loads) for query in lent.values()}
    stays = {task: held[task] for task, query in lent.items() if held.get(task) in others_of[query]}
    for id in stays.values():
        loads[id] += 1
        loads[lender] -= 1
    rows: dict[str, tuple[str, ...]] = {}
    for task, query in lent.items():
        others = others_of[query]
        by_load = heapq.nsmallest(FALLBACKS, others, key=lambda id: (loads[id], natural_order(id)))
        copies = [id for id in warm.get(task, ()) if id in others]
        row = tuple(dict.fromkeys((*([stays[task]] if task in stays else []), *copies, *by_load)))
        for id in row[:1] if task not in stays else ():
            loads[id] += 1
            loads[lender] -= 1
        rows[task] = (*row, lender)
    return rows


def _borrowers(fleet: Fleet, processor: Processor, query: str, executors: Collection[str]) -> list[str]:
    """Those that may have tasks of the query and the processor for a while."""
    others = [id for id in _open(fleet, executors) if (query, id) not in fleet.lending.loans]
    return [id for id in others if fleet.executors[id].location != processor.location] or others


def _has_its_tasks(fleet: Fleet, processor: Processor) -> bool:
    """Whether its tasks run on its executor: it has one, which gets tasks from Spark."""
    return processor.executor is not None and processor.executor not in fleet.withheld


def _open(fleet: Fleet, executors: Collection[str]) -> Collection[str]:
    """Those that get tasks from Spark, of these those at hosts that are not drained; all, when there are no such."""
    usable = [id for id in executors if id not in fleet.withheld] or executors
    return [id for id in usable if fleet.executors[id].location not in fleet.drained] or usable


def _ends_of_its_move(processor: Processor, fleet: Fleet) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where it came from, which has all files, once it has switched; until then where it goes to, which has some."""
    move = fleet.moves.get(processor.id)
    if move is None:
        return (), ()
    end = tuple(id for id in (move.source if move.is_switched else move.executor,) if id in fleet.executors)
    return (end, ()) if move.is_switched else ((), end)


def _row(fleet: Fleet, spares: list[str], *named: str) -> tuple[str, ...]:
    """The named executors, each once, and behind them who comes next if those are lost as well."""
    return tuple(dict.fromkeys((*named, *spares)))[: FALLBACKS + fleet.replication_factor]


def loads_of(fleet: Fleet) -> dict[str, int]:
    """Living executor to the number of tasks of the processors that it carries; spare executors count 0."""
    loads = dict.fromkeys(fleet.executors, 0)
    for processor in fleet.processors.values():
        if processor.executor in loads and processor.executor is not None:
            loads[processor.executor] += len(_tasks_of(fleet, processor))
    return loads


def _tasks_of(fleet: Fleet, processor: Processor) -> list[str]:
    container = fleet.model.containers.get(processor.id)
    return list(container.actives) if container else []
