"""The copies of the tasks: which executors are to hold them, and how far behind each copy is.

The functions are pure. The job model says which processors hold standbys; these functions translate processors into
executors. A copy is *warm* when it is at most `MOST_LAG_VERSIONS` versions behind the newest commit. It is *caught up*
when it is not behind. A copy whose last update failed is warm only when it is caught up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from mooring.agent.state.fleet import Fleet, SeenCopy
from mooring.model import JobModel, TaskModel, TaskName, events, natural_order, standby_name
from mooring.model.orders import Copies, Rows

MOST_LAG_VERSIONS: Final = 1
"""How many versions a warm copy may be behind. With frequent commits a copy is never seen at the newest version."""

CopyId = tuple[str, int, str]
"""Query id, partition, executor."""


def wanted_copies(fleet: Fleet, rows: Rows) -> Copies:
    """Which executors are to hold a copy now, for released queries: query id to partition to executors.

    The executors are in the order of the replicas. No copy is wanted at the location where the task runs, which is that
    of the first living executor of its row. No copy is wanted while the task runs nowhere.
    """
    executors_of: dict[str, dict[int, list[str]]] = {}
    for query, partition, executor in _copy_ids(fleet, fleet.model):
        row = rows.get(query, {}).get(partition, ())
        runs_at = next((fleet.executors[id].location for id in row if id in fleet.executors), None)
        if runs_at is not None and fleet.executors[executor].location != runs_at:
            executors_of.setdefault(query, {}).setdefault(partition, []).append(executor)
    return {
        query: {partition: tuple(executors) for partition, executors in sorted(by_partition.items())}
        for query, by_partition in executors_of.items()
    }


def with_seen_copies(fleet: Fleet, seen: events.CopiesSeen) -> Fleet:
    """The fleet with the reported copies of a query. Copies that are not in the job model are ignored."""
    reported = {
        (seen.query, copy.partition, copy.executor): SeenCopy(
            max(0, seen.version - copy.version), copy.lag_ms, copy.local_bytes, copy.trouble, copy.trouble_ms
        )
        for copy in seen.copies
    }
    return without_gone_copies(replace(fleet, copies={**fleet.copies, **reported}))


def without_gone_copies(fleet: Fleet) -> Fleet:
    """The fleet without copies that the job model no longer has, or whose executor or query is gone."""
    if not fleet.copies:
        return fleet
    existing = set(_copy_ids(fleet, fleet.model))
    return replace(fleet, copies={id: copy for id, copy in fleet.copies.items() if id in existing})


def standbys_of(fleet: Fleet, model: JobModel) -> dict[str, dict[TaskModel, SeenCopy | None]]:
    """Processor id to its standbys in this model, each with its last report; None when there was no report."""
    partition_of, executor_of = fleet.partition_of_task(), fleet.executor_of
    return {
        id: {
            task: fleet.copies.get((*partition_of.get(task.standby_of, ("", -1)), executor_of.get(id, "")))
            for task in container.tasks.values()
            if task.standby_of is not None
        }
        for id, container in model.containers.items()
    }


def are_caught_up(fleet: Fleet, model: JobModel, processors: Collection[str]) -> bool:
    """Whether all copies that these processors have in this model are caught up."""
    standbys = standbys_of(fleet, model)
    seen = [copy for id in processors for copy in standbys.get(id, {}).values()]
    return all(copy is not None and copy.lag_versions == 0 for copy in seen)


def all_warm(fleet: Fleet) -> bool:
    """Whether every copy that can be made is warm.

    Here only the lag decides: also a copy whose last update failed may be one version behind.
    """
    partition_of = fleet.partition_of_task()
    return all(
        copy is not None and copy.lag_versions <= MOST_LAG_VERSIONS
        for id, standbys in standbys_of(fleet, fleet.model).items()
        if id in fleet.executor_of
        for task, copy in standbys.items()
        if task.standby_of in partition_of and fleet.queries[partition_of[task.standby_of][0]].can_be_copied
    )


def transfer_allowance_ms(fleet: Fleet, coming: Iterable[tuple[str, str | None]]) -> int:
    """How long the state of these tasks may need to get to these executors, in milliseconds.

    `coming` are pairs of task and executor. The result is twice the time that the slowest executor needs at the limit
    `copy_bytes_a_second`.
    """
    sizes = fleet.expected_bytes()
    bytes_to: Counter[str] = Counter()
    for name, executor in set(coming):
        if executor is not None:
            bytes_to[executor] += sizes.get(name, 0)
    return 2 * 1000 * max(bytes_to.values(), default=0) // fleet.timing.copy_bytes_a_second


def all_copies(fleet: Fleet) -> list[tuple[str, str | None]]:
    """The copies in the newest job model: pairs of task and executor."""
    executor_of = fleet.executor_of
    return [
        (task.standby_of, executor_of.get(id))
        for id, container in fleet.model.containers.items()
        for task in container.tasks.values()
        if task.standby_of is not None
    ]


def cold_copies(fleet: Fleet, model: JobModel, processors: Collection[str]) -> list[tuple[str, str | None]]:
    """The copies that these processors have in this model and that are not warm: pairs of task and executor."""
    executor_of, standbys = fleet.executor_of, standbys_of(fleet, model)
    return [
        (task.standby_of, executor_of.get(id))
        for id in processors
        for task, seen in standbys.get(id, {}).items()
        if task.standby_of is not None and (seen is None or seen.lag_versions > MOST_LAG_VERSIONS)
    ]


def copies_of_standby(fleet: Fleet, standby: str) -> dict[str, str]:
    """Active task to the processor that holds its copy, for all tasks of a processor's standby, such as 4-0."""
    named = {standby_name(task, replica): task for _, task, replica in tasks_of_standbys(fleet, fleet.model, [standby])}
    return {
        named[name]: id
        for id, container in fleet.model.containers.items()
        if id in fleet.processors
        for name in container.tasks
        if name in named
    }


