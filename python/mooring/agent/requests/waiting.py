"""The phase WAITING of every request: whether its turn has come, and with what it begins. Pure."""

from __future__ import annotations

from mooring.agent.requests import drain_host, move_standby, restart
from mooring.agent.requests.action import Action
from mooring.agent.requests.conflicts import Conflicts
from mooring.agent.requests.phase import Outcome
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.requests.validation import refusal, refused_restart
from mooring.agent.state.fleet import Fleet
from mooring.placement.lifecycle import Happening, Phase


def outcome(queue: RequestQueue, fleet: Fleet, action: Action, conflicts: Conflicts) -> Outcome | None:
    """With what a request begins when its turn has come; None while the request has to wait."""
    if _has_to_wait(queue, fleet, action, conflicts):
        return None
    if _was_switched_for_another(fleet, action):
        message = "it was begun before, and the processor is on neither executor now"
        return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, message)
    refused = None if restart.progress_to_resume(action) else refusal(fleet, action.request)
    if refused is not None:
        return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, refused)
    if action.request.standby is not None:
        return Outcome(Happening.TURN_TO_CONTROL_STANDBYS, action.in_words)
    if action.request.host_action is not None:
        return drain_host.beginning(action)
    if action.is_of_a_standby(fleet):
        return move_standby.beginning(fleet, action)
    return _move_or_restart(queue, fleet, action, conflicts)


def _has_to_wait(queue: RequestQueue, fleet: Fleet, action: Action, conflicts: Conflicts) -> bool:
    has_first_plans = all(query.is_released for query in fleet.queries.values())
    may_be_overtaken = queue.read_ms < action.needs_reading_from_ms  # an earlier request may not have been read yet
    return not has_first_plans or may_be_overtaken or conflicts.must_wait(action)


def _was_switched_for_another(fleet: Fleet, action: Action) -> bool:
    """Whether an earlier agent had switched another processor with the same id: ids are used again."""
    saved = action.saved_progress
    if saved is None or saved.phase != Phase.SWITCHING.label or action.request.processor_id not in fleet.processors:
        return False
    return fleet.processors[action.request.processor_id].executor not in (None, saved.source, saved.destination)


def _move_or_restart(queue: RequestQueue, fleet: Fleet, action: Action, conflicts: Conflicts) -> Outcome | None:
    """With what the request begins: a move or a restart. None while a move uses the executor that would end."""
    processor = fleet.processors[action.request.processor_id]
    saved = restart.progress_to_resume(action)
    ended = restart.executor_ended_before(fleet, action)
    if ended is not None or (saved is None and restart.is_to_restart(fleet, action)):
        source = processor.last_executor if ended is None else ended
        if source in fleet.executors and conflicts.is_busy(source):
            return None
        refused = refused_restart(fleet) if ended is None else None
        if refused is not None:
            return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, refused)
        return restart.beginning(queue, fleet, processor, source, has_begun=ended is not None)
    executor = processor.executor or ""
    if saved is not None and saved.phase == Phase.SWITCHING.label and executor != saved.source:
        return Outcome(Happening.WAS_SWITCHED, "an agent before this one had switched it")
    # An earlier agent may have switched the move, and the processor is at the source again. Then the move begins anew.
    source = saved.source if saved else executor
    # Where the processor is at the destination already, since the request was made, *reserving* ends the request.
    message = f"looking for an executor for {action.request.destination_host}"
    return Outcome(Happening.TURN_TO_MOVE, message, source=source)
