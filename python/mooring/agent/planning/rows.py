"""Rows for the scheduler: for each task the executors that may run it, in order of preference.

The functions are pure. A row lets the JVM act alone when an executor is lost: it runs the task on the next living
executor of the row. The first executor is that of the task's processor. After it come the executors with a copy of the
task, in the order of `failover_order`. Then comes a fallback at the same location, or else the least loaded executor.
The last executors of the row serve further losses.

Example: task t runs on executor 1, executor 3 has its copy, and executor 2 is on the same host as executor 1. The row
of t begins with 1, 3, 2.

Two kinds of tasks have another first executor: tasks whose processor has no executor at the moment, and tasks that are
lent (`mooring.agent.planning.lending`).
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
"""How many fallbacks a row names: executors after the first one and those with copies.

They serve further losses that happen before the agent has answered the first one."""


def plan_rows(fleet: Fleet, published: Rows) -> Rows:
    """The rows of every released query: query id to partition to executors.

    `published` are the rows that the JVM holds now. A task whose processor has no executor stays where it already runs.
    """
    loads = loads_of(fleet)
    with_copies = _executors_with_copies(fleet)
    last_resorts = _last_resorts(fleet, loads)
    usable = _usable(fleet, loads)
    in_use = {task: id for task, id in executors_in_use(fleet, published).items() if id in usable}
    row_of: dict[str, tuple[str, ...]] = {}
    # Tasks without their own executor come first: they really run elsewhere, so they count as load there.
    for processor in sorted(fleet.processors.values(), key=lambda p: (_has_its_tasks(fleet, p), natural_order(p.id))):
        tasks = sorted(_tasks_of(fleet, processor), key=natural_order)
        if processor.executor is None:
            unbound = {task: (in_use[task], *with_copies.get(task, ())) for task in tasks if task in in_use}
            unbound |= {task: with_copies[task] for task in tasks if task in with_copies and task not in in_use}
            for named in unbound.values():
                loads[named[0]] += 1
            row_of |= {task: _row(fleet, last_resorts, *named) for task, named in unbound.items()}
            tasks = [task for task in tasks if task not in unbound]
        lent = _lent(fleet, processor, tasks)
        not_lent = [task for task in tasks if task not in lent]
        row_of |= _rows_of_own(processor, not_lent, fleet, loads, last_resorts, with_copies)
        row_of |= _rows_of_lent(processor, lent, fleet, loads, with_copies, in_use)
    return {
        query.id: rows
        for query in fleet.queries.values()
        if query.is_released and (rows := _rows_of_query(query, row_of))
    }


def executors_in_use(fleet: Fleet, published: Rows) -> dict[str, str]:
    """Maps each task to the executor on which the JVM runs it by the published rows.

    That is the first executor of the row that lives and gets tasks from Spark.
    """
    return {
        fleet.queries[query].task_name(partition): living[0]
        for query, rows in published.items()
        if query in fleet.queries
        for partition, row in rows.items()
        if (living := [id for id in row if id in fleet.executors and id not in fleet.withheld])
    }


def loads_of(fleet: Fleet) -> dict[str, int]:
    """Maps each living executor to the number of active tasks of its processors; 0 for executors without tasks."""
    loads = dict.fromkeys(fleet.executors, 0)
    for processor in fleet.processors.values():
        if processor.executor in loads and processor.executor is not None:
            loads[processor.executor] += len(_tasks_of(fleet, processor))
    return loads


def _rows_of_query(query: Query, row_of: Mapping[str, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    """Maps each partition to its row, from the rows by task name in `row_of`."""
    names = {partition: query.task_name(partition) for partition in range(query.task_count)}
    return {partition: row_of[name] for partition, name in names.items() if row_of.get(name)}


def _last_resorts(fleet: Fleet, loads: Mapping[str, int]) -> list[str]:
    """The executors for the ends of all rows: those that get tasks come first, then open hosts, then the least load."""
    return heapq.nsmallest(
        FALLBACKS + fleet.settings.replication_factor,
        loads,
        key=lambda id: (
            id in fleet.withheld,
            fleet.executors[id].location in fleet.overrides.drained,
            loads[id],
            natural_order(id),
        ),
    )


def _executors_with_copies(fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """Maps each task to the living executors with a copy of it, in failover order. Tasks without any are left out."""
    if fleet.settings.replication_factor == 1:
        return {}
    executor_of = fleet.executor_of
    return {
        task: living
        for task, processors in _failover_order(fleet.model).items()
        if (living := tuple(executor_of[id] for id in processors if id in executor_of))
    }


@lru_cache(maxsize=1)
def _failover_order(model: JobModel) -> Mapping[TaskName, tuple[str, ...]]:
    """`failover_order` of the newest job model, cached because it is needed at each event."""
    return failover_order(model)


def _rows_of_own(
    processor: Processor,
    tasks: list[str],
    fleet: Fleet,
    loads: dict[str, int],
    last_resorts: list[str],
    with_copies: Mapping[str, tuple[str, ...]],
) -> dict[str, tuple[str, ...]]:
    """The rows of a processor's tasks that are not lent, and that no other executor runs yet.

    The fallback of each task is an executor at the same location, or else any; the least loaded one comes first.
    `loads` is changed only when the tasks do not run on their processor: then they run on their fallbacks.
    """
    others = _usable(fleet, [id for id in loads if id != processor.executor])
    near = [id for id in others if fleet.executors[id].location == processor.location]
    counted = dict(loads) if _has_its_tasks(fleet, processor) else loads
    queue = [(counted[id], natural_order(id), id) for id in near or others]
    heapq.heapify(queue)
    first: tuple[str, ...] = (processor.executor,) if processor.executor else ()
    source, destination = _ends_of_its_move(processor, fleet)
    first += source
    rows: dict[str, tuple[str, ...]] = {}
    for task in tasks:
        if queue:
            load, order, fallback = queue[0]
            heapq.heapreplace(queue, (load + 1, order, fallback))
            counted[fallback] = load + 1
            rows[task] = _row(fleet, last_resorts, *first, *with_copies.get(task, ()), *destination, fallback)
        else:
            rows[task] = first
    return rows


def _lent(fleet: Fleet, processor: Processor, tasks: list[str]) -> dict[str, str]:
    """Maps task to query id, for the tasks that are lent because the processor's executor serves them badly."""
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
    with_copies: Mapping[str, tuple[str, ...]],
    runs_on: Mapping[str, str],
) -> dict[str, tuple[str, ...]]:
    """The rows of a processor's lent tasks. Each row ends with the processor's own executor.

    `runs_on` maps tasks to the executors on which the JVM runs them now: a task that is already lent stays there.
    Otherwise executors with a copy come first, then the least loaded ones, at another location where possible.
    """
    own = processor.executor or ""
    borrowers_of = {query: _borrowers(fleet, processor, query, loads) for query in lent.values()}
    stays_on = {task: runs_on[task] for task, query in lent.items() if runs_on.get(task) in borrowers_of[query]}
    for id in stays_on.values():
        loads[id] += 1
        loads[own] -= 1
    rows: dict[str, tuple[str, ...]] = {}
    for task, query in lent.items():
        borrowers = borrowers_of[query]
        by_load = heapq.nsmallest(FALLBACKS, borrowers, key=lambda id: (loads[id], natural_order(id)))
        copies = [id for id in with_copies.get(task, ()) if id in borrowers]
        row = tuple(dict.fromkeys((*([stays_on[task]] if task in stays_on else []), *copies, *by_load)))
        for id in row[:1] if task not in stays_on else ():
            loads[id] += 1
            loads[own] -= 1
        rows[task] = (*row, own)
    return rows