def tasks_of_standbys(fleet: Fleet, model: JobModel, standbys: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """For each of these standbys of processors: the standby, each active task of its processor, and the replica.

    The standby 4-0 is replica 0 of each active task of processor 4.
    """
    known = fleet.standby_ids() if standbys else {}
    for standby in standbys:
        id, replica = known.get(standby, ("", 0))
        for name in model.containers[id].actives if id in model.containers else ():
            yield standby, name, replica


def warm_at(fleet: Fleet, location: str) -> set[tuple[str, int]]:
    """Query id and partition of the warm copies at this location. Executors of one host share their files."""
    return {
        (query, partition)
        for (query, partition, executor), copy in fleet.copies.items()
        if copy.lags_at_most(MOST_LAG_VERSIONS)
        and executor in fleet.executors
        and fleet.executors[executor].location == location
    }


def is_warm_at(fleet: Fleet, query: str, partition: int, executors: Iterable[str]) -> bool:
    """Whether one of these executors has a warm copy of the partition."""
    return is_copied_to(fleet, query, partition, executors, MOST_LAG_VERSIONS)


def is_copied_to(fleet: Fleet, query: str, partition: int, executors: Iterable[str], most_lag: int) -> bool:
    """Whether one of these executors has a copy of the partition that is at most `most_lag` versions behind."""
    seen = (fleet.copies.get((query, partition, executor)) for executor in executors)
    return any(copy is not None and copy.lags_at_most(most_lag) for copy in seen)


def trouble_at(fleet: Fleet, query: str, partition: int, executors: Iterable[str], for_ms: int) -> str:
    """Why these executors can not make the copy of the partition, when attempts have failed for at least `for_ms`.

    Empty when an attempt succeeded, or when the failures began later.
    """
    seen = (fleet.copies.get((query, partition, executor)) for executor in executors)
    return next((copy.trouble for copy in seen if copy is not None and copy.trouble and copy.trouble_ms >= for_ms), "")


def tasks_still_cold(fleet: Fleet) -> list[TaskName]:
    """The tasks in `fleet.tasks_to_warm_up` that have no warm copy at the location of their new processor."""
    partition_of = fleet.partition_of_task()
    destinations = {fleet.locations[id] for id in fleet.tasks_to_warm_up.values()}
    warm = {location: warm_at(fleet, location) for location in destinations}
    return [
        TaskName(name)
        for name, id in fleet.tasks_to_warm_up.items()
        if partition_of[name] not in warm[fleet.locations[id]]
    ]


def _copy_ids(fleet: Fleet, model: JobModel) -> list[CopyId]:
    """The copies that living executors are to hold: first the standbys of the model, then the tasks being warmed up.

    The standbys of one task are in the order of their replicas. `fleet.ongoing.closed_standbys` are left out.
    """
    partition_of, executor_of = fleet.partition_of_task(), fleet.executor_of
    named = [
        (name, (*partition_of[task.standby_of], executor_of[id]))
        for id, container in model.containers.items()
        for name, task in container.tasks.items()
        if task.standby_of is not None and task.standby_of in partition_of and id in executor_of
    ]
    of_closed = tasks_of_standbys(fleet, model, fleet.ongoing.closed_standbys)
    closed = {standby_name(task, replica) for _, task, replica in of_closed}
    planned = [copy for name, copy in sorted(named, key=lambda entry: natural_order(entry[0])) if name not in closed]
    return [*planned, *_warming_up(fleet, model, planned)]


def _warming_up(fleet: Fleet, model: JobModel, planned: list[CopyId]) -> list[CopyId]:
    """The tasks that are to move, by a request or a step, each at the executor that will run it.

    A task with a planned copy at that location is left out: executors of one host share their files.
    """
    if not fleet.ongoing.moves and not fleet.tasks_to_warm_up:
        return []
    partition_of, executor_of = fleet.partition_of_task(), fleet.executor_of
    held = {(query, partition, fleet.executors[executor].location) for query, partition, executor in planned}
    coming: list[tuple[str, str]] = [
        (name, move.destination)
        for id, move in fleet.ongoing.moves.items()
        if not move.is_switched and fleet.base_of(id) in model.containers
        for name in model.containers[fleet.base_of(id)].actives
    ]
    coming += [(name, executor_of.get(id, "")) for name, id in fleet.tasks_to_warm_up.items()]
    return [
        (*partition_of[name], executor)
        for name, executor in dict(coming).items()
        if name in partition_of
        and executor in fleet.executors
        and (*partition_of[name], fleet.executors[executor].location) not in held
    ]
