"""The input of grouping in plain numbers, for the planners.

Tasks, processors and locations are numbered in natural order of their names. So the caller's order has no effect, and
ties go to the smallest name.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mooring.model import ContainerModel, JobModel, TaskModel, named_location, natural_order

NOWHERE: Final = -1
"""Stands for a processor that is gone, a location without a processor, and no preference."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One query's tasks and the processors they can go to.

    The number of a task or processor is its position in `tasks` or `processors`. `home[t]` is the processor that held
    task t. `wish[t]` is the location where task t ran last. `location[p]` is the location of processor p. Each may be
    NOWHERE. `load[p]` is the load of processor p from other queries.
    """

    tasks: Sequence[TaskModel]
    processors: Sequence[str]
    home: Sequence[int]
    wish: Sequence[int]
    location: Sequence[int]
    load: Sequence[int]

    def held(self) -> list[list[int]]:
        """For each processor its previous tasks, in order."""
        held: list[list[int]] = [[] for _ in self.processors]
        for task, processor in enumerate(self.home):
            if processor != NOWHERE:
                held[processor].append(task)
        return held


def pose(
    task_models: Collection[TaskModel],
    task_locality: Mapping[str, str],
    processor_locality: Mapping[str, str],
    previous: JobModel | None,
    load: Mapping[str, int],
) -> Problem:
    """Translate names into numbers. A task without a locality counts as last at its previous processor's location."""
    tasks = sorted(task_models, key=lambda task: natural_order(task.task_name))
    processors = sorted(processor_locality, key=natural_order)
    numbers = _numbers_of_locations(processors, processor_locality)
    homes = _previous_containers(previous)
    number_of = {processor: p for p, processor in enumerate(processors)}
    home, wish = [], []
    for task in tasks:
        container = homes.get(task.task_name)
        last = task_locality.get(task.task_name)
        if last is None and container is not None:
            last = container.location_id
        home.append(NOWHERE if container is None else number_of.get(container.processor_id, NOWHERE))
        wish.append(NOWHERE if last is None else numbers.get(last, NOWHERE))
    return Problem(
        tasks=tasks,
        processors=processors,
        home=home,
        wish=wish,
        location=[numbers.get(processor_locality[processor], NOWHERE) for processor in processors],
        load=[load.get(processor, 0) for processor in processors],
    )


def containers_of(
    problem: Problem, owner: Sequence[int], processor_locality: Mapping[str, str]
) -> frozenset[ContainerModel]:
    """Translate a plan back: `owner[t]` is the processor of task t. Processors without tasks are left out."""
    tasks_of: dict[int, list[TaskModel]] = {}
    for task, processor in zip(problem.tasks, owner, strict=True):
        tasks_of.setdefault(processor, []).append(task)
    return frozenset(
        ContainerModel.of(problem.processors[p], tasks, named_location(processor_locality[problem.processors[p]]))
        for p, tasks in tasks_of.items()
    )


def _numbers_of_locations(processors: Sequence[str], processor_locality: Mapping[str, str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for processor in processors:
        location = named_location(processor_locality[processor])
        if location is not None:
            numbers.setdefault(location, len(numbers))
    return numbers


def _previous_containers(previous: JobModel | None) -> dict[str, ContainerModel]:
    """Task name to its previous container; the first in natural order, if a damaged model lists a task twice."""
    containers: dict[str, ContainerModel] = {}
    for processor in sorted(previous.containers if previous else (), key=natural_order):
        assert previous is not None
        for name in previous.containers[processor].tasks:
            containers.setdefault(name, previous.containers[processor])
    return containers
