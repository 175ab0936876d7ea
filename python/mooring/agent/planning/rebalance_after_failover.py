"""After a failover, processors with too many tasks exchange actives for standbys with processors that have fewer.

The functions are pure. In an exchange, a task becomes active where its standby was, and a standby stays where the
active was. So at most the newest changelog is fetched, and each task keeps its number of copies. The exchanges even
out the number of each query's tasks on each executor, because a batch takes as long as the executor with the most
tasks needs.

Example: executor 1 has 6 tasks of a query after a failover, and executor 2 has 4. Executor 2 has a warm copy of task t
of executor 1. Task t becomes active on executor 2, executor 1 keeps a copy of it, and both have 5 tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mooring.agent.planning.copies import is_warm_at
from mooring.agent.planning.rows import loads_of
from mooring.agent.state.fleet import Fleet
from mooring.model import ContainerModel, JobModel, TaskModel, TaskName, natural_order


class _Exchange(NamedTuple):
    """An active task on the processor `giver`, and its standby on the processor `receiver`, which may change places."""

    query: str
    giver: str
    active: TaskModel
    receiver: str
    standby: TaskModel


def rebalanced(
    fleet: Fleet, containers: Sequence[ContainerModel], new_owners: Mapping[str, str]
) -> list[ContainerModel]:
    """The containers after all useful exchanges, with the largest differences evened out first.

    `new_owners` maps the tasks of the failover to the processors that have them now; those tasks stay there. Nothing
    changes where the number of tasks need not be even: with a grouper of the user, with a grouper that uses a fixed
    number of processors, and when bytes are balanced.
    """
    if (
        fleet.settings.grouping.is_users
        or fleet.settings.grouping.by_bytes
        or fleet.settings.grouping.make(None, None).most_processors is not None
    ):
        return list(containers)
    executor_of = fleet.executor_of
    tasks = {container.processor_id: dict(container.tasks) for container in containers}
    exchanges = _possible_exchanges(fleet, tasks, new_owners)
    loads = Counter(loads_of(replace(fleet, model=JobModel.of(containers))))
    partition_of = fleet.partition_of_task()
    query_sizes = Counter(
        (executor_of[id], partition_of[name][0])
        for id in executor_of
        for name in tasks.get(id, ())
        if name in partition_of
    )

    def difference(exchange: _Exchange) -> int:
        """How many more tasks of the query the giver's executor has; 0 when it has no more tasks in total."""
        giver, receiver = executor_of[exchange.giver], executor_of[exchange.receiver]
        if loads[giver] <= loads[receiver]:
            return 0
        return query_sizes[giver, exchange.query] - query_sizes[receiver, exchange.query]

    while (best := max(exchanges, key=difference, default=None)) and difference(best) > 1:
        query, giver, active, receiver, standby = best
        tasks[giver][standby.task_name] = tasks[receiver].pop(standby.task_name)
        tasks[receiver][active.task_name] = tasks[giver].pop(active.task_name)
        for executor, change in ((executor_of[giver], -1), (executor_of[receiver], 1)):
            loads[executor] += change
            query_sizes[executor, query] += change
        exchanges = [exchange for exchange in exchanges if exchange.active is not active]
    return [
        ContainerModel.of(container.processor_id, tasks[container.processor_id].values(), container.location_id)
        for container in containers
    ]


def _possible_exchanges(
    fleet: Fleet, tasks: Mapping[str, Mapping[TaskName, TaskModel]], new_owners: Mapping[str, str]
) -> list[_Exchange]:
    """Every exchange that the rules allow, in natural order of the receivers, also those that even out nothing.

    The giver is a processor that got tasks by the failover, and the exchanged task was its own before. The standby is
    warm. The receiver is not on a host that has just lost an executor, because executors of one host are often lost
    one after the other.
    """
    able, executor_of, partition_of = _able_processors(fleet), fleet.executor_of, fleet.partition_of_task()
    giver_of = {
        name: id
        for id in able & set(new_owners.values())
        for name in tasks[id]
        if name in partition_of and name not in new_owners
    }
    locations_with_losses = {location for id, location in fleet.locations.items() if id not in executor_of}
    return [
        _Exchange(partition_of[name][0], giver_of[name], tasks[giver_of[name]][name], receiver, standby)
        for receiver in sorted(able & tasks.keys(), key=natural_order)
        if fleet.locations[receiver] not in locations_with_losses
        for standby in tasks[receiver].values()
        if (name := standby.standby_of) in giver_of and is_warm_at(fleet, *partition_of[name], [executor_of[receiver]])
    ]


def _able_processors(fleet: Fleet) -> frozenset[str]:
    """The processors that may give or receive tasks.

    They have an executor, are not on a drained host, and are free of requests. A spare processor without tasks is not
    one of them while another processor has an executor.

    A processor is not free when an operator moves it, has pinned or stopped its standbys, or restarts its executor.
    """
    requested = {
        fleet.base_of(id)
        for id in (*fleet.ongoing.moves, *fleet.overrides.pinned_standbys, *fleet.overrides.stopped_standbys)
    }
    open, restarting = fleet.open_locations, set(fleet.ongoing.restarts.values())
    return frozenset(
        id
        for id, executor in fleet.executor_of.items()
        if id in open and id not in requested and executor not in restarting
    )
