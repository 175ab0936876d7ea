"""From the fleet to its next job model.

Pure; every plan is checked by code that shares nothing with the planner.
"""

from __future__ import annotations

from dataclasses import replace

from mooring.agent.fleet import Fleet
from mooring.grouping import check_job_model, plan_job
from mooring.model import ContainerModel, JobModel, LocationId


def regrouped(fleet: Fleet) -> Fleet:
    """Group all running queries anew over the processors there are, moving as little as evenness allows.

    The version rises only when something changed. A plan that breaks a promise raises InvalidGroupingError.
    """
    if not fleet.processors:
        return replace(fleet, regroup_at_ms=None)
    places = {id: processor.location for id, processor in fleet.processors.items()}
    queries = {query.label: query.tasks for query in fleet.queries.values()}
    if not queries:
        return _in_force(fleet, [ContainerModel.of(id, [], LocationId(place)) for id, place in places.items()])
    planned = plan_job(queries, places, fleet.task_locality, fleet.model)
    check_job_model(planned, queries, places)
    return _in_force(fleet, list(planned.containers.values()))


def without_ended_queries(fleet: Fleet) -> Fleet:
    """Take the tasks of ended queries out of the job model; nothing moves, and their places stay remembered."""
    running = {task.task_name for query in fleet.queries.values() for task in query.tasks}
    left = [
        ContainerModel.of(
            container.processor_id,
            (task for name, task in container.tasks.items() if name in running),
            container.location_id,
        )
        for container in fleet.model.containers.values()
    ]
    return replace(_in_force(fleet, left), regroup_at_ms=fleet.regroup_at_ms) if left else fleet


def _in_force(fleet: Fleet, containers: list[ContainerModel]) -> Fleet:
    now = JobModel.of(containers, version=fleet.model.version)
    if dict(now.containers) == dict(fleet.model.containers):
        return replace(fleet, regroup_at_ms=None)
    return replace(fleet, model=replace(now, version=now.version + 1), regroup_at_ms=None)
