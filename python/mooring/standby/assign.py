"""Who holds the copies of which task.

What is guaranteed, each among plans that keep all before it:
1. No copy is at the location of its active, and no two copies of a task are at one location. Processors without a
   location, and those that are not bound, get none.
2. Every task gets all its copies, or as many as there are other locations. What is missing is reported.
3. The active and the copies of a task are in as many zones as there can be. A copy shares a zone only when the task has
   more copies than there are other zones; such tasks are reported. So zones of unequal size get unequal load: who names
   zones wants to survive the loss of one. Locations without a zone count as one zone together.
4. Without weights: the numbers of copies are as even as 1 to 3 allow, exactly (see `even`). With weights: no processor
   is heavier than the mean and the heaviest copy, where 1 to 3 leave a choice (see `weighted`).
5. The same input in any order gives the same plan, and a plan that is given back as the previous one stays as it is.

Best effort is movement: a copy stays unless a rule, the number of copies or evenness demands otherwise, and what must
move takes others along as little as a simple search finds (`even`). A new copy prefers a location where the state was
last, that of a lost copy or of a moved active, as long as that has room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mooring.errors import InvalidGroupingError
from mooring.model import ContainerModel, JobModel, TaskMode, TaskModel, TaskName, natural_order
from mooring.standby.copies import Copies
from mooring.standby.even import bring_home, even_out
from mooring.standby.lightest import Lightest
from mooring.standby.question import NOWHERE, Question, pose
from mooring.standby.weighted import even_out_weights

MOST_REPLICAS: Final = 4
"""The greatest replication factor: an active and three copies."""


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


def standby_name(task_name: str, replica: int) -> TaskName:
    """What the standby of a task is called; replicas count from 0. Nothing is ever parsed from it."""
    return TaskName(f"Standby-{task_name}-{replica}")


def assign_standbys(
    model: JobModel,
    factor: int,
    previous: JobModel | None = None,
    zones: Mapping[str, str] | None = None,
    weights: Mapping[str, int] | None = None,
    bound: Collection[str] | None = None,
) -> Standbys:
    """Add `factor - 1` copies of each active task to the containers of the job model; see the module for the promises.

    Actives stay where they are; standbys that the model has already are replaced. `previous` is the model in force,
    with its standbys. `zones` maps location to zone, `weights` maps task name to bytes of state, `bound` are the ids of
    processors that may hold copies (those with a living executor), None for all.

    Raises `InvalidGroupingError` for a factor outside 1 to 4, a task that is active twice, and a negative weight.
    """
    if not 1 <= factor <= MOST_REPLICAS:
        raise InvalidGroupingError(f"the replication factor is {factor}; it must be from 1 to {MOST_REPLICAS}")
    question = pose(model, zones or {}, weights or {}, previous, bound)
    replicas = _replicas(question, factor)
    copies = Copies(question, [min(len(free), question.locations_for(t)) for t, free in enumerate(replicas)])
    _keep(copies)
    _complete(copies)
    if any((weights or {}).values()):
        even_out_weights(copies)
    else:
        even_out(copies)
        bring_home(copies)
    numbered = _numbered(copies, replicas, previous)
    return Standbys(
        _with_standbys(model, copies, numbered),
        tuple(_unplaced(question, factor, numbered)),
        tuple(_sharing_zone(copies, zones)) if zones else (),
    )


def _replicas(question: Question, factor: int) -> list[list[int]]:
    """For each task the numbers of its replicas whose names no active task has."""
    names = {task.task_name for task in question.tasks}
    return [
        [replica for replica in range(factor - 1) if standby_name(task.task_name, replica) not in names]
        for task in question.tasks
    ]


def _keep(copies: Copies) -> None:
    """Let copies stay where they are; where there is a choice (too many of one task), the lightest processors keep."""
    homes = copies.question.homes
    has_choice = [len(found) > copies.room[task] for task, found in enumerate(homes)]
    for task in sorted(range(len(homes)), key=lambda task: (has_choice[task], task)):
        for p in sorted(homes[task], key=lambda p: (copies.load[p], copies.question.busy[p], p)):
            if copies.lacks(task) and copies.admits(task, p):
                copies.put(task, p)


def _complete(copies: Copies) -> None:
    """Place what is missing, heaviest first: where the state is if there is room, else on the lightest processor.

    Tasks of one location come one after the other, so their copies spread, and so does the work when it is lost.
    """
    question = copies.question
    total = sum(copies.room[t] * weight for t, weight in enumerate(question.weight))
    share = -(-total // max(1, len(question.processors)))
    at_place: dict[int, list[int]] = {}
    for p, place in enumerate(question.place):
        at_place.setdefault(place, []).append(p)
    lightest = Lightest(copies)
    for task in sorted(range(len(question.tasks)), key=lambda t: (-question.weight[t], question.active_place[t], t)):
        for place in question.warm[task]:
            if copies.lacks(task) and place in at_place:
                p = min(at_place[place], key=lambda p: (copies.load[p], p))
                if copies.load[p] + question.weight[task] <= share and copies.admits(task, p):
                    lightest.put(task, p)
        while copies.lacks(task):
            lightest.place(task)


def _numbered(
    copies: Copies, replicas: Sequence[Sequence[int]], previous: JobModel | None
) -> list[list[tuple[int, int]]]:
    """For each task its (replica, processor): a copy that stays keeps its number if that is still there."""
    before = previous.containers if previous else {}
    numbered = []
    for task, at in enumerate(copies.at):
        name = copies.question.tasks[task].task_name
        free, left = list(replicas[task]), []
        found: list[tuple[int, int]] = []
        for p in sorted(at.values()):
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
        actives = [task for task in container.tasks.values() if task.task_mode is TaskMode.ACTIVE]
        copied = sorted(standbys.get(id, []), key=lambda task: natural_order(task.task_name))
        containers.append(ContainerModel.of(id, actives + copied, container.location_id))
    return JobModel.of(containers, model.version, model.config)


def _unplaced(question: Question, factor: int, numbered: Sequence[Sequence[tuple[int, int]]]) -> list[Unplaced]:
    """The replicas that nobody holds."""
    names = {task.task_name for task in question.tasks}
    missing = []
    for t, task in enumerate(question.tasks):
        placed = {replica for replica, _ in numbered[t]}
        for replica in sorted(set(range(factor - 1)) - placed):
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
