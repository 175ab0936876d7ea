"""Stopping and starting the standbys of a processor: the job model for it, and when its version is in force. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mooring.agent.planning.next_job_model import with_copies_renewed
from mooring.agent.requests.action import Action
from mooring.agent.requests.phase import Change, Outcome, PhaseHandler, View
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.state.fleet import Fleet
from mooring.model.orders import Copies
from mooring.placement import StandbyAction
from mooring.placement.lifecycle import Happening


def _toggle(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    """Plan with the standbys stopped or started. InvalidGroupingError when that job model breaks a promise."""
    id = {action.request.processor_id}
    stopped = fleet.overrides.stopped_standbys | id if _stops(action) else fleet.overrides.stopped_standbys - id
    overrides = replace(fleet.overrides, stopped_standbys=stopped)
    fleet, warnings = with_copies_renewed(replace(fleet, overrides=overrides))
    return Change(fleet, replace(action, version=fleet.model.version), warnings=tuple(warnings))


def _toggled(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    """What has come of the job model once its version is in force."""
    if fleet.queries and view.version_in_force < action.version:
        return None
    return (_stopped if _stops(action) else _started)(action.request.processor_id, fleet, view.copies)


RENEWING_COPIES: Final = PhaseHandler(_toggled, enter=_toggle)


def _stops(action: Action) -> bool:
    return action.request.standby is StandbyAction.STOP


def _stopped(id: str, fleet: Fleet, copies: Copies) -> Outcome | None:
    tasks = _actives(fleet, id)
    partition_of = fleet.partition_of_task()
    held = [task for task in tasks if task in partition_of and _has_copies(partition_of[task], copies)]
    if held or any(task in tasks for task in _copied_tasks(fleet)):
        return None
    return Outcome(Happening.IN_FORCE, f"the {len(tasks)} tasks of processor {id} have no copies now")


def _started(id: str, fleet: Fleet, copies: Copies) -> Outcome | None:
    tasks = _actives(fleet, id)
    wanted = len(tasks) * (fleet.settings.replication_factor - 1)
    held = sum(task in tasks for task in _copied_tasks(fleet))
    lacks = [lack for lack in fleet.standby_report.unplaced if lack.task_name in tasks]
    if lacks:
        return Outcome(
            Happening.NO_JOB_MODEL,
            f"{len(lacks)} of {wanted} copies have no place, for example that of {lacks[0].task_name}:"
            f" {lacks[0].reason}; the standbys of processor {id} are no longer stopped,"
            " and what is missing comes when there is a place",
        )
    if held < wanted and fleet.queries:  # some were lost meanwhile: the next job model has new ones
        return None
    message = f"{held} copies are in the plan; they are warm when mooring status shows no lag"
    return Outcome(Happening.IN_FORCE, message)


def _has_copies(partition: tuple[str, int], copies: Copies) -> bool:
    """Whether the JVM was told of a copy of this partition of a query."""
    query, number = partition
    return number in copies.get(query, {})


def _actives(fleet: Fleet, id: str) -> frozenset[str]:
    container = fleet.model.containers.get(id)
    return frozenset(container.actives) if container else frozenset()


def _copied_tasks(fleet: Fleet) -> Iterator[str]:
    """The task of each copy in the job model."""
    for container in fleet.model.containers.values():
        for task in container.tasks.values():
            if task.standby_of is not None:
                yield task.standby_of
