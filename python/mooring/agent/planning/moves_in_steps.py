"""Large moves go in steps: in each step a few processors receive tasks, and the next step waits until those run.

The functions are pure. Only tasks of a processor with an executor are held back for a later step. Tasks that have never
run, and tasks whose processor has no executor, move in the first step: nothing of them is running.

Example: processors 3, 4 and 5 join, and the balanced job model gives tasks to each of them. With `most_receivers` 1
there are three steps: the first moves the tasks of processor 3, the second those of 4, the last those of 5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mooring.agent.state.fleet import Fleet
from mooring.model import ContainerModel, JobModel, TaskModel, named_location, natural_order

IDLE_MS: Final = 10_000
"""How long a step waits for a batch on the receivers, in addition to the time of two batches."""


@dataclass(frozen=True, slots=True)
class Step:
    """A job model between the in-place one and the target. `receivers` get tasks of other processors in this step.

    `is_last` tells that `model` is the target.
    """

    model: JobModel
    receivers: tuple[str, ...]
    is_last: bool


def next_step(fleet: Fleet, in_place: JobModel, target: JobModel) -> Step:
    """The next step from the in-place job model to the target, with at most `fleet.settings.most_receivers` receivers.

    Both job models have the same tasks and no standbys. The receivers come first in natural order of their ids. When a
    step is the newest job model, the same call returns the step after it. Without a rebind timeout there is one step,
    the target, because nothing waits.
    """
    target_of = _owners(target)
    moving = _moving_tasks(fleet, in_place, target)
    receivers = tuple(sorted(set(moving.values()), key=natural_order))
    first = receivers[: fleet.settings.most_receivers] if fleet.timing.rebind_timeout_ms else receivers
    if first == receivers:
        return Step(target, receivers, is_last=True)
    later = {name for name, id in moving.items() if id not in first}
    current = _owners(in_place)
    tasks_on: dict[str, list[TaskModel]] = {id: [] for id in fleet.processors}
    for container in in_place.containers.values():
        for name, task in container.tasks.items():
            tasks_on[current[name] if name in later else target_of[name]].append(task)
    containers = [ContainerModel.of(id, tasks, named_location(fleet.locations[id])) for id, tasks in tasks_on.items()]
    return Step(replace(target, containers=JobModel.of(containers).containers), first, is_last=False)


def with_step_started(fleet: Fleet, step: Step, now_ms: int) -> Fleet:
    """The fleet with a time limit for the step to settle; unchanged when the step has no receivers.

    The limit is `IDLE_MS` and the time of two batches of the slowest query.
    """
    if not step.receivers:
        return fleet
    longest = max((query.batch_ms for query in fleet.queries.values()), default=0)
    return replace(fleet, timers=replace(fleet.timers, new_batches_ignored_after_ms=now_ms + IDLE_MS + 2 * longest))


def is_settled(fleet: Fleet) -> bool:
    """Whether every query runs as planned: each task of its last batch ran on the executor where the plan has it.

    A task whose planned executor, or last executor, is lost does not count.
    """
    has_no_batch_yet = any(query.is_in_a_batch and not query.ran_on for query in fleet.queries.values())
    return not _misplaced_queries(fleet) and not has_no_batch_yet


def is_waiting_for_batches(fleet: Fleet, since_ms: int) -> bool:
    """Whether a query that has not settled is in a batch that began at `since_ms` or before.

    A query has not settled when a task of its last batch ran elsewhere than planned, or when it has had no batch.
    """
    misplaced = _misplaced_queries(fleet)
    return any(
        query.is_in_a_batch and query.began_at_ms <= since_ms and (not query.ran_on or query.id in misplaced)
        for query in fleet.queries.values()
    )


def _misplaced_queries(fleet: Fleet) -> set[str]:
    """The ids of queries whose last batch ran a task on a living executor other than the planned one.

    Tasks that are lent to other executors do not count.
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


def _moving_tasks(fleet: Fleet, in_place: JobModel, target: JobModel) -> dict[str, str]:
    """Task to its processor in the target, for tasks that have run, and that leave a processor with an executor."""
    current, partition_of, executor_of = fleet.processor_of_task(), fleet.partition_of_task(), fleet.executor_of
    in_place_owner = _owners(in_place)
    return {
        name: id
        for name, id in _owners(target).items()
        if id != in_place_owner[name]
        and current.get(name) in executor_of
        and name in partition_of
        and fleet.queries[partition_of[name][0]].batch >= 0
    }


def _owners(model: JobModel) -> dict[str, str]:
    """Task to the processor that has it."""
    return {name: id for id, container in model.containers.items() for name in container.tasks}
