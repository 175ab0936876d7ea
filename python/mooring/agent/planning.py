"""From the fleet to its next job model.

Pure; every plan is checked by code that shares nothing with the planner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mooring.agent.fleet import Fleet
from mooring.errors import InvalidGroupingError
from mooring.grouping import DEFAULT_GROUPER, GrouperChoice, check_job_model, plan_job
from mooring.model import ContainerModel, JobModel, LocationId, TaskModel


def regrouped(fleet: Fleet) -> tuple[Fleet, list[str]]:
    """Group all running queries anew over the processors there are; the second answer is what the user must hear.

    The version rises only when something changed. When the chosen grouper fails, or its plan breaks a promise, the last
    plan stays in force; where that is not possible, as some task has no place in it, the default grouper plans instead.
    InvalidGroupingError when the default grouper's plan breaks a promise.
    """
    if not fleet.processors:
        return replace(fleet, regroup_at_ms=None), []
    places = {id: processor.location for id, processor in fleet.processors.items()}
    queries = {query.label: query.tasks for query in fleet.queries.values()}
    if not queries:
        return _in_force(fleet, [ContainerModel.of(id, [], LocationId(place)) for id, place in places.items()]), []
    try:
        return _planned(fleet, queries, places, fleet.grouping), []
    except InvalidGroupingError as refusal:
        if fleet.grouping.make is DEFAULT_GROUPER.make:
            raise
        refused = f"the plan of spark.mooring.grouper={fleet.grouping.name} was refused: {refusal}"
        if _has_a_place_for_all(fleet, queries):
            return replace(fleet, regroup_at_ms=None), [f"{refused}; the last plan stays in force"]
        instead = replace(DEFAULT_GROUPER, by_bytes=fleet.grouping.by_bytes)
        return _planned(fleet, queries, places, instead), [f"{refused}; this plan is made by {DEFAULT_GROUPER.name}"]


def _planned(
    fleet: Fleet, queries: Mapping[str, frozenset[TaskModel]], places: Mapping[str, str], choice: GrouperChoice
) -> Fleet:
    weights = fleet.state_bytes() or None if choice.by_bytes else None
    planned = plan_job(queries, places, fleet.task_locality, fleet.model, weights, choice.make)
    grouper = choice.make(None, None)
    seen = fleet.task_locality if grouper.moves_fewest else None
    check_job_model(planned, queries, places, seen, fleet.model, weights, grouper.most_processors)
    if choice.is_users:
        again = plan_job(queries, places, fleet.task_locality, planned, weights, choice.make)
        if again.containers != planned.containers:
            raise InvalidGroupingError(
                "asked again, it answered otherwise (the promise: grouping its own output changes nothing)"
            )
    return _in_force(fleet, list(planned.containers.values()))


def _has_a_place_for_all(fleet: Fleet, queries: Mapping[str, frozenset[TaskModel]]) -> bool:
    """Whether the job model in force has every task of every query on a processor that is there."""
    placed = {name for name, processor in fleet.processor_of_task().items() if processor in fleet.processors}
    return all(task.task_name in placed for tasks in queries.values() for task in tasks)


def without_ended_queries(fleet: Fleet) -> Fleet:
    """Take the tasks of ended queries out of the job model; nothing moves, and their places stay remembered."""
    running = {task.task_name for query in fleet.queries.values() for task in query.tasks}
    left = [
        ContainerModel.of(
            container.processor_id,
            (task for name, task in container.tasks.items() if (task.standby_of or name) in running),
            container.location_id,
        )
        for container in fleet.model.containers.values()
    ]
    return replace(_in_force(fleet, left), regroup_at_ms=fleet.regroup_at_ms) if left else fleet


def _in_force(fleet: Fleet, containers: list[ContainerModel]) -> Fleet:
    now = JobModel.of(containers, fleet.model.version, fleet.grouping.config)
    if dict(now.containers) == dict(fleet.model.containers):
        return replace(fleet, regroup_at_ms=None)
    before, planned = fleet.processor_of_task(), replace(fleet, model=replace(now, version=now.version + 1))
    changed = frozenset(task for task, owner in planned.processor_of_task().items() if before.get(task) != owner)
    return replace(planned, changed_tasks=changed, regroup_at_ms=None)
