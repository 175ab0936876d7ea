"""Moving the standby of a processor to another host, and restarting it where it is.

Pure. Standby 4-0 is replica 0 of each task of processor 4. A move makes copies at the destination while the present
ones stay. When the new copies are caught up, or warm after a while, the job model has the standby there; later ones
keep it there as far as the rules allow. In a restart the executors close the copies for some seconds, and then
open them again from the files that they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from mooring.agent.planning.copies import (
    MOST_LAG_VERSIONS,
    copies_of_standby,
    standbys_of,
    transfer_allowance_ms,
    without_gone_copies,
)
from mooring.agent.planning.next_job_model import with_copies_renewed
from mooring.agent.requests.action import Action
from mooring.agent.requests.already_there import needs_nothing
from mooring.agent.requests.move import (
    CATCH_UP_MS,
    awaited_tasks,
    begin_reserving,
    begin_warming_up,
    reserved,
    why_not_warm,
)
from mooring.agent.requests.phase import Change, Outcome, PhaseHandler, View, without_ongoing
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.requests.validation import refusal, replicas_by_location
from mooring.agent.state.fleet import Executor, Fleet
from mooring.model import natural_order
from mooring.placement import ANY_HOST, LAST_SEEN
from mooring.placement.lifecycle import Happening

CLOSING_MS: Final = 10_000
"""How long the executors have no such copies. In a long batch, and where no batch runs, an executor hears of a change
after three seconds or more (`CopiedQuery.round`): copies that are wanted again before that are not closed."""


def beginning(fleet: Fleet, action: Action) -> Outcome:
    """With what the request begins: the standby moves or is restarted."""
    standby, destination = action.request.processor_id, action.request.destination_host
    locations = replicas_by_location(fleet, standby)
    moves_already = action.saved_progress is not None and bool(
        action.saved_progress.destination
    )  # an earlier agent had begun the move
    is_here = locations.keys() == {destination} and not needs_nothing(fleet, action)
    if not moves_already and (destination == LAST_SEEN or is_here):
        where = ", ".join(sorted(locations, key=natural_order)) or "nowhere"
        return Outcome(Happening.TURN_TO_RESTART_COPIES, f"standby {standby} at {where} is closed and made again")
    return Outcome(Happening.TURN_TO_MOVE, f"looking for an executor for {destination}")


def _reserved(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    return reserved(fleet, action, view, partial(_executor_for, queue, fleet, action))


def _warmed_up(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    """What has come of making copies at the destination."""
    standby, destination = action.request.processor_id, fleet.executors.get(action.destination)
    if destination is None:
        message = f"executor {action.destination} was lost: no copy has moved"
        return Outcome(Happening.DESTINATION_LOST, message)
    refused = refusal(fleet, replace(action.request, destination_host=destination.location))
    if refused is not None:
        return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, refused)
    processor = fleet.base_of(standby)
    awaited = awaited_tasks(fleet, action, processor, destination, view.now_ms)
    if not awaited:
        return Outcome(Happening.COPIES_WARM, f"standby {standby} is at {destination.location} now")
    return why_not_warm(fleet, action, processor, destination, awaited, view, consequence="no copy has moved")


def _close_copies(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    """CLOSING_COPIES begins: no executor is to have the copies."""
    ongoing = replace(fleet.ongoing, closed_standbys=fleet.ongoing.closed_standbys | {action.request.processor_id})
    return Change(without_gone_copies(replace(fleet, ongoing=ongoing)), action)


def _copies_closed(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    """Whether the executors have had time to close the copies."""
    if view.now_ms < action.since_ms + CLOSING_MS:
        return None
    return Outcome(Happening.COPIES_GONE, f"standby {action.request.processor_id} is made again")


def _renew_copies(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    """RENEWING_COPIES begins: a job model has the copies where the request wants them.

    InvalidGroupingError when that job model breaks a promise.
    """
    standby, destination = action.request.processor_id, fleet.executors.get(action.destination)
    pinned = dict(fleet.overrides.pinned_standbys)
    if destination is not None:
        pinned[standby] = destination.location
    overrides = replace(fleet.overrides, pinned_standbys=pinned)
    fleet, warnings = with_copies_renewed(replace(without_ongoing(fleet, action), overrides=overrides))
    return Change(fleet, replace(action, version=fleet.model.version), warnings=tuple(warnings))


def _unpin(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    """RENEWING_COPIES has failed: later job models no longer have the standby at the destination of a move."""
    fleet = without_ongoing(fleet, action)
    if action.destination:
        standby = action.request.processor_id
        pinned = {id: location for id, location in fleet.overrides.pinned_standbys.items() if id != standby}
        fleet = replace(fleet, overrides=replace(fleet.overrides, pinned_standbys=pinned))
    return Change(fleet, action)


def _copies_renewed(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    """What has come of the job model that has the copies where they are wanted."""
    if fleet.queries and view.version_in_force < action.version:
        return None
    standby = action.request.processor_id
    held = copies_of_standby(fleet, standby)
    if not held:
        message = f"no task of processor {fleet.base_of(standby)} has a copy as standby {standby}"
        return Outcome(Happening.NO_JOB_MODEL, message)
    location = fleet.overrides.pinned_standbys.get(standby, "") if action.destination else ""
    elsewhere = sorted(
        (name for name, id in held.items() if location not in ("", fleet.locations[id])), key=natural_order
    )
    if elsewhere and action.destination not in fleet.executors:
        message = (
            f"executor {action.destination} was lost: {len(elsewhere)} of {len(held)} copies are not at {location}"
        )
        return Outcome(Happening.DESTINATION_LOST, message)
    if elsewhere:
        count = f"{len(elsewhere)} of {len(held)} copies can not be at {location}, for example that of {elsewhere[0]}"
        return Outcome(Happening.NO_JOB_MODEL, f"{count}: another one, or its zone, is in the way")
    may_lag = view.now_ms >= action.since_ms + CATCH_UP_MS
    cold = _cold_copies(fleet, held, MOST_LAG_VERSIONS if may_lag else 0)
    if not cold:
        where = ", ".join(sorted({fleet.locations[id] for id in held.values()}, key=natural_order)) or "nowhere"
        return Outcome(Happening.IN_FORCE, f"the {len(held)} copies of standby {standby} are at {where}")
    holders = [(name, fleet.processors[id].executor) for name, id in held.items()]
    if view.now_ms >= action.since_ms + view.timeouts.warm_up_ms + transfer_allowance_ms(fleet, holders):
        message = f"{len(cold)} of {len(held)} copies are not warm, for example that of {cold[0]}"
        return Outcome(Happening.EXPIRED, message)
    return None


def _cold_copies(fleet: Fleet, held: Mapping[str, str], most_lag: int) -> list[str]:
    """The tasks whose copy is more than `most_lag` versions behind; `held` maps each task to the holder of its copy."""
    partition_of, copies = fleet.partition_of_task(), standbys_of(fleet, fleet.model)

    def is_cold(task: str, holder: str) -> bool:
        query, _ = partition_of.get(task, ("", -1))
        if query not in fleet.queries or not fleet.queries[query].has_rocksdb:
            return False
        seen = [copy for model, copy in copies[holder].items() if model.standby_of == task]
        return not any(copy is not None and copy.lag_versions <= most_lag for copy in seen)

    return [task for task, holder in held.items() if is_cold(task, holder)]


def _executor_for(queue: RequestQueue, fleet: Fleet, action: Action) -> Executor | None:
    """The executor with the fewest copies of those at the destination that may hold some; None without one."""
    standby, destination = action.request.processor_id, action.request.destination_host
    ending = {*queue.being_restarted, *fleet.ongoing.restarts.values()}
    able = {id: fleet.executor_of[id] for id in fleet.may_hold_copies if fleet.executor_of[id] not in ending}
    closed = {fleet.locations[fleet.base_of(standby)], *replicas_by_location(fleet, standby, others=True)}
    here = replicas_by_location(fleet, standby).keys()
    if destination == ANY_HOST and len(here) == 1:  # copies that are spread may gather at a host that has some
        closed |= here
    held = {
        id: sum(task.standby_of is not None for task in container.tasks.values())
        for id, container in fleet.model.containers.items()
    }
    fit = [id for id in able if fleet.locations[id] not in closed and destination in (ANY_HOST, fleet.locations[id])]
    if destination == ANY_HOST:
        fit = [
            id for id in fit if refusal(fleet, replace(action.request, destination_host=fleet.locations[id])) is None
        ]
    chosen = min(fit, key=lambda id: (held.get(id, 0), natural_order(id)), default=None)
    return None if chosen is None else fleet.executors[able[chosen]]


RESERVING: Final = PhaseHandler(_reserved, enter=begin_reserving)
WARMING_UP: Final = PhaseHandler(_warmed_up, enter=begin_warming_up)
CLOSING_COPIES: Final = PhaseHandler(_copies_closed, enter=_close_copies)
RENEWING_COPIES: Final = PhaseHandler(_copies_renewed, enter=_renew_copies, fail=_unpin)
