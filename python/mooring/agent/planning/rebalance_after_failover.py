"""Who has taken tasks over gives tasks of its own to executors that have fewer, and a warm copy of them.

Pure. Task and copy change places, so what is fetched is the newest changelog at most, and each task has as many copies
as before. What is evened out is the number of each query's tasks on each executor: a batch is as long as its fullest
executor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mooring.agent.planning.copies import MOST_LAG_VERSIONS, is_warm_at
from mooring.agent.planning.rows import loads_of
from mooring.agent.state.fleet import Fleet
from mooring.model import ContainerModel, JobModel, TaskModel, TaskName, natural_order


class _Change(NamedTuple):
    """An active task, and the standby at another processor with which it may change places."""

    query: str
    giver: str
    active: TaskModel
    taker: str
    standby: TaskModel


def rebalanced(fleet: Fleet, containers: Sequence[ContainerModel], takers: Mapping[str, str]) -> list[ContainerModel]:
    """The containers after such changes: as many as the copies allow, those between the most uneven ones first.

    `takers` maps the tasks that were taken over to the processors that have them now; these tasks stay there. So does
    all where it is not the number of tasks that is to be even on all processors: by the grouper, or by bytes.
    """
    if (
        fleet.grouping.is_users
        or fleet.grouping.by_bytes
        or fleet.grouping.make(None, None).most_processors is not None
    ):
        return list(containers)
    bound = fleet.executor_of
    tasks = {container.processor_id: dict(container.tasks) for container in containers}
    changes = _possible(fleet, tasks, takers)
    loads = Counter(loads_of(replace(fleet, model=JobModel.of(containers))))
    partition_of = fleet.partition_of_task()
    sizes = Counter(
        (bound[id], partition_of[name][0]) for id in bound for name in tasks.get(id, ()) if name in partition_of
    )

    def gap(change: _Change) -> int:
        """How many more tasks of the query the giver's executor has; 0 where it has no more in all."""
        giver, taker = bound[change.giver], bound[change.taker]
        return sizes[giver, change.query] - sizes[taker, change.query] if loads[giver] > loads[taker] else 0

    while (best := max(changes, key=gap, default=None)) and gap(best) > 1:
        query, giver, active, taker, standby = best
        tasks[giver][standby.task_name] = tasks[taker].pop(standby.task_name)
        tasks[taker][active.task_name] = tasks[giver].pop(active.task_name)
        for executor, more in ((bound[giver], -1), (bound[taker], 1)):
            loads[executor] += more
            sizes[executor, query] += more
        changes = [change for change in changes if change.active is not active]
    return [
        ContainerModel.of(held.processor_id, tasks[held.processor_id].values(), held.location_id) for held in containers
    ]


def _possible(
    fleet: Fleet, tasks: Mapping[str, Mapping[TaskName, TaskModel]], takers: Mapping[str, str]
) -> list[_Change]:
    """Each, by the natural order of its taker; also those that would even out nothing."""
    able, bound, partition_of = _able(fleet), fleet.executor_of, fleet.partition_of_task()
    own = {
        name: id
        for id in able & set(takers.values())
        for name in tasks[id]
        if name in partition_of and name not in takers
    }
    # Executors of a host are lost one after the other: those that are left may be next.
    dying = {place for id, place in fleet.places.items() if id not in bound}
    return [
        _Change(partition_of[name][0], own[name], tasks[own[name]][name], taker, standby)
        for taker in sorted(able & tasks.keys(), key=natural_order)
        if fleet.places[taker] not in dying
        for standby in tasks[taker].values()
        if (name := standby.standby_of) in own
        and is_warm_at(fleet, *partition_of[name], [bound[taker]], MOST_LAG_VERSIONS)
    ]


def _able(fleet: Fleet) -> frozenset[str]:
    """The processors that have an executor, not at drained hosts, of which no operator has said anything.

    Said is: they are on their way, their copies are to be elsewhere, or to be none, their executor is to end.
    """
    told = {fleet.base_of(id) for id in (*fleet.moves, *fleet.pinned_standbys, *fleet.stopped_standbys)}
    open, ending = fleet.open_places, set(fleet.restarts.values())
    return frozenset(
        id for id, executor in fleet.executor_of.items() if id in open and id not in told and executor not in ending
    )
