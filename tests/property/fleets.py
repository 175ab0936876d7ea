"""Random fleets for the grouping properties: small, so that they are many and shrink to something one can read."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from mooring.grouping import GrouperFactory, HostAwareGrouper
from mooring.model import ContainerModel, JobModel, LocationId, TaskModel, TaskName, named_location

PROCESSORS = ("2", "10", "01", "b-7", "b-30")
GONE = ("1", "b-3")
PLACES = ("east", "west-1", "west-2", "ANY_HOST", "")
LAST_SEEN = (None, *PLACES, "nobody is here")
HOMES = (None, *PROCESSORS, *GONE)
SIZES = (1, 2, 3, 5, 20, 0, None)


@dataclass(frozen=True, repr=False)
class Fleet:
    """One grouping question. `previous` maps tasks to the processor that held them, which may be gone."""

    tasks: frozenset[TaskModel]
    task_locality: Mapping[str, str]
    processor_locality: Mapping[str, str]
    previous: JobModel | None = None
    weights: Mapping[str, int] | None = None
    load: Mapping[str, int] = field(default_factory=dict)
    make_grouper: GrouperFactory = HostAwareGrouper

    def __repr__(self) -> str:
        homes, weights, last = self.homes(), self.weights or {}, self.task_locality
        lines = [
            f"  {name}: held by {homes.get(name)}, last at {last.get(name)!r}, weight {weights.get(name)}"
            for name in sorted(homes | {task.task_name: None for task in self.tasks})
        ]
        for id, place in self.processor_locality.items():
            lines.append(f"  processor {id} at {place!r}, load {self.load[id]}")
        return "Fleet:\n" + "\n".join(lines)

    def _repr_pretty_(self, printer, cycle: bool) -> None:
        """How hypothesis shows it in a failure."""
        printer.text(repr(self))

    def homes(self) -> dict[str, str]:
        """Task name to the processor that held it."""
        return owners(self.previous.containers.values()) if self.previous else {}

    def last_location(self, name: str) -> str | None:
        """Where the task ran last, if somebody is there now; where its previous processor was, if nothing is said."""
        last = self.task_locality.get(name)
        if last is None and name in self.homes() and self.previous is not None:
            last = self.previous.containers[self.homes()[name]].location_id
        return last if named_location(last) in self.processor_locality.values() else None

    def group(self) -> frozenset[ContainerModel]:
        return self.make_grouper(self.weights, self.load).group(
            self.tasks, self.task_locality, self.processor_locality, self.previous
        )

    def after(self, containers: frozenset[ContainerModel]) -> "Fleet":
        """The same fleet once the plan is in force and the tasks run where it says."""
        seen = {name: container.location_id or "" for container in containers for name in container.tasks}
        return replace(self, previous=JobModel.of(containers), task_locality=seen)

    def in_another_order(self, seed: int) -> "Fleet":
        """The same, with whatever can be iterated over shuffled."""

        def shuffled(items: list[Any]) -> list[Any]:
            return random.Random(seed).sample(items, len(items))

        previous = self.previous and JobModel.of(
            ContainerModel.of(held.processor_id, shuffled(list(held.tasks.values())), held.location_id)
            for held in shuffled(list(self.previous.containers.values()))
        )
        return replace(
            self,
            tasks=shuffled(sorted(self.tasks, key=lambda task: task.task_name)),
            task_locality=dict(shuffled(list(self.task_locality.items()))),
            processor_locality=dict(shuffled(list(self.processor_locality.items()))),
            previous=previous,
        )


def task(name: str) -> TaskModel:
    return TaskModel(TaskName(name))


def owners(containers: Iterable[ContainerModel]) -> dict[str, str]:
    return {name: container.processor_id for container in containers for name in container.tasks}


def model_of(owner: Mapping[str, str], locality: Mapping[str, str]) -> JobModel:
    """The job model in which each task is on its owner; a processor without a known location was in the west."""
    containers = []
    for processor in sorted(set(owner.values())):
        place = named_location(locality.get(processor, "west-1"))
        names = [name for name in owner if owner[name] == processor]
        containers.append(ContainerModel.of(processor, map(task, names), place and LocationId(place)))
    return JobModel.of(containers, version=1)


def _fleet(numbers: bytes, weighted: bool, few_tasks: bool) -> Fleet:
    """Two counts, five processors, ten tasks; the counts say how many of them are used. Zeros are simple fleets."""
    counts, processors, tasks = numbers[:2], numbers[2:12], numbers[12:]
    ids = PROCESSORS[: 2 + counts[0] % 4 if few_tasks else 1 + counts[0] % 5]
    locality = {id: PLACES[processors[i] % len(PLACES)] for i, id in enumerate(ids)}
    names = [f"q-{t // 4}/Partition {t * 3}" for t in range(1 + counts[1] % (len(ids) - 1 if few_tasks else 10))]
    homes, wishes, sizes = (
        {name: kinds[tasks[3 * t + i] % len(kinds)] for t, name in enumerate(names)}
        for i, kinds in enumerate((HOMES, LAST_SEEN, SIZES))
    )
    held = {name: home for name, home in homes.items() if home}
    return Fleet(
        tasks=frozenset(map(task, names)),
        task_locality={name: wish for name, wish in wishes.items() if wish is not None},
        processor_locality=locality,
        previous=model_of(held | {"ended/Partition 0": PROCESSORS[0]}, locality) if held else None,
        weights={name: size for name, size in sizes.items() if size is not None} if weighted else None,
        load={id: processors[5 + i] % 4 for i, id in enumerate(ids)},
    )


@st.composite
def fleets(draw: st.DrawFn, weighted: bool | None = False, few_tasks: bool = False) -> Fleet:
    """Up to 10 tasks on up to 5 processors; with few tasks, fewer tasks than processors.

    Weighted fleets leave some weights out; None draws fleets with weights and without.
    """
    numbers = draw(st.binary(min_size=42, max_size=42))
    return _fleet(numbers, draw(st.booleans()) if weighted is None else weighted, few_tasks)
