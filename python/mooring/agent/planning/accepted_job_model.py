"""Makes a planned job model the newest one of the fleet.

`with_accepted` checks a job model with its standbys first. `with_job_model` does not: a failover uses it alone. The
functions are pure. The JVM knows no job model. It gets a *plan*, the rows that are made of the job model. A version
is *in force* when the JVM has the plan of that version, which comes after the barrier (`mooring.agent.publishing`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from mooring.agent.planning.copies import tasks_of_standbys, without_gone_copies
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import StandbyReport
from mooring.errors import InvalidGroupingError
from mooring.grouping import GrouperChoice, check_standbys
from mooring.model import ContainerModel, JobModel, TaskModel, natural_order
from mooring.standby import JobModelWithStandbys, assign_standbys

Queries = Mapping[str, frozenset[TaskModel]]
"""The label of each query to its tasks."""

NOTHING_TO_WARM_UP: Final[Mapping[str, str]] = MappingProxyType({})
"""No task is to be warmed up at another processor."""


def job_model_with_standbys(fleet: Fleet, model: JobModel, choice: GrouperChoice) -> JobModelWithStandbys:
    """The job model with its standbys assigned anew, and the standbys that have no place. See `assign_standbys`."""
    if fleet.settings.replication_factor == 1:
        return JobModelWithStandbys(model)
    return assign_standbys(
        model,
        fleet.settings.replication_factor,
        fleet.model,
        _zones(fleet),
        weights_of(fleet, choice),
        fleet.may_hold_copies,
        fleet.overrides.stopped_standbys,
        _pinned(fleet, model),
    )


def with_accepted(
    fleet: Fleet,
    queries: Queries,
    planned: JobModelWithStandbys,
    choice: GrouperChoice,
    tasks_to_warm_up: Mapping[str, str] = NOTHING_TO_WARM_UP,
) -> tuple[Fleet, list[str]]:
    """The fleet with this job model as its newest, and warnings about standbys that have no place or share a zone.

    `tasks_to_warm_up` maps tasks to the processors where they are to be warmed up for the job model after this one. A
    warning is given once, not again while the condition lasts. Raises InvalidGroupingError when the job model breaks a
    promise.
    """
    if fleet.settings.replication_factor == 1:
        after = with_job_model(without_regrouping(fleet), list(planned.model.containers.values()))
        return without_gone_copies(replace(after, tasks_to_warm_up=tasks_to_warm_up)), []
    _check(fleet, queries, planned, choice)
    known = {(copy.task_name, copy.replica) for copy in fleet.standby_report.unplaced}
    failed = sum((copy.task_name, copy.replica) not in known for copy in planned.unplaced)
    counts = fleet.standby_report.counts
    counts = replace(counts, failed_allocations=counts.failed_allocations + failed)
    after = replace(
        with_job_model(without_regrouping(fleet), list(planned.model.containers.values())),
        standby_report=StandbyReport(planned.unplaced, planned.sharing_zone, counts),
        tasks_to_warm_up=tasks_to_warm_up,
    )
    return without_gone_copies(after), _warnings(fleet, planned)


def with_job_model(fleet: Fleet, containers: list[ContainerModel]) -> Fleet:
    """The fleet with these containers as its job model. The version rises by one when they differ from those before."""
    model = JobModel.of(containers, fleet.model.version, fleet.settings.grouping.config)
    if dict(model.containers) == dict(fleet.model.containers):
        return fleet
    before, after = fleet.processor_of_task(), replace(fleet, model=replace(model, version=model.version + 1))
    changed = frozenset(task for task, owner in after.processor_of_task().items() if before.get(task) != owner)
    return replace(after, changed_tasks=changed)


def without_ended_queries(fleet: Fleet) -> Fleet:
    """The fleet without the tasks of ended queries in its job model. No other task moves.

    The last locations of the removed tasks stay remembered in `task_locality`.
    """
    running = {task.task_name for query in fleet.queries.values() for task in query.tasks}
    remaining = [
        ContainerModel.of(
            container.processor_id,
            (task for name, task in container.tasks.items() if (task.standby_of or name) in running),
            container.location_id,
        )
        for container in fleet.model.containers.values()
    ]
    return with_job_model(fleet, remaining) if remaining else fleet


def without_regrouping(fleet: Fleet) -> Fleet:
    """The fleet with no regrouping due, and with no task being warmed up at another processor."""
    timers = replace(fleet.timers, regroup_at_ms=None, even_out_by_ms=None)
    return replace(fleet, timers=timers, tasks_to_warm_up={})


def weights_of(fleet: Fleet, choice: GrouperChoice) -> dict[str, int] | None:
    """Maps each task to the bytes of its state. None when tasks are counted, or when no size is known."""
    return fleet.state_bytes() or None if choice.by_bytes else None


def _check(fleet: Fleet, queries: Queries, planned: JobModelWithStandbys, choice: GrouperChoice) -> None:
    """Raise InvalidGroupingError when an active task is missing or doubled, or a standby breaks a promise."""
    tasks = [task for tasks in queries.values() for task in tasks]
    _check_each_is_active_once(planned.model, tasks)
    check_standbys(
        planned.model,
        tasks,
        _zones(fleet),
        fleet.settings.replication_factor,
        weights_of(fleet, choice),
        fleet.may_hold_copies,
        fleet.overrides.stopped_standbys,
        _pinned(fleet, planned.model),
    )


def _check_each_is_active_once(model: JobModel, tasks: Collection[TaskModel]) -> None:
    """Check the actives of an in-place job model, which need not be even. `check_job_model` checks balanced ones."""
    times = Counter(task for container in model.containers.values() for task in container.actives.values())
    times.subtract(tasks)
    wrong = min((task.task_name for task, count in times.items() if count), key=natural_order, default=None)
    if wrong is not None:
        raise InvalidGroupingError(f'task "{wrong}" is not active exactly once (the promise: each task exactly once)')


def _warnings(fleet: Fleet, planned: JobModelWithStandbys) -> list[str]:
    """What the user should know of the planned standbys, unless the job model before had standbys of the same kind."""
    warnings = []
    if planned.unplaced and not fleet.standby_report.unplaced:
        first = planned.unplaced[0]
        count = len(planned.unplaced)
        warnings.append(f"{count} standbys have no place, for example that of {first.task_name}: {first.reason}")
    if planned.sharing_zone and not fleet.standby_report.sharing_zone:
        count = len(planned.sharing_zone)
        warnings.append(
            f"{count} standbys are in one zone with another copy,"
            f" for example that of {planned.sharing_zone[0].task_name}"
        )
    return warnings


def _pinned(fleet: Fleet, model: JobModel) -> dict[str, dict[int, str]]:
    """Active task to replica to the location where an operator wants that replica."""
    pinned: dict[str, dict[int, str]] = {}
    for standby, name, replica in tasks_of_standbys(fleet, model, fleet.overrides.pinned_standbys):
        pinned.setdefault(name, {})[replica] = fleet.overrides.pinned_standbys[standby]
    return pinned


def _zones(fleet: Fleet) -> dict[str, str] | None:
    """Maps each location to its zone. None when no zone is known."""
    return {executor.location: executor.zone for executor in fleet.executors.values() if executor.zone} or None
