"""Random fleets for the grouping properties: small, so that they are many and shrink to something one can read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from mooring.grouping import HostAwareGrouper
from mooring.model import ContainerModel, JobModel, LocationId, TaskModel, TaskName, named_place

PROCESSORS = ("2", "10", "01", "b-7", "b-30")
GONE = ("1", "b-3")
PLACES = ("east", "west-1", "west-2", "ANY_HOST", "")
LAST_SEEN = (None, *PLACES, "nobody is here")
HOMES = (None, *PROCESSORS, *GONE)
SIZES = (1, 2, 3, 5, 20, 0, None)


@dataclass(frozen=True)
class Fleet:
    """One grouping question. `previous` maps tasks to the processor that held them, which may be gone."""

    tasks: frozenset[TaskModel]
    task_locality: Mapping[str, str]
    processor_locality: Mapping[str, str]
    previous: JobModel | None = None
    weights: Mapping[str, int] | None = None
    load: Mapping[str, int] = field(default_factory=dict)

    def group(self) -> frozenset[ContainerModel]:
        return HostAwareGrouper(self.weights, self.load).group(
            self.tasks, self.task_locality, self.processor_locality, self.previous
        )

    def after(self, containers: frozenset[ContainerModel]) -> "Fleet":
        """The same fleet once the plan is in force and the tasks run where it says."""
        seen = {name: container.location_id or "" for container in containers for name in container.tasks}
        return replace(self, previous=JobModel.of(containers), task_locality=seen)


def task(name: str) -> TaskModel:
    return TaskModel(TaskName(name))


def owners(containers: frozenset[ContainerModel]) -> dict[str, str]:
    return {name: container.processor_id for container in containers for name in container.tasks}


def model_of(owner: Mapping[str, str], locality: Mapping[str, str]) -> JobModel:
    """The job model in which each task is on its owner; a processor without a known location was in the west."""
    containers = []
    for processor in sorted(set(owner.values())):
        place = named_place(locality.get(processor, "west-1"))
        names = [name for name in owner if owner[name] == processor]
        containers.append(ContainerModel.of(processor, map(task, names), place and LocationId(place)))
    return JobModel.of(containers, version=1)


def _fleet(numbers: bytes, weighted: bool) -> Fleet:
    """A fleet of two counts, five processors and ten tasks, of which the counts take some. Small numbers are simple fleets."""
    counts, processors, tasks = numbers[:2], numbers[2:12], numbers[12:]
    ids = PROCESSORS[: 1 + counts[0] % 5]
    locality = {id: PLACES[processors[i] % len(PLACES)] for i, id in enumerate(ids)}
    names = [f"q-{t // 4}/Partition {t * 3}" for t in range(1 + counts[1] % 10)]
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


def fleets(weighted: bool = False) -> st.SearchStrategy[Fleet]:
    """Up to 10 tasks on up to 5 processors. Weighted ones leave some weights out."""
    return st.binary(min_size=42, max_size=42).map(lambda numbers: _fleet(numbers, weighted))
