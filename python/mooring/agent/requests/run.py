"""Carrying out the requests of operators: each goes from phase to phase as `mooring.placement.lifecycle` allows.

Pure. Requests that are about the same processors or host are served one by one, in the order of their clients'
timestamps. No request begins while a query waits for its first plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from mooring.agent.requests import drain_host, move, move_standby, restart, toggle_standby, waiting
from mooring.agent.requests.action import Action
from mooring.agent.requests.conflicts import Conflicts
from mooring.agent.requests.phase import Change, Outcome, PhaseHandler, View, without_ongoing
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.state.fleet import Fleet
from mooring.errors import InvalidGroupingError
from mooring.model.orders import LogLine, Order
from mooring.placement.lifecycle import Happening, Phase

_HANDLERS: Final[Mapping[Phase, PhaseHandler]] = {
    Phase.RESERVING: move.RESERVING,
    Phase.WARMING_UP: move.WARMING_UP,
    Phase.SWITCHING: move.SWITCHING,
    Phase.AWAITING_COPIES: restart.AWAITING_COPIES,
    Phase.RESTARTING: restart.RESTARTING,
    Phase.CLOSING_COPIES: move_standby.CLOSING_COPIES,
    Phase.RENEWING_COPIES: toggle_standby.RENEWING_COPIES,
    Phase.EMPTYING: drain_host.EMPTYING,
    Phase.OPENING: drain_host.OPENING,
}
"""One handler for each phase that is under way. `waiting.outcome` handles WAITING."""

_HANDLERS_OF_STANDBYS: Final[Mapping[Phase, PhaseHandler]] = {
    **_HANDLERS,
    Phase.RESERVING: move_standby.RESERVING,
    Phase.WARMING_UP: move_standby.WARMING_UP,
    Phase.RENEWING_COPIES: move_standby.RENEWING_COPIES,
}
"""The handlers of a request that moves or restarts a standby of a processor."""

_OVER: Final = (Phase.DONE, Phase.FAILED)
_PHASES_WITH_JOB_MODEL: Final = (Phase.SWITCHING, Phase.RENEWING_COPIES)


def advanced(
    queue: RequestQueue, fleet: Fleet, view: View, may_make_job_model: bool = True
) -> tuple[RequestQueue, Fleet, list[Order]]:
    """The queue and the fleet after each action has gone as far as it can now, and the orders for that.

    One job model is made at most, none unless `may_make_job_model`: between two job models the agent takes in events.
    """
    progress = _Progress(queue, fleet, view, may_make_job_model)
    while progress.serve_all():
        pass
    return progress.queue, progress.fleet, progress.orders


def may_advance(queue: RequestQueue, fleet: Fleet, view: View) -> bool:
    """Whether `advanced` would change anything."""
    conflicts = Conflicts(fleet, queue.actions)
    for action in queue.actions:
        if _outcome(queue, fleet, action, conflicts, view) is not None:
            return True
        conflicts.add(action)
    return False


class _Progress:
    """The queue, the fleet and the orders while actions advance."""

    def __init__(self, queue: RequestQueue, fleet: Fleet, view: View, may_make_job_model: bool) -> None:
        self.queue, self.fleet, self.orders = queue, fleet, list[Order]()
        self._view, self._may_make_job_model = view, may_make_job_model
        self._conflicts = Conflicts(fleet, queue.actions)
        self._served: list[Action] = []
        self._by_uuid, self._indexed = dict[UUID, Action](), tuple[Action, ...]()

    def serve_all(self) -> bool:
        """Advance each action once as far as it can go now; whether any did."""
        self._conflicts, self._served = Conflicts(self.fleet, self.queue.actions), []
        results = [self._serve(action.request.uuid) for action in self.queue.actions]
        return any(results)

    def _serve(self, uuid: UUID) -> bool:
        """Advance the action of one request as far as it can go now; whether it did.

        The end of another request may have changed the action in the same pass.
        """
        has_advanced = False
        current = self._action(uuid)
        while current is not None:
            outcome = _outcome(self.queue, self.fleet, current, self._conflicts_now(), self._view)
            makes_job_model = outcome is not None and _makes_job_model(current, outcome, self._view.now_ms)
            if outcome is None or (makes_job_model and not self._may_make_job_model):
                self._served.append(current)
                self._conflicts.add(current)
                break
            has_advanced = True
            self._may_make_job_model = self._may_make_job_model and not makes_job_model
            current = current if current.is_under_way else self._conflicts.with_scope(current)
            self.queue, self.fleet, orders = _advance(self.queue, self.fleet, current, outcome, self._view.now_ms)
            self.orders += orders
            current = self._action(uuid)
        return has_advanced

    def _action(self, uuid: UUID) -> Action | None:
        """The action of a request as the queue has it now; None when the request is over."""
        if self._indexed is not self.queue.actions:  # thousands of requests may wait: each is looked up
            self._indexed = self.queue.actions
            self._by_uuid = {action.request.uuid: action for action in self._indexed}
        return self._by_uuid.get(uuid)

    def _conflicts_now(self) -> Conflicts:
        if not self._conflicts.holds_for(self.fleet):
            self._conflicts = Conflicts(self.fleet, self.queue.actions)
            for action in self._served:
                self._conflicts.add(action)
        return self._conflicts


def _outcome(queue: RequestQueue, fleet: Fleet, action: Action, conflicts: Conflicts, view: View) -> Outcome | None:
    """What has ended the action's phase; None while it goes on."""
    id = action.request.processor_id
    if action.request.host_action is None and fleet.base_of(id) not in fleet.processors:
        message = f"processor {id} is gone: its host did not come back"
        return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, message)
    if action.phase is Phase.WAITING:
        return waiting.outcome(queue, fleet, action, conflicts)
    return _handler(fleet, action, action.phase).outcome(queue, fleet, action, view)


