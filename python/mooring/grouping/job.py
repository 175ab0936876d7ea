"""Plans a whole application: all its queries on all its processors, in one job model."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from mooring.errors import InvalidGroupingError
from mooring.grouping.contract import TaskNameGrouper
from mooring.grouping.host_aware import HostAwareGrouper
from mooring.model import ContainerModel, JobModel, TaskModel, named_location, natural_order


class GrouperFactory(Protocol):
    """Makes the grouper of one query; `HostAwareGrouper` itself is one."""

    def __call__(self, weights: Mapping[str, int] | None, load: Mapping[str, int] | None) -> TaskNameGrouper:
        """`weights` maps task name to bytes, or is None; `load` maps processor id to its load from other queries."""


def plan_job(
    queries: Mapping[str, frozenset[TaskModel]],
    processor_locality: Mapping[str, str],
    task_locality: Mapping[str, str],
    previous: JobModel | None = None,
    weights: Mapping[str, int] | None = None,
    make_grouper: GrouperFactory = HostAwareGrouper,
    config: Mapping[str, str] | None = None,
) -> JobModel:
    """Group each query on its own, and merge the groups.

    Where a query's tasks can not be divided evenly, some processors get one task more: preferably those with the least
    total load.

    `queries` maps query name to its tasks. Queries that already run are planned before new ones, both in natural order
    of names. While a query is not planned yet, its previous tasks count as its load. Every processor is in the job
    model, idle ones without tasks. The version is the previous one if nothing changed, else one more; the first is 1.
    `config` is the previous one unless given. Standbys in `previous` are ignored, and the result has none.

    Raises `InvalidGroupingError` for no processors, for a task name that two queries use, and when the grouper refuses
    a query; the message names the query.
    """
    if not processor_locality:
        raise InvalidGroupingError(f"there are no processors to group {len(queries)} queries on")
    previous = previous and previous.without_standbys()
    before = _split_by_query(previous, _query_of_each_task(queries))
    load = Counter({processor: 0 for processor in processor_locality})
    for model in before.values():
        load.update(_load_of(model, weights))
    tasks_of: dict[str, list[TaskModel]] = {processor: [] for processor in processor_locality}
    for query in sorted(queries, key=lambda query: (query not in before, natural_order(query))):
        if query in before:
            load.subtract(_load_of(before[query], weights))
        containers = _group_one(
            query, queries[query], make_grouper(weights, load), task_locality, processor_locality, before.get(query)
        )
        for container in containers:
            tasks_of[container.processor_id].extend(container.tasks.values())
        load.update(_load_of(JobModel.of(containers), weights))
    return _next_version(tasks_of, processor_locality, previous, config)


def _query_of_each_task(queries: Mapping[str, frozenset[TaskModel]]) -> dict[str, str]:
    query_of: dict[str, str] = {}
    for query, tasks in queries.items():
        for task in tasks:
            if query_of.setdefault(task.task_name, query) != query:
                raise InvalidGroupingError(
                    f'the queries "{query_of[task.task_name]}" and "{query}" both have a task "{task.task_name}"'
                )
    return query_of


def _split_by_query(previous: JobModel | None, query_of: Mapping[str, str]) -> dict[str, JobModel]:
    """The previous tasks of each query that has any. Tasks of queries that have ended are left out."""
    parts: dict[str, list[ContainerModel]] = {}
    for container in previous.containers.values() if previous else ():
        tasks: dict[str, list[TaskModel]] = {}
        for name, task in container.tasks.items():
            if name in query_of:
                tasks.setdefault(query_of[name], []).append(task)
        for query, own in tasks.items():
            parts.setdefault(query, []).append(ContainerModel.of(container.processor_id, own, container.location_id))
    return {query: JobModel.of(containers) for query, containers in parts.items()}


def _load_of(model: JobModel, weights: Mapping[str, int] | None) -> dict[str, int]:
    """For each processor the number of its tasks, or their bytes when weights are given."""
    return {
        processor: len(container.tasks) if weights is None else sum(weights.get(name, 0) for name in container.tasks)
        for processor, container in model.containers.items()
    }


def _group_one(
    query: str,
    tasks: frozenset[TaskModel],
    grouper: TaskNameGrouper,
    task_locality: Mapping[str, str],
    processor_locality: Mapping[str, str],
    before: JobModel | None,
) -> frozenset[ContainerModel]:
    try:
        containers = grouper.group(tasks, task_locality, processor_locality, before)
        _refuse_strangers(containers, tasks, processor_locality)
        return containers
    except InvalidGroupingError as e:
        raise InvalidGroupingError(f'query "{query}": {e}') from e


def _refuse_strangers(
    containers: frozenset[ContainerModel], tasks: frozenset[TaskModel], processor_locality: Mapping[str, str]
) -> None:
    """Refuse groups that can not be merged with those of other queries; `grouping.check` checks the rest."""
    names = {task.task_name for task in tasks}
    for container in containers:
        if container.processor_id not in processor_locality:
            raise InvalidGroupingError(f'there is no processor "{container.processor_id}"')
        for name in container.tasks.keys() - names:
            raise InvalidGroupingError(f'task "{name}" on processor "{container.processor_id}" was not given')


def _next_version(
    tasks_of: Mapping[str, list[TaskModel]],
    processor_locality: Mapping[str, str],
    previous: JobModel | None,
    config: Mapping[str, str] | None,
) -> JobModel:
    """The job model of these tasks; the previous job model itself when nothing changed."""
    containers = [
        ContainerModel.of(
            processor,
            sorted(tasks_of[processor], key=lambda task: natural_order(task.task_name)),
            named_location(location),
        )
        for processor, location in sorted(processor_locality.items(), key=lambda entry: natural_order(entry[0]))
    ]
    if previous is None:
        return JobModel.of(containers, 1, config)
    same_version = JobModel.of(containers, previous.version, previous.config if config is None else config)
    return previous if same_version == previous else replace(same_version, version=previous.version + 1)
