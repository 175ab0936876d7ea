"""A plan that moves tasks goes in steps: a few processors take tasks over at once, and the next when those work.

Pure. Tasks without a living place, and those that have never run, are in every stage: nothing is to be warmed up for
them, or nobody has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mooring.agent.state.fleet import Fleet
from mooring.model import ContainerModel, JobModel, TaskModel, named_place, natural_order

IDLE_MS: Final = 10_000
"""For how long a batch is waited for, besides the time of two of the last one."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A job model on the way to another one; `receivers` are the processors that take tasks over with it.

    `is_last` says that it is that other one.
    """

    model: JobModel
    receivers: tuple[str, ...]
    is_last: bool


def next_stage(fleet: Fleet, resting: JobModel, target: JobModel) -> Stage:
    """From where tasks are, as `resting` has it, towards the target: to the first receivers in natural order.

    Both have the same tasks, and no standbys. Asked again when that is in force, it is about the next ones. Where there
    is no time to wait for anything, all go at once.
    """
    goes_to = _owners(target)
    taking = _taken_over(fleet, resting, target)
    receivers = tuple(sorted(set(taking.values()), key=natural_order))
    first = receivers[: fleet.most_receivers] if fleet.timing.rebind_timeout_ms else receivers
    if first == receivers:
        return Stage(target, receivers, is_last=True)
    later = {name for name, id in taking.items() if id not in first}
    here = _owners(resting)
    tasks_on: dict[str, list[TaskModel]] = {id: [] for id in fleet.processors}
    for container in resting.containers.values():
        for name, task in container.tasks.items():
            tasks_on[here[name] if name in later else goes_to[name]].append(task)
    containers = [ContainerModel.of(id, tasks, named_place(fleet.places[id])) for id, tasks in tasks_on.items()]
    return Stage(replace(target, containers=JobModel.of(containers).containers), first, is_last=False)


def with_stage_started(fleet: Fleet, stage: Stage, now_ms: int) -> Fleet:
    """With time for the receivers to take over, when there are any: until a batch has run there, or none comes."""
    if not stage.receivers:
        return fleet
    longest = max((query.batch_ms for query in fleet.queries.values()), default=0)
    return replace(fleet, settled_by_ms=now_ms + IDLE_MS + 2 * longest)


def is_settled(fleet: Fleet) -> bool:
    """Whether the last batch of each query ran every task where the plan has it, as far as executors live."""
    return not _astray(fleet) and not any(query.is_in_a_batch and not query.ran_on for query in fleet.queries.values())


def is_waiting_for_batches(fleet: Fleet, since_ms: int) -> bool:
    """Whether a batch runs that began until then, and tasks of its query's last one ran elsewhere, or it had none."""
    astray = _astray(fleet)
    return any(
        query.is_in_a_batch and query.began_at_ms <= since_ms and (not query.ran_on or query.id in astray)
        for query in fleet.queries.values()
    )


def _astray(fleet: Fleet) -> set[str]:
    """The queries whose last batch ran a task on an executor that lives, and where the plan does not have it.

    Not those of tasks that are to run elsewhere for a while.
    """
    owner, executor_of = fleet.processor_of_task(), fleet.executor_of
    return {
        id
        for name, (id, partition) in fleet.partition_of_task().items()
        if (planned := executor_of.get(owner.get(name, ""))) is not None
        and fleet.queries[id].ran_on.get(partition) in fleet.executors
        and fleet.queries[id].ran_elsewhere(partition, planned)
        and not fleet.is_lent(id, partition, planned)
    }


def _taken_over(fleet: Fleet, resting: JobModel, target: JobModel) -> dict[str, str]:
    """The tasks that run on a living processor and go to another one, and that one."""
    here, partition_of, bound = fleet.processor_of_task(), fleet.partition_of_task(), fleet.executor_of
    stays = _owners(resting)
    return {
        name: id
        for name, id in _owners(target).items()
        if id != stays[name]
        and here.get(name) in bound
        and name in partition_of
        and fleet.queries[partition_of[name][0]].batch >= 0
    }


def _owners(model: JobModel) -> dict[str, str]:
    return {name: id for id, container in model.containers.items() for name in container.tasks}
