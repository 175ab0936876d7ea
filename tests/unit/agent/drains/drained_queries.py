"""Three queries, and steps of their drains, for tests of the drains' pure core."""

from __future__ import annotations

from uuid import UUID

from mooring.agent.drains.advance import advanced
from mooring.agent.drains.drainage import Drainage
from mooring.agent.drains.events_and_orders import (
    DrainsAsked,
    EndQuery,
    QueriesSeen,
    RemoveNotifications,
    RequestDrains,
)
from mooring.drain import DrainNotification, RunningQuery, StopMode
from mooring.model.events import DrainProgressed
from mooring.model.orders import Order

BIDS = RunningQuery("id-1", "run-1", "bids", frozenset({"/in"}), frozenset({"/bids"}))
SUMS = RunningQuery("id-2", "run-2", "sums", frozenset({"/bids"}), frozenset({"/sums"}))
OVER = [RemoveNotifications(frozenset({UUID(int=1)})), RequestDrains(())]
APART = RunningQuery("id-3", "run-3", "apart", frozenset({"/other"}), frozenset({"/apart"}))


def asked(drainage: Drainage, query: str | None = None, stop: StopMode | None = None) -> Drainage:
    return advanced(drainage, DrainsAsked(0, (DrainNotification(UUID(int=1), "app", query=query, stop=stop),)))[0]


def seen(drainage: Drainage, *running: RunningQuery, at_ms: int = 0) -> tuple[Drainage, list[Order]]:
    return advanced(drainage, QueriesSeen(at_ms, running))


def told(orders: list[Order], how: str = "DRAIN") -> list[str]:
    return [order.query for order in orders if isinstance(order, EndQuery) and order.how == how]


def drained(drainage: Drainage, *queries: RunningQuery) -> Drainage:
    for query in queries:
        drainage, _ = advanced(drainage, DrainProgressed(0, query.id, query.run, "drained"))
    return drainage


def failed(drainage: Drainage, query: RunningQuery, reason: str = "it failed: no such file") -> Drainage:
    sink = tuple(f"FileSink[{place}]" for place in query.writes)
    news = DrainProgressed(0, query.id, query.run, "failed", reason=reason, name=query.name, writes=sink)
    return advanced(drainage, news)[0]


def phases(drainage: Drainage) -> dict[str, str]:
    return {row["query"]: row["phase"] for row in drainage.as_json()}


def before_start(drainage: Drainage, at_ms: int) -> Drainage:
    asked = (DrainNotification(UUID(int=1), "app"),)
    return advanced(drainage, DrainsAsked(at_ms, asked, before_start=True))[0]
