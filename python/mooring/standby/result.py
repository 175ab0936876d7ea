"""The plan in names again: the job model with its standbys, and what the user must hear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mooring.model import ContainerModel, JobModel, TaskMode, TaskModel, TaskName, natural_order, standby_name
from mooring.standby.copies import Copies
from mooring.standby.question import NOWHERE, Question


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A copy that has no processor: replica `replica` (from 0) of a task, and why in plain words."""

    task_name: TaskName
    replica: int
    reason: str


@dataclass(frozen=True, slots=True)
class SharedZone:
    """A copy that is in a zone with its active or another copy, as there are too few zones."""

    task_name: TaskName
    zone: str


@dataclass(frozen=True, slots=True)
class Standbys:
    """A job model with its standbys, and what the user must hear; both lists in natural order of the tasks.

    `sharing_zone` is empty when no zones are known: then nobody asked for it.
    """

    model: JobModel
    unplaced: tuple[Unplaced, ...] = ()
    sharing_zone: tuple[SharedZone, ...] = ()


def free_replicas(question: Question, factor: int) -> list[list[int]]:
    """For each task the numbers of its replicas whose names no active task has."""
    names = {task.task_name for task in question.tasks}
    return [
        [replica for replica in range(factor - 1) if standby_name(task.task_name, replica) not in names]
        for task in question.tasks
    ]


def in_names(
    model: JobModel,
    copies: Copies,
    replicas: Sequence[Sequence[int]],
    previous: JobModel | None,
    factor: int,
    zones: Mapping[str, str] | None,
) -> Standbys:
    """Translate a plan back; `replicas` are the numbers that the copies of each task may have."""
    numbered = _numbered(copies, replicas, previous)
    return Standbys(
        _with_standbys(model, copies, numbered),
        tuple(_unplaced(copies.question, factor, numbered)),
        tuple(_sharing_zone(copies, zones)) if zones else (),
    )


def _numbered(
    copies: Copies, replicas: Sequence[Sequence[int]], previous: JobModel | None
) -> list[list[tuple[int, int]]]:
    """For each task its (replica, processor): pinned copies first; one that stays keeps its number if that is there."""
    before = previous.containers if previous else {}
    numbered = []
    for task, at in enumerate(copies.at):
        name = copies.question.tasks[task].task_name
        free, left = list(replicas[task]), []
        found: list[tuple[int, int]] = []
        for place, replica in copies.question.pinned[task].items():
            if place in at and replica in free:
                free.remove(replica)
                found.append((replica, at[place]))
        for p in sorted(set(at.values()) - {p for _, p in found}):
            processor = copies.question.processors[p]
            held: Mapping[TaskName, TaskModel] = before[processor].tasks if processor in before else {}
            known = [
                replica
                for replica in free
                if (had := held.get(standby_name(name, replica))) is not None and had.standby_of == name
            ]
            if known and copies.is_at_home(task, p):
                free.remove(known[0])
                found.append((known[0], p))
            else:
                left.append(p)
        numbered.append(sorted(found + list(zip(free, left, strict=False))))
    return numbered


def _with_standbys(model: JobModel, copies: Copies, numbered: Sequence[Sequence[tuple[int, int]]]) -> JobModel:
    standbys: dict[str, list[TaskModel]] = {}
    for task, held in zip(copies.question.tasks, numbered, strict=True):
        for replica, p in held:
            standby = replace(
                task,
                task_name=standby_name(task.task_name, replica),
                task_mode=TaskMode.STANDBY,
                standby_of=task.task_name,
            )
            standbys.setdefault(copies.question.processors[p], []).append(standby)
    containers = []
    for id, container in model.containers.items():
        copied = sorted(standbys.get(id, []), key=lambda task: natural_order(task.task_name))
        containers.append(ContainerModel.of(id, [*container.actives.values(), *copied], container.location_id))
    return JobModel.of(containers, model.version, model.config)


def _unplaced(question: Question, factor: int, numbered: Sequence[Sequence[tuple[int, int]]]) -> list[Unplaced]:
    """The replicas that nobody holds."""
    names = {task.task_name for task in question.tasks}
    missing = []
    for t, task in enumerate(question.tasks):
        placed = {replica for replica, _ in numbered[t]}
        for replica in sorted(set(range(factor - 1)) - placed) if not question.is_alone[t] else ():
            if (name := standby_name(task.task_name, replica)) in names:
                reason = f'an active task is already named "{name}"'
            elif question.active_place[t] == NOWHERE:
                reason = "the location of its active is not known"
            else:
                there = question.locations_for(t)
                reason = f"too few locations can hold copies: {there} besides that of its active"
            missing.append(Unplaced(task.task_name, replica, reason))
    return missing


def _sharing_zone(copies: Copies, zones: Mapping[str, str]) -> list[SharedZone]:
    """Which copies share a zone with their active, or with a copy that comes before in natural order of locations."""
    question = copies.question
    found = []
    for task, at in enumerate(copies.at):
        seen = {question.active_zone(task)}
        for place in sorted(at):
            if question.zone[place] in seen:
                zone = zones.get(question.places[place], "")
                found.append(SharedZone(question.tasks[task].task_name, zone))
            seen.add(question.zone[place])
    return found
