"""What becomes of the tasks of a lost executor when they have copies.

Pure. The JVM lets a task fall to the next living executor of its row at once; the job model follows it: the task is
active on the processor that took it, whose standby of it is no more. So an executor that comes back to the lost
processor, cold, does not get the task first. Tasks without a copy stay with the lost processor until the rebind
timeout. A processor that an operator has just moved goes back with all its tasks to where it came from.

Who takes tasks over may then have more than others, and a batch is as long as its fullest executor. So it gives away
tasks of its own, in the same plan, to executors with a warm copy of them, and keeps what it has of these as the copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mooring.agent.planning.binding import ask_for_regrouping
from mooring.agent.planning.plan_in_force import with_job_model
from mooring.agent.planning.rebalance_after_failover import rebalanced
from mooring.agent.planning.rows import fallbacks_in_use
from mooring.agent.state.fleet import Fleet
from mooring.model import ContainerModel, TaskModel
from mooring.model.orders import Rows
from mooring.standby import plan_failover


def promote_standbys(fleet: Fleet, published: Rows, now_ms: int) -> Fleet:
    """Make copies active for the tasks whose processor has no executor, and ask for new copies.

    `published` is what the JVM holds: where it fell back to an executor with a copy, that one takes the task.
    """
    if fleet.replication_factor == 1 or not fleet.is_incomplete:
        return fleet
    takers = _takers(fleet, published)
    return ask_for_regrouping(with_job_model(fleet, rebalanced(fleet, _with_takers(fleet, takers), takers)), now_ms)


def with_failovers_counted(before: Fleet, after: Fleet, executor: str) -> Fleet:
    """Count the tasks of the lost executor, by whether another processor has taken them in `after`."""
    carried = {id for id, carrier in before.executor_of.items() if carrier == executor}
    released = before.partition_of_task()
    lost = {task for task, id in before.processor_of_task().items() if id in carried and task in released}
    owner = after.processor_of_task()
    taken = sum(owner.get(task) not in carried for task in lost)
    counts = after.standby_counts
    return replace(
        after,
        standby_counts=replace(
            counts,
            failovers_to_standby=counts.failovers_to_standby + taken,
            failovers_to_any_host=counts.failovers_to_any_host + len(lost) - taken,
        ),
    )


def _takers(fleet: Fleet, published: Rows) -> dict[str, str]:
    """Lost task to the processor that has a copy of it and takes it."""
    returning = {id for id, move in fleet.moves.items() if move.is_switched and move.source in fleet.executors}
    lost = fleet.model.containers.keys() - fleet.executor_of.keys() - returning
    takers: dict[str, str] = {str(task): id for task, id in plan_failover(fleet.model, lost).with_copy.items()}
    refuge = fallbacks_in_use(fleet, published)
    for id, executor in fleet.executor_of.items():
        for task in fleet.model.containers[id].tasks.values() if id in fleet.model.containers else ():
            if task.standby_of in takers and refuge.get(task.standby_of) == executor:
                takers[task.standby_of] = id
    return takers


def _with_takers(fleet: Fleet, takers: Mapping[str, str]) -> list[ContainerModel]:
    containers = fleet.model.containers
    taken: dict[str, list[TaskModel]] = {}
    for container in containers.values():
        for name, task in container.actives.items():
            if name in takers:
                taken.setdefault(takers[name], []).append(task)
    return [
        ContainerModel.of(
            id,
            [task for task in container.tasks.values() if not _has_gone(task, id, takers)] + taken.get(id, []),
            container.location_id,
        )
        for id, container in containers.items()
    ]


def _has_gone(task: TaskModel, processor: str, takers: Mapping[str, str]) -> bool:
    """Whether it is an active that was taken, or the standby that it was taken with."""
    if task.standby_of is None:
        return task.task_name in takers
    return takers.get(task.standby_of) == processor
