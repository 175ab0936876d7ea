"""Stopping and starting the standbys of a processor: the plan for it, and when it is in force. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mooring.agent.planning.next_job_model import with_copies_renewed
from mooring.agent.requests.queue import Action
from mooring.agent.state.fleet import Fleet
from mooring.model.orders import Copies
from mooring.placement import StandbyAction
from mooring.placement.lifecycle import Happening

Outcome = tuple[Happening, str]


def controlled(fleet: Fleet, action: Action) -> tuple[Fleet, list[str]]:
    """The fleet as the action wants it, planned at once, and what the user must hear.

    InvalidGroupingError when that plan breaks a promise.
    """
    one = {action.request.processor_id}
    stopped = fleet.stopped_standbys | one if _stops(action) else fleet.stopped_standbys - one
    return with_copies_renewed(replace(fleet, stopped_standbys=stopped))


def outcome(action: Action, fleet: Fleet, version_in_force: int, copies: Copies) -> Outcome | None:
    """What has come of it; None while its plan is not in force. The processor is there.

    `version_in_force` is the version of the job model that the JVM has, `copies` those it was told of.
    """
    if fleet.queries and version_in_force < action.version:
        return None
    return (_of_stop if _stops(action) else _of_start)(action.request.processor_id, fleet, copies)


def _stops(action: Action) -> bool:
    return action.request.standby is StandbyAction.STOP


def _of_stop(id: str, fleet: Fleet, copies: Copies) -> Outcome | None:
    tasks = _actives(fleet, id)
    partition_of = fleet.partition_of_task()
    told = [task for task in tasks if task in partition_of and _is_told(partition_of[task], copies)]
    if told or any(task in tasks for task in _copied_tasks(fleet)):
        return None
    return Happening.IN_FORCE, f"the {len(tasks)} tasks of processor {id} have no copies now"


def _of_start(id: str, fleet: Fleet, copies: Copies) -> Outcome | None:
    tasks = _actives(fleet, id)
    wanted = len(tasks) * (fleet.replication_factor - 1)
    held = sum(task in tasks for task in _copied_tasks(fleet))
    lacks = [lack for lack in fleet.unplaced if lack.task_name in tasks]
    if lacks:
        return (
            Happening.NO_PLAN,
            f"{len(lacks)} of {wanted} copies have no place, as that of {lacks[0].task_name}: {lacks[0].reason}; the"
            f" standbys of processor {id} are no longer stopped, and what is missing comes when there is a place",
        )
    if held < wanted and fleet.queries:  # some were lost meanwhile: the next plan makes new ones
        return None
    return Happening.IN_FORCE, f"{held} copies are in the plan; they are warm when mooring status shows no lag"


def _is_told(partition: tuple[str, int], copies: Copies) -> bool:
    query, number = partition
    return number in copies.get(query, {})


def _actives(fleet: Fleet, id: str) -> frozenset[str]:
    container = fleet.model.containers.get(id)
    return frozenset(container.actives) if container else frozenset()


def _copied_tasks(fleet: Fleet) -> Iterator[str]:
    """For each copy in the job model the task that it is of."""
    for container in fleet.model.containers.values():
        for task in container.tasks.values():
            if task.standby_of is not None:
                yield task.standby_of
