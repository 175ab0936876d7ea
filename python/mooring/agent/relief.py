"""Who has taken tasks over gives tasks of its own to executors that have fewer, and a warm copy of them.

Pure. Task and copy change places, so nothing is fetched, and each task has as many copies as before. What is evened out
is the number of each query's tasks on each executor: a batch is as long as its fullest executor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mooring.agent.copies import MOST_LAG_VERSIONS
from mooring.agent.fleet import Fleet
from mooring.model import ContainerModel, TaskModel, TaskName, natural_order


class _Change(NamedTuple):
    """An active task and the standby that change places, and how many more of its query's tasks the giver has."""

    gap: int
    giver: str
    active: TaskModel
    taker: str
    standby: TaskModel


def relieved(fleet: Fleet, containers: Sequence[ContainerModel], takers: Mapping[str, str]) -> list[ContainerModel]:
    """The containers after such changes: as many as the copies allow, those between the most uneven ones first.

    `takers` maps the tasks that were taken over to the processors that have them now; these tasks stay there.
    A processor of which an operator has said something stays as it is. So do all where it is not the number of tasks
    that is to be even: with a grouper of the user's, or one that weighs bytes.
    """
    if fleet.grouping.is_users or fleet.grouping.by_bytes:
        return list(containers)
    tasks = {container.processor_id: dict(container.tasks) for container in containers}
    while change := max(_changes(fleet, tasks, takers), key=lambda found: found.gap, default=None):
        del tasks[change.giver][change.active.task_name], tasks[change.taker][change.standby.task_name]
        tasks[change.giver][change.standby.task_name] = change.standby
        tasks[change.taker][change.active.task_name] = change.active
    return [
        ContainerModel.of(held.processor_id, tasks[held.processor_id].values(), held.location_id) for held in containers
    ]


def _changes(
    fleet: Fleet, tasks: Mapping[str, Mapping[TaskName, TaskModel]], takers: Mapping[str, str]
) -> Iterator[_Change]:
    """Each that brings two executors closer in a query, and not further apart in all."""
    bound, partition_of = fleet.executor_of, fleet.partition_of_task()
    owner = {name: id for id, held in tasks.items() for name, task in held.items() if task.standby_of is None}
    sizes = Counter(
        (bound[id], partition_of[name][0]) for name, id in owner.items() if id in bound and name in partition_of
    )
    loads = Counter(bound[id] for id in owner.values() if id in bound)
    able = _without_the_operators_own(fleet)
    givers = able & set(takers.values())
    for taker in sorted(able & fleet.open_places.keys() & tasks.keys(), key=natural_order):
        for standby in tasks[taker].values():
            name = standby.standby_of
            giver = owner.get(name, "") if name else ""
            if name is None or giver not in givers or name in takers or name not in partition_of:
                continue
            query, partition = partition_of[name]
            seen = fleet.copies.get((query, partition, bound[taker]))
            gap = sizes[bound[giver], query] - sizes[bound[taker], query]
            is_warm = seen is not None and seen.lag_versions <= MOST_LAG_VERSIONS
            if is_warm and gap >= 2 and loads[bound[giver]] > loads[bound[taker]]:
                yield _Change(gap, giver, tasks[giver][name], taker, standby)


def _without_the_operators_own(fleet: Fleet) -> frozenset[str]:
    """The processors that have an executor, without those that are moved, and those whose copies have been told off."""
    told = {fleet.base_of(id) for id in (*fleet.moves, *fleet.pinned_standbys, *fleet.stopped_standbys)}
    return frozenset(fleet.executor_of.keys() - told)