def _handler(fleet: Fleet, action: Action, phase: Phase) -> PhaseHandler:
    return (_HANDLERS_OF_STANDBYS if action.is_of_a_standby(fleet) else _HANDLERS)[phase]


def _makes_job_model(action: Action, outcome: Outcome, now_ms: int) -> bool:
    """Whether the step that follows from this outcome makes a job model."""
    after = action.after(outcome.happening, now_ms).phase
    return after in _PHASES_WITH_JOB_MODEL or (action.phase is Phase.SWITCHING and after is Phase.FAILED)


def _advance(
    queue: RequestQueue, fleet: Fleet, before: Action, outcome: Outcome, now_ms: int
) -> tuple[RequestQueue, Fleet, list[Order]]:
    """Take one row of the transition table: the action in its next phase, the fleet, and the orders."""
    message = outcome.message
    action = before.after(outcome.happening, now_ms)
    try:
        change = _change(fleet, before, action, outcome)
    except InvalidGroupingError as refused:
        # A job model that breaks a promise is not accepted: the present one stays until the next regrouping.
        action = action if action.phase is Phase.FAILED else action.after(Happening.NO_JOB_MODEL, now_ms)
        change, message = Change(without_ongoing(fleet, action), action), f"no plan for it: {refused}"
    message = f"{message}: {change.note}" if change.note else message
    warnings = [LogLine(text) for text in change.warnings]
    action, fleet = change.action, change.fleet
    if action.phase in _OVER:
        begin = [action.in_progress(now_ms)] if before.phase is Phase.WAITING else []
        queue, answers = queue.finished(action, message, now_ms)
        queue, fleet = restart.without_ended_restarts(queue, fleet, before, action)
        return queue, fleet, [*begin, *answers, *warnings]
    answers = [] if action.phase.status is before.phase.status else [action.answered(message, now_ms)]
    line = LogLine(f"request {action.request.uuid} ({action.in_words}): {message}", is_warning=False)
    return queue.with_action(action), fleet, [*answers, *change.orders, *warnings, line]


def _change(fleet: Fleet, before: Action, action: Action, outcome: Outcome) -> Change:
    """What changes when the action's phase begins, or when the request ends.

    InvalidGroupingError where a job model breaks a promise.
    """
    if action.phase not in _OVER:
        return _handler(fleet, action, action.phase).enter(fleet, action, outcome)
    if action.phase is Phase.FAILED and before.phase is not Phase.WAITING:
        return _handler(fleet, action, before.phase).fail(fleet, action, outcome)
    return Change(without_ongoing(fleet, action), action)
