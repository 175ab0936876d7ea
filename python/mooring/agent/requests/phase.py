"""How a phase of a request is handled: what is done when it begins, what ends it, what is undone when it fails. Pure.

The files of the kinds of requests (move, restart, move_standby, toggle_standby, drain_host) have one handler for each
phase; `mooring.agent.requests.run` calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from mooring.agent.requests.action import Action
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.state.fleet import Fleet
from mooring.model.orders import Copies, Order, Rows
from mooring.placement.lifecycle import Happening


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
    """How long each phase may last, in milliseconds. Phases that wait for copies get more time for larger copies."""

    reserve_ms: int = 60_000
    warm_up_ms: int = 600_000
    switch_ms: int = 60_000
    restart_ms: int = 120_000


REQUEST_TIMEOUTS: Final = RequestTimeouts()


@dataclass(frozen=True, slots=True)
class View:
    """What a handler sees besides the fleet: the time, and the version, the copies and the rows that the JVM has."""

    now_ms: int
    version_in_force: int = -1
    copies: Copies = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    timeouts: RequestTimeouts = REQUEST_TIMEOUTS


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has ended a phase, and the message for the operator.

    `destination` is the executor that the request is to use, `source` the one that it leaves or ends. Each is empty
    where the happening names none.
    """

    happening: Happening
    message: str
    destination: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What the begin of a phase, or a failure in it, has changed.

    `orders` are to be carried out, `warnings` are lines for the log. `note` is added to the operator's message.
    """

    fleet: Fleet
    action: Action
    orders: tuple[Order, ...] = ()
    warnings: tuple[str, ...] = ()
    note: str = ""


def without_ongoing(fleet: Fleet, action: Action) -> Fleet:
    """The fleet without what the request changes for a while: its processor's move, and closed copies."""
    id, ongoing = action.request.processor_id, fleet.ongoing
    moves = {other: move for other, move in ongoing.moves.items() if other != id}
    ongoing = replace(ongoing, moves=moves, closed_standbys=ongoing.closed_standbys - {id})
    return replace(fleet, ongoing=ongoing)


def _without_ongoing(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    return Change(without_ongoing(fleet, action), action)


@dataclass(frozen=True, slots=True)
class PhaseHandler:
    """One phase of a request.

    `outcome` returns what has ended the phase, None while it goes on. `enter` does what the begin of the phase asks
    for: the action that it gets is in the phase already, the outcome that it gets is that of the phase before. `fail`
    undoes what a request that fails in this phase leaves. `enter` and `fail` raise InvalidGroupingError where the job
    model breaks a promise.
    """

    outcome: Callable[[RequestQueue, Fleet, Action, View], Outcome | None]
    enter: Callable[[Fleet, Action, Outcome], Change]
    fail: Callable[[Fleet, Action, Outcome], Change] = _without_ongoing
