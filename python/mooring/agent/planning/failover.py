"""Failover: when an executor is lost, its tasks become active on processors that have a standby of them.

The functions are pure. The JVM acts first: it runs each task of a lost executor on the next living executor of the
task's row. The job model then follows. The task becomes active on the processor that runs it, and the standby of the
task on that processor is removed. Later a new executor of the lost processor gets tasks again. The agent first waits
until the tasks have warm copies on that executor, for a limited time. A task without a copy stays with the lost
processor until the rebind timeout. A processor that an operator has just moved is an exception: all its tasks return to
the executor that it came from.

A processor that got tasks this way may now have more tasks than others, and a batch takes as long as the executor with
the most tasks needs. The same job model therefore rebalances: see `mooring.agent.planning.rebalance_after_failover`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mooring.agent.planning.accepted_job_model import with_job_model
from mooring.agent.planning.binding import ask_for_regrouping
from mooring.agent.planning.rebalance_after_failover import rebalanced
from mooring.agent.planning.rows import executors_in_use
from mooring.agent.state.fleet import Fleet
from mooring.model import ContainerModel, TaskModel
from mooring.model.orders import Rows
from mooring.standby import choose_new_owners


def with_failover(fleet: Fleet, published: Rows, now_ms: int) -> Fleet:
    """The fleet after failover: tasks whose processor has no executor are active where they have a standby.

    A regrouping is asked for, which makes new copies. `published` are the rows that the JVM holds: where the JVM
    already runs a task at one of its standbys, that standby becomes the active.
    """
    if fleet.settings.replication_factor == 1 or not fleet.is_incomplete:
        return fleet
    new_owners = _new_owners(fleet, published)
    containers = rebalanced(fleet, _with_new_owners(fleet, new_owners), new_owners)
    return ask_for_regrouping(with_job_model(fleet, containers), now_ms)


def with_failovers_counted(before: Fleet, after: Fleet, executor: str) -> Fleet:
    """`after` with the tasks of the lost executor counted: those that moved to a standby, and the others."""
    lost_processors = {id for id, carrier in before.executor_of.items() if carrier == executor}
    released = before.partition_of_task()
    lost = {task for task, id in before.processor_of_task().items() if id in lost_processors and task in released}
    owner = after.processor_of_task()
    moved = sum(owner.get(task) not in lost_processors for task in lost)
    counts = after.standby_report.counts
    counts = replace(
        counts,
        failovers_to_standby=counts.failovers_to_standby + moved,
        failovers_to_any_host=counts.failovers_to_any_host + len(lost) - moved,
    )
    return replace(after, standby_report=replace(after.standby_report, counts=counts))


def _new_owners(fleet: Fleet, published: Rows) -> dict[str, str]:
    """Maps each lost task to the processor whose standby of it becomes active.

    Where the JVM runs the task at a standby, the new owner is the processor of that standby. Otherwise
    `choose_new_owners` decides.
    """
    returning = {id for id, move in fleet.ongoing.moves.items() if move.is_switched and move.source in fleet.executors}
    lost = fleet.model.containers.keys() - fleet.executor_of.keys() - returning
    new_owners: dict[str, str] = {str(task): id for task, id in choose_new_owners(fleet.model, lost).items()}
    in_use = executors_in_use(fleet, published)
    for id, executor in fleet.executor_of.items():
        for task in fleet.model.containers[id].tasks.values() if id in fleet.model.containers else ():
            if task.standby_of in new_owners and in_use.get(task.standby_of) == executor:
                new_owners[task.standby_of] = id
    return new_owners


def _with_new_owners(fleet: Fleet, new_owners: Mapping[str, str]) -> list[ContainerModel]:
    """The containers of the job model with each lost task on its new owner, without the standby that it replaces."""
    containers = fleet.model.containers
    gained: dict[str, list[TaskModel]] = {}
    for container in containers.values():
        for name, task in container.actives.items():
            if name in new_owners:
                gained.setdefault(new_owners[name], []).append(task)
    return [
        ContainerModel.of(
            id,
            [task for task in container.tasks.values() if not _is_removed(task, id, new_owners)] + gained.get(id, []),
            container.location_id,
        )
        for id, container in containers.items()
    ]


def _is_removed(task: TaskModel, processor: str, new_owners: Mapping[str, str]) -> bool:
    """Whether the task leaves this processor: an active with a new owner, or the standby that it replaces there."""
    if task.standby_of is None:
        return task.task_name in new_owners
    return new_owners.get(task.standby_of) == processor
