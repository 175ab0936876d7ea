"""Moving the standby of a processor to another host, and restarting it where it is.

Pure. Standby 4-0 is replica 0 of each task of processor 4. A move makes copies at the destination beside those that
there are; when they have caught up, the plan has them there, and so have the plans after it as far as rules allow. A
restart lets go of the copies for a moment: the executors close them, and open them again from the files that they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from mooring.agent.planning.copies import (
    MOST_LAG_VERSIONS,
    copies_of_standby,
    standbys_of,
    transfer_allowance_ms,
    without_gone_copies,
)
from mooring.agent.planning.next_job_model import with_copies_renewed
from mooring.agent.requests import move
from mooring.agent.requests.move import CATCH_UP_MS, RequestTimeouts, Seen, cold_tasks, never_warm
from mooring.agent.requests.queue import Action, RequestQueue
from mooring.agent.requests.validation import places_of_replicas, refusal
from mooring.agent.state.fleet import Executor, Fleet
from mooring.model import natural_order
from mooring.placement import ANY_HOST, LAST_SEEN
from mooring.placement.lifecycle import Happening

LET_GO_MS: Final = 10_000
"""For how long copies are let go of. Amid a long batch, and where none comes, executors hear of that after three
seconds and more (`Watched.round`); who wants the copies back before that has restarted none."""


def turn(fleet: Fleet, action: Action) -> Seen:
    """What its turn means: whether the standby goes elsewhere, or is restarted."""
    standby, destination = action.request.processor_id, action.request.destination_host
    places = places_of_replicas(fleet, standby)
    goes_on = action.begun is not None and bool(action.begun.executor)  # an agent before this one had begun the move
    if not goes_on and (destination == LAST_SEEN or places.keys() == {destination}):
        where = ", ".join(sorted(places, key=natural_order)) or "nowhere"
        return Happening.TURN_TO_RESTART_COPIES, f"standby {standby} at {where} is let go of and made again", ""
    return Happening.TURN_TO_MOVE, f"looking for an executor for {destination}", ""


def warmed_up(fleet: Fleet, action: Action, timeouts: RequestTimeouts, now_ms: int) -> Seen | None:
    """What has come of making copies at the destination."""
    standby, destination = action.request.processor_id, fleet.executors.get(action.executor)
    if destination is None:
        return Happening.DESTINATION_LOST, f"executor {action.executor} was lost: no copy has moved", ""
    refused = refusal(fleet, replace(action.request, destination_host=destination.location))
    if refused is not None:
        return Happening.NOT_POSSIBLE_ANY_MORE, refused, ""
    may_lag = now_ms >= action.since_ms + CATCH_UP_MS
    cold = cold_tasks(fleet, fleet.base_of(standby), destination, MOST_LAG_VERSIONS if may_lag else 0)
    if not cold:
        return Happening.COPIES_WARM, f"standby {standby} is at {destination.location} now", ""
    outcome = never_warm(fleet, action, fleet.base_of(standby), destination, cold, timeouts, now_ms)
    return outcome and (outcome[0], f"{outcome[1]}: no copy has moved", "")


def are_let_go(action: Action, now_ms: int) -> Seen | None:
    """Whether the executors have heard that they are to have no such copies."""
    if now_ms < action.since_ms + LET_GO_MS:
        return None
    return Happening.COPIES_GONE, f"standby {action.request.processor_id} is made again", ""


def let_go(fleet: Fleet, action: Action) -> Fleet:
    """Without the copies, for a while."""
    return without_gone_copies(replace(fleet, let_go=fleet.let_go | {action.request.processor_id}))


def made(fleet: Fleet, action: Action) -> tuple[Fleet, list[str]]:
    """With the copies where the request wants them, planned at once, and what the user must hear.

    InvalidGroupingError when that plan breaks a promise.
    """
    standby, destination = action.request.processor_id, fleet.executors.get(action.executor)
    pins = dict(fleet.pinned_standbys)
    if destination is not None:
        pins[standby] = destination.location
    here = arrived(fleet, action)
    return with_copies_renewed(replace(here, pinned_standbys=pins))


def wanted_nowhere(fleet: Fleet, action: Action) -> Fleet:
    """After a move that failed: where the standby was to be holds no more for later plans."""
    if not action.executor:
        return fleet
    standby = action.request.processor_id
    return replace(fleet, pinned_standbys={id: at for id, at in fleet.pinned_standbys.items() if id != standby})


def arrived(fleet: Fleet, action: Action) -> Fleet:
    """With the standby neither on its way nor let go of."""
    standby = action.request.processor_id
    return replace(move.arrived(fleet, action), let_go=fleet.let_go - {standby})


def outcome(fleet: Fleet, action: Action, timeouts: RequestTimeouts, version_in_force: int, now_ms: int) -> Seen | None:
    """What has come of the plan that has the copies where they are wanted."""
    if fleet.queries and version_in_force < action.version:
        return None
    standby = action.request.processor_id
    held = copies_of_standby(fleet, standby)
    if not held:
        return Happening.NO_PLAN, f"no task of processor {fleet.base_of(standby)} has a copy as standby {standby}", ""
    place = fleet.pinned_standbys.get(standby, "") if action.executor else ""
    elsewhere = sorted((name for name, id in held.items() if place not in ("", fleet.places[id])), key=natural_order)
    if elsewhere and action.executor not in fleet.executors:
        lost = f"executor {action.executor} was lost: {len(elsewhere)} of {len(held)} copies are not at {place}"
        return Happening.DESTINATION_LOST, lost, ""
    if elsewhere:
        count = f"{len(elsewhere)} of {len(held)} copies can not be at {place}, as that of {elsewhere[0]}"
        return Happening.NO_PLAN, f"{count}: another one, or its zone, is in the way", ""
    may_lag = now_ms >= action.since_ms + CATCH_UP_MS
    cold = _cold_copies(fleet, held, MOST_LAG_VERSIONS if may_lag else 0)
    if not cold:
        where = ", ".join(sorted({fleet.places[id] for id in held.values()}, key=natural_order)) or "nowhere"
        return Happening.IN_FORCE, f"the {len(held)} copies of standby {standby} are at {where}", ""
    holders = [(name, fleet.processors[id].executor) for name, id in held.items()]
    if now_ms >= action.since_ms + timeouts.warm_up_ms + transfer_allowance_ms(fleet, holders):
        return Happening.EXPIRED, f"{len(cold)} of {len(held)} copies have not caught up, as that of {cold[0]}", ""
    return None


def _cold_copies(fleet: Fleet, held: Mapping[str, str], most_lag: int) -> list[str]:
    """Of these tasks, with the processors that hold a copy of each, those whose copy has not caught up."""
    partition_of, copies = fleet.partition_of_task(), standbys_of(fleet, fleet.model)

    def is_cold(task: str, holder: str) -> bool:
        query, _ = partition_of.get(task, ("", -1))
        if query not in fleet.queries or not fleet.queries[query].has_rocksdb:
            return False
        seen = [copy for model, copy in copies[holder].items() if model.standby_of == task]
        return not any(copy is not None and copy.lag_versions <= most_lag for copy in seen)

    return [task for task, holder in held.items() if is_cold(task, holder)]


def executor_for(queue: RequestQueue, fleet: Fleet, action: Action) -> Executor | None:
    """An executor at the destination that may hold copies, the one with the fewest."""
    standby, destination = action.request.processor_id, action.request.destination_host
    ending = {*queue.being_restarted, *fleet.restarts.values()}
    able = {id: fleet.executor_of[id] for id in fleet.may_hold_copies if fleet.executor_of[id] not in ending}
    closed = {fleet.places[fleet.base_of(standby)], *places_of_replicas(fleet, standby, others=True)}
    here = places_of_replicas(fleet, standby).keys()
    if destination == ANY_HOST and len(here) == 1:  # else its copies are spread, and any host that has some will do
        closed |= here
    held = {
        id: sum(task.standby_of is not None for task in container.tasks.values())
        for id, container in fleet.model.containers.items()
    }
    fit = [id for id in able if fleet.places[id] not in closed and destination in (ANY_HOST, fleet.places[id])]
    if destination == ANY_HOST:
        fit = [id for id in fit if refusal(fleet, replace(action.request, destination_host=fleet.places[id])) is None]
    chosen = min(fit, key=lambda id: (held.get(id, 0), natural_order(id)), default=None)
    return None if chosen is None else fleet.executors[able[chosen]]
