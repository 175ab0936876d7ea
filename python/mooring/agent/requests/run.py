"""Carrying out what operators ask: each request from phase to phase, as `mooring.placement.lifecycle` allows.

Pure. For one processor, and for processors with copies of each other's tasks, requests are served one by one, in the
order of their clients' timestamps, for which each waits a moment. Nothing is begun while a query waits for its first
plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mooring.agent.planning.copies import all_copies, transfer_allowance_ms
from mooring.agent.requests import drain_host, move, move_standby, restart, toggle_standby
from mooring.agent.requests.move import REQUEST_TIMEOUTS, RequestTimeouts, Seen
from mooring.agent.requests.queue import Action, RequestQueue, in_progress
from mooring.agent.requests.turns import Turns
from mooring.agent.requests.validation import refusal
from mooring.agent.state.fleet import Fleet
from mooring.errors import InvalidGroupingError
from mooring.model.orders import Copies, LogLine, Order, RestartExecutor, Rows
from mooring.placement.lifecycle import Happening, Phase, step

_OVER = (Phase.DONE, Phase.FAILED)
_PLANS = (Phase.SWITCHING, Phase.RENEWING_COPIES)


@dataclass(frozen=True, slots=True)
class View:
    """What besides the fleet is to be seen: the time, the version, the copies and the rows that the JVM has."""

    now_ms: int
    version_in_force: int = -1
    copies: Copies = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    timeouts: RequestTimeouts = REQUEST_TIMEOUTS


def advanced(
    queue: RequestQueue, fleet: Fleet, view: View, may_plan: bool = True
) -> tuple[RequestQueue, Fleet, list[Order]]:
    """Bring every action as far as it comes now; but make one plan at most, as the agent is to hear of events."""
    orders: list[Order] = []
    is_over = False
    while not is_over:
        is_over = True
        passed: list[Action] = []
        turns = Turns(fleet, queue.actions)
        for action in queue.actions:
            now: Action | None = action
            while now is not None:
                if not turns.is_about(fleet):
                    turns = Turns(fleet, queue.actions)
                    for one in passed:
                        turns.add(one)
                seen = _seen(queue, fleet, now, turns, view)
                if seen is None or (_needs_a_plan(now, seen) and not may_plan):
                    break
                is_over, may_plan = False, may_plan and not _needs_a_plan(now, seen)
                now = now if now.is_under_way else turns.begun(now)
                queue, fleet, more = _stepped(queue, fleet, now, seen, view.now_ms)
                orders += more
                now = queue.action(action.request.uuid)
            if now is not None:
                passed.append(now)
                turns.add(now)
    return queue, fleet, orders


def may_advance(queue: RequestQueue, fleet: Fleet, view: View) -> bool:
    """Whether `advanced` would change anything."""
    turns = Turns(fleet, queue.actions)
    for action in queue.actions:
        if _seen(queue, fleet, action, turns, view) is not None:
            return True
        turns.add(action)
    return False


def _seen(queue: RequestQueue, fleet: Fleet, action: Action, turns: Turns, view: View) -> Seen | None:
    """What has happened to an action, None while it has to wait, as for those that `turns` has before it."""
    id = action.request.processor_id
    if action.request.host_action is None and fleet.base_of(id) not in fleet.processors:
        return Happening.NOT_POSSIBLE_ANY_MORE, f"processor {id} is gone: its host did not come back", ""
    if action.is_under_way and _is_of_a_standby(fleet, action):
        return _seen_of_a_standby(queue, fleet, action, view)
    match action.phase:
        case Phase.WAITING:
            return _turn_of(queue, fleet, action, turns)
        case Phase.RESERVING:
            return move.reserved(
                fleet, action, view.timeouts, view.now_ms, lambda: move.executor_for(queue, fleet, action)
            )
        case Phase.WARMING_UP:
            return move.warmed_up(fleet, action, view.timeouts, view.now_ms)
        case Phase.SWITCHING:
            return move.switched(fleet, action, view.timeouts, view.version_in_force, view.now_ms)
        case Phase.AWAITING_COPIES:
            return restart.covered(queue, fleet, action, view.now_ms)
        case Phase.RESTARTING:
            return restart.restarted(fleet, action, view.timeouts, view.now_ms)
        case Phase.EMPTYING | Phase.OPENING:
            warm_by_ms = action.since_ms + view.timeouts.warm_up_ms + transfer_allowance_ms(fleet, all_copies(fleet))
            found = drain_host.outcome(
                action, fleet, view.version_in_force, view.rows, view.copies, is_late=view.now_ms >= warm_by_ms
            )
            return None if found is None else (*found, "")
        case _:
            found = toggle_standby.outcome(action, fleet, view.version_in_force, view.copies)
            return None if found is None else (*found, "")


def _is_of_a_standby(fleet: Fleet, action: Action) -> bool:
    """Whether it moves or restarts a standby of a processor, as 4-0."""
    id = action.request.processor_id
    return fleet.base_of(id) != id and action.request.standby is None


def _seen_of_a_standby(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Seen | None:
    match action.phase:
        case Phase.RESERVING:
            return move.reserved(
                fleet, action, view.timeouts, view.now_ms, lambda: move_standby.executor_for(queue, fleet, action)
            )
        case Phase.WARMING_UP:
            return move_standby.warmed_up(fleet, action, view.timeouts, view.now_ms)
        case Phase.LETTING_GO:
            return move_standby.are_let_go(action, view.now_ms)
        case _:
            return move_standby.outcome(fleet, action, view.timeouts, view.version_in_force, view.now_ms)


def _turn_of(queue: RequestQueue, fleet: Fleet, action: Action, turns: Turns) -> Seen | None:
    if not all(query.is_released for query in fleet.queries.values()):
        return None
    if queue.read_ms < action.arrived_by_ms:
        return None
    if turns.has_to_wait(action):
        return None
    if _was_begun_with_another(fleet, action):
        return Happening.NOT_POSSIBLE_ANY_MORE, "it was begun before, and the processor is on neither executor now", ""
    begun = None if restart.had_ended_nothing(action.begun) else action.begun
    refused = None if begun else refusal(fleet, action.request)
    if refused is not None:
        return Happening.NOT_POSSIBLE_ANY_MORE, refused, ""
    if action.request.standby is not None:
        return Happening.TURN_TO_CONTROL_STANDBYS, action.in_words, ""
    if action.request.host_action is not None:
        return (*drain_host.turn(action), "")
    if _is_of_a_standby(fleet, action):
        return move_standby.turn(fleet, action)
    processor = fleet.processors[action.request.processor_id]
    now = processor.executor or ""
    ended = fleet.restarts.get(str(action.request.uuid))  # by an agent before this one
    if ended is None and begun is not None and begun.phase == Phase.RESTARTING.label:
        ended = begun.source  # the JVM has given up to end it, or had not heard of it
    if ended is not None or (begun is None and restart.is_to_restart(fleet, action)):
        source = processor.last_executor if ended is None else ended
        if source in fleet.executors and turns.is_busy(source):
            return None
        return restart.turn(queue, fleet, processor, source, has_begun=ended is not None)
    if begun is not None and begun.phase == Phase.SWITCHING.label and now != begun.source:
        return Happening.WAS_SWITCHED, "an agent before this one had switched it", ""
    source = begun.source if begun else now  # it may be switched anew: that plan was not kept
    return Happening.TURN_TO_MOVE, f"looking for an executor for {action.request.destination_host}", source


def _was_begun_with_another(fleet: Fleet, action: Action) -> bool:
    """Whether an agent before this one had switched another processor of this id, as ids are given anew at times."""
    begun = action.begun
    if begun is None or begun.phase != Phase.SWITCHING.label or action.request.processor_id not in fleet.processors:
        return False
    return fleet.processors[action.request.processor_id].executor not in (None, begun.source, begun.executor)


def _needs_a_plan(action: Action, seen: Seen) -> bool:
    after = step(action.phase, seen[0])
    return after in _PLANS or (action.phase is Phase.SWITCHING and after is Phase.FAILED)


def _stepped(
    queue: RequestQueue, fleet: Fleet, action: Action, seen: Seen, now_ms: int
) -> tuple[RequestQueue, Fleet, list[Order]]:
    """One row of the table: the action in its next phase, and what is done on the way."""
    happening, message, executor = seen
    before = action.phase
    action = replace(action, phase=step(before, happening), since_ms=now_ms)
    told: list[str] = []
    orders: list[Order] = []
    try:
        match action.phase:
            case Phase.RESTARTING:
                action = replace(action, source=executor)
                order = RestartExecutor(str(action.request.uuid), executor, restart.most_idle_wait_ms(action))
                orders = [order] if executor in fleet.executors else []
            case Phase.RESERVING | Phase.AWAITING_COPIES:
                action = replace(action, source=executor)
            case Phase.WARMING_UP:
                action = replace(action, executor=executor)
                fleet = move.on_its_way(fleet, action)
            case Phase.SWITCHING if action.begun is not None and happening is Happening.WAS_SWITCHED:
                action = replace(action, source=action.begun.source, executor=action.begun.executor)
                action = replace(action, version=fleet.model.version)
                fleet = move.on_its_way(fleet, action, is_switched=True)
            case Phase.SWITCHING:
                now = fleet.processors[action.request.processor_id].executor
                action = action if now in (None, action.executor) else replace(action, source=str(now))
                fleet, told = move.switch(fleet, action)
                action = replace(action, version=fleet.model.version)
            case Phase.LETTING_GO:
                fleet = move_standby.let_go(fleet, action)
            case Phase.RENEWING_COPIES if _is_of_a_standby(fleet, action):
                fleet, told = move_standby.made(fleet, action)
                action = replace(action, version=fleet.model.version)
            case Phase.RENEWING_COPIES:
                fleet, told = toggle_standby.controlled(fleet, action)
                action = replace(action, version=fleet.model.version)
            case Phase.EMPTYING | Phase.OPENING:
                fleet = drain_host.controlled(fleet, action, now_ms)
            case Phase.FAILED if before is Phase.SWITCHING and happening is not Happening.NOT_POSSIBLE_ANY_MORE:
                fleet, told, where = move.gone_back(fleet, action)
                message = f"{message}: {where}"
            case Phase.FAILED if before is Phase.RENEWING_COPIES and _is_of_a_standby(fleet, action):
                fleet = move_standby.wanted_nowhere(move_standby.arrived(fleet, action), action)
            case _:
                fleet = move_standby.arrived(fleet, action)
    except InvalidGroupingError as refused:
        # No plan that breaks a promise is put in force: all stays as it is, and the next regrouping looks again.
        fleet = move_standby.arrived(fleet, action)
        action, message = replace(action, phase=Phase.FAILED), f"no plan for it: {refused}"
    says: list[Order] = [LogLine(text) for text in told]
    if action.phase in _OVER:
        begins = [] if before is not Phase.WAITING else [in_progress(action, now_ms)]
        queue, answers = queue.done(action, message, now_ms)
        fleet = restart.without_ended_restarts(fleet, queue, action)
        return queue, fleet, [*begins, *answers, *says]
    says.append(LogLine(f"request {action.request.uuid} ({action.in_words}): {message}"))
    changed = [] if action.phase.status is before.status else [action.answered(message, now_ms)]
    return queue.with_action(action), fleet, [*changed, *orders, *says]
