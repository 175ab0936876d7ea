"""Short ways to write a fleet and to read a plan."""

from collections.abc import Collection, Iterable, Mapping

from mooring.grouping import HostAwareGrouper
from mooring.model import ContainerModel, JobModel, LocationId, TaskModel, TaskName


def tasks(*names: str) -> frozenset[TaskModel]:
    return frozenset(TaskModel(TaskName(name)) for name in names)


def partitions(count: int) -> list[str]:
    return [f"q/Partition {number}" for number in range(count)]


def containers(owned: Mapping[str, Iterable[str]], places: Mapping[str, str] | None = None) -> list[ContainerModel]:
    """Processor id to the names of its tasks, as containers."""
    places = places or {}
    return [
        ContainerModel.of(id, sorted(tasks(*names), key=str), LocationId(places[id]) if id in places else None)
        for id, names in owned.items()
    ]


def model(owned: Mapping[str, Iterable[str]], places: Mapping[str, str] | None = None, version: int = 0) -> JobModel:
    return JobModel.of(containers(owned, places), version)


def plan_of(found: Iterable[ContainerModel]) -> dict[str, set[str]]:
    """Processor id to the names of its tasks."""
    return {container.processor_id: set(container.tasks) for container in found}


def group(
    names: Collection[str],
    places: Mapping[str, str],
    previous: Mapping[str, Iterable[str]] | None = None,
    last: Mapping[str, str] | None = None,
    weights: Mapping[str, int] | None = None,
    load: Mapping[str, int] | None = None,
) -> dict[str, set[str]]:
    """Group these tasks on processors at these places; `previous` is processor id to tasks, `last` task to location."""
    before = None if previous is None else model(previous)
    return plan_of(HostAwareGrouper(weights, load).group(tasks(*names), last or {}, places, before))


def sizes(plan: Mapping[str, Collection[str]]) -> dict[str, int]:
    return {processor: len(held) for processor, held in plan.items()}


def moved(before: Mapping[str, Collection[str]], after: Mapping[str, Collection[str]]) -> set[str]:
    """Tasks that are not on a processor that held them before."""
    return {name for processor, held in after.items() for name in held if name not in before.get(processor, ())}
