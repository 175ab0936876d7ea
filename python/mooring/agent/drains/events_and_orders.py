"""The events that drains result from, and the orders of drains. The other events of drains are in `mooring.model`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from mooring.drain import DrainNotification, RunningQuery
from mooring.model.events import Event
from mooring.model.orders import Order


@dataclass(frozen=True, slots=True)
class DrainsAsked(Event):
    """Clients ask this application to drain. `before_start`: they asked before its first query was started."""

    notifications: tuple[DrainNotification, ...]
    before_start: bool = False


@dataclass(frozen=True, slots=True)
class QueriesSeen(Event):
    """The queries that run now, with or without state."""

    queries: tuple[RunningQuery, ...]


@dataclass(frozen=True, slots=True)
class EndQuery(Order):
    """Drain a query, or stop it. `how` is DRAIN or the value of a StopMode.

    A drain stops the intake of the query and flushes its state. With `zero_input` a query that is held since its start
    reads nothing. Without it, the query reads the output of the queries that feed it.
    """

    query: str
    how: str
    zero_input: bool = False


@dataclass(frozen=True, slots=True)
class NoteDrains(Order):
    """Record in the checkpoints of queries that they are to be drained. The next start of a query reads the record.

    `after` maps the id of each query to the ids of the queries that are drained before it.
    """

    after: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class RequestDrains(Order):
    """Give the driver the names or ids of the queries that clients ask to drain; None stands for every query.

    A query of these that starts now reads nothing new.
    """

    queries: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class RemoveNotifications(Order):
    """Remove the notifications whose drains are over from the metadata store."""

    uuids: frozenset[UUID]
