"""The finished standby plan with names in the place of numbers, and reports of copies that broke a wish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mooring.model import ContainerModel, JobModel, TaskMode, TaskModel, TaskName, natural_order, standby_name
from mooring.standby.copy_plan import CopyPlan
from mooring.standby.problem import NOWHERE, Problem


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A copy that has no processor: the task, the number of the replica from 0, and the reason in plain words."""

    task_name: TaskName
    replica: int
    reason: str


@dataclass(frozen=True, slots=True)
class SharedZone:
    """A copy of the task is in the same zone as its active or another copy, because there are too few zones."""

    task_name: TaskName
    zone: str


@dataclass(frozen=True, slots=True)
class JobModelWithStandbys:
    """A job model with its standbys, and what the user should know of the standbys, in natural order of the tasks.

    `unplaced` are the copies that have no processor. `sharing_zone` is empty when no zones are known.
    """

    model: JobModel
    unplaced: tuple[Unplaced, ...] = ()
    sharing_zone: tuple[SharedZone, ...] = ()


def free_replicas(problem: Problem, factor: int) -> list[list[int]]:
    """For each task the replicas (from 0) that it may have: those whose standby name is not an active task's name."""
    names = {task.task_name for task in problem.tasks}
    return [
        [replica for replica in range(factor - 1) if standby_name(task.task_name, replica) not in names]
        for task in problem.tasks
    ]


def standbys_from(
    model: JobModel,
    plan: CopyPlan,
    replicas: Sequence[Sequence[int]],
    previous: JobModel | None,
    factor: int,
    zones: Mapping[str, str] | None,
) -> JobModelWithStandbys:
    """The finished plan as a job model with reports. `replicas` are the replicas that each task may have."""
    numbered = _numbered(plan, replicas, previous)
    return JobModelWithStandbys(
        _with_standbys(model, plan, numbered),
        tuple(_unplaced(plan.problem, factor, numbered)),
        tuple(_sharing_zone(plan, zones)) if zones else (),
    )


def _numbered(
    plan: CopyPlan, replicas: Sequence[Sequence[int]], previous: JobModel | None
) -> list[list[tuple[int, int]]]:
    """For each task its copies as (replica, processor).

    Pinned copies get the pinned replica. A copy that stays on its processor keeps its replica where that is free. The
    other copies get the free replicas in order.
    """
    before = previous.containers if previous else {}
    numbered = []
    for task, at in enumerate(plan.at):
        name = plan.problem.tasks[task].task_name
        free, unnumbered = list(replicas[task]), []
        found: list[tuple[int, int]] = []
        for location, replica in plan.problem.pinned[task].items():
            if location in at and replica in free:
                free.remove(replica)
                found.append((replica, at[location]))
        for p in sorted(set(at.values()) - {p for _, p in found}):
            processor = plan.problem.processors[p]
            held: Mapping[TaskName, TaskModel] = before[processor].tasks if processor in before else {}
            known = [
                replica
                for replica in free
                if (standby := held.get(standby_name(name, replica))) is not None and standby.standby_of == name
            ]
            if known and plan.is_at_home(task, p):
                free.remove(known[0])
                found.append((known[0], p))
            else:
                unnumbered.append(p)
        numbered.append(sorted(found + list(zip(free, unnumbered, strict=False))))
    return numbered


def _with_standbys(model: JobModel, plan: CopyPlan, numbered: Sequence[Sequence[tuple[int, int]]]) -> JobModel:
    """The job model with these copies as standbys, and no others."""
    standbys: dict[str, list[TaskModel]] = {}
    for task, copies in zip(plan.problem.tasks, numbered, strict=True):
        for replica, p in copies:
            standby = replace(
                task,
                task_name=standby_name(task.task_name, replica),
                task_mode=TaskMode.STANDBY,
                standby_of=task.task_name,
            )
            standbys.setdefault(plan.problem.processors[p], []).append(standby)
    containers = []
    for id, container in model.containers.items():
        its_standbys = sorted(standbys.get(id, []), key=lambda task: natural_order(task.task_name))
        containers.append(ContainerModel.of(id, [*container.actives.values(), *its_standbys], container.location_id))
    return JobModel.of(containers, model.version, model.config)


def _unplaced(problem: Problem, factor: int, numbered: Sequence[Sequence[tuple[int, int]]]) -> list[Unplaced]:
    """The replicas that no processor holds, each with the reason. Tasks whose standbys are stopped are left out."""
    names = {task.task_name for task in problem.tasks}
    missing = []
    for t, task in enumerate(problem.tasks):
        placed = {replica for replica, _ in numbered[t]}
        for replica in sorted(set(range(factor - 1)) - placed) if not problem.gets_no_copies[t] else ():
            if (name := standby_name(task.task_name, replica)) in names:
                reason = f'an active task is already named "{name}"'
            elif problem.active_location[t] == NOWHERE:
                reason = "the location of its active is not known"
            else:
                there = problem.locations_for(t)
                reason = f"too few locations can hold copies: {there} besides that of its active"
            missing.append(Unplaced(task.task_name, replica, reason))
    return missing


def _sharing_zone(plan: CopyPlan, zones: Mapping[str, str]) -> list[SharedZone]:
    """The copies in the zone of their active, or of a copy at a location earlier in natural order."""
    problem = plan.problem
    found = []
    for task, at in enumerate(plan.at):
        used = {problem.active_zone(task)}
        for location in sorted(at):
            if problem.zone[location] in used:
                zone = zones.get(problem.location_names[location], "")
                found.append(SharedZone(problem.tasks[task].task_name, zone))
            used.add(problem.zone[location])
    return found