def _borrowers(fleet: Fleet, processor: Processor, query: str, executors: Collection[str]) -> list[str]:
    """The executors that may run lent tasks of this query and processor: at another location where there is one."""
    others = [id for id in _usable(fleet, executors) if (query, id) not in fleet.lending.loans]
    return [id for id in others if fleet.executors[id].location != processor.location] or others


def _has_its_tasks(fleet: Fleet, processor: Processor) -> bool:
    """Whether the processor's tasks run on its executor: it has one, and Spark gives it tasks."""
    return processor.executor is not None and processor.executor not in fleet.withheld


def _usable(fleet: Fleet, executors: Collection[str]) -> Collection[str]:
    """The executors to which Spark gives tasks, without those at drained hosts. All of them when none is left."""
    with_tasks = [id for id in executors if id not in fleet.withheld] or executors
    return [id for id in with_tasks if fleet.executors[id].location not in fleet.overrides.drained] or with_tasks


def _ends_of_its_move(processor: Processor, fleet: Fleet) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The living source of the processor's move once it has switched, and its living destination before that.

    The source has all files of the tasks. The destination may have only some of them.
    """
    move = fleet.ongoing.moves.get(processor.id)
    if move is None:
        return (), ()
    end = tuple(id for id in (move.source if move.is_switched else move.destination,) if id in fleet.executors)
    return (end, ()) if move.is_switched else ((), end)


def _row(fleet: Fleet, last_resorts: list[str], *named: str) -> tuple[str, ...]:
    """The named executors, each once, then last resorts up to the length of a row."""
    return tuple(dict.fromkeys((*named, *last_resorts)))[: FALLBACKS + fleet.settings.replication_factor]


def _tasks_of(fleet: Fleet, processor: Processor) -> list[str]:
    """The names of the processor's active tasks."""
    container = fleet.model.containers.get(processor.id)
    return list(container.actives) if container else []
