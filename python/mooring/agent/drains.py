"""Drains that clients have asked for: which queries are told, when, and how far they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from mooring.drain import DrainNotification, RunningQuery, drain_order
from mooring.model import natural_order
from mooring.model.events import DrainProgressed, Event
from mooring.model.orders import Order, Say

PHASES: Final = ("frozen", "caught-up", "flushed", "drained")
REFUSED: Final = "refused"


@dataclass(frozen=True, slots=True)
class DrainsAsked(Event):
    """Clients ask this application to drain."""

    notifications: tuple[DrainNotification, ...]


@dataclass(frozen=True, slots=True)
class QueriesSeen(Event):
    """The queries that run now, those without state too."""

    queries: tuple[RunningQuery, ...]


@dataclass(frozen=True, slots=True)
class DrainQuery(Order):
    """Stop a query's intake, flush its state, and end it."""

    query: str


@dataclass(frozen=True, slots=True)
class RemoveNotifications(Order):
    """Remove what was asked and is done."""

    uuids: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Drainage:
    """What is asked and not done yet; the last that was heard of each query's drain, by query id.

    `order` is the user's: groups of names, those that feed others first. `told` is the run of each query that was told,
    `missed` those of them that did not run at the last look although nobody had heard that they are drained.
    """

    order: tuple[tuple[str, ...], ...] = ()
    asked: frozenset[DrainNotification] = frozenset()
    told: Mapping[str, str] = field(default_factory=dict)
    missed: frozenset[str] = frozenset()
    heard: Mapping[str, DrainProgressed] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_under_way(self) -> bool:
        """Whether the queries that run have to be looked at."""
        return bool(self.asked)

    def state_of(self, query: str) -> float:
        """The gauge `drain-state`: 0 not drained, 1 frozen, 2 caught up, 3 flushed, 4 drained, -1 refused."""
        news = self.heard.get(query)
        if news is None:
            return 0.0
        return -1.0 if news.phase == REFUSED else float(PHASES.index(news.phase) + 1)

    def as_json(self) -> list[dict[str, Any]]:
        """For the status page: the drains that were heard of, in natural order."""
        rows = [
            {
                "query": self.labels.get(query, query),
                "id": query,
                "phase": news.phase,
                "batch": news.batch,
                "flush-batches": news.flushes,
                "state-rows-flushed": news.flushed,
                "state-rows-left": news.left,
                **({"reason": news.reason} if news.reason else {}),
            }
            for query, news in self.heard.items()
        ]
        return sorted(rows, key=lambda row: natural_order(str(row["query"])))


def is_about_drains(event: Event) -> bool:
    """Whether `advanced` takes it in, and nobody else."""
    return isinstance(event, (DrainsAsked, QueriesSeen, DrainProgressed))


def advanced(drainage: Drainage, event: Event) -> tuple[Drainage, list[Order]]:
    """Take one event in."""
    match event:
        case DrainsAsked():
            return replace(drainage, asked=drainage.asked | set(event.notifications)), []
        case DrainProgressed():
            return replace(drainage, heard={**drainage.heard, event.query: event}), []
        case QueriesSeen() if drainage.is_under_way:
            return _told(drainage, event.queries)
        case _:
            return drainage, []


def _told(drainage: Drainage, running: Sequence[RunningQuery]) -> tuple[Drainage, list[Order]]:
    """Tell the queries that nobody feeds any more; when none that is meant runs, it is over.

    A query that is gone and was not drained, because it failed or was stopped, ends it: what it would have let out is
    not there yet for those that it feeds. Its last word may be on its way for one look.
    """
    labels = {**drainage.labels, **{query.id: query.label for query in running}}
    meant = {query.id: query for query in running if _is_meant(drainage, query)}
    runs = {query.run for query in running}
    gone = {id for id, run in drainage.told.items() if run not in runs and not _is_over(drainage, id, run)}
    lost = sorted((labels[id] for id in gone & drainage.missed), key=natural_order)
    drainage = replace(drainage, labels=labels, missed=frozenset(gone))
    if lost:
        left = ", ".join(sorted((query.label for query in meant.values()), key=natural_order)) or "none"
        message = (
            f"drain: {', '.join(lost)} ended before it was drained; not told to drain: {left}. Ask again when it runs"
        )
        return _done(drainage, [Say(message)])
    if gone:
        return drainage, []
    if not meant:
        return _done(drainage, _misses(drainage))
    groups = drain_order(
        meant,
        reads={id: query.reads for id, query in meant.items()},
        writes={id: query.writes for id, query in meant.items()},
        told=_by_id(drainage.order, meant),
    )
    due = [meant[id] for id in groups[0] if drainage.told.get(id) != meant[id].run]
    told = {**drainage.told, **{query.id: query.run for query in due}}
    said = [Say(f"drain: {', '.join(query.label for query in due)}")] if due else []
    return replace(drainage, told=told), [*said, *(DrainQuery(query.id) for query in due)]


def _done(drainage: Drainage, said: list[Order]) -> tuple[Drainage, list[Order]]:
    over = RemoveNotifications(frozenset(one.uuid for one in drainage.asked))
    return replace(drainage, asked=frozenset(), told={}, missed=frozenset()), [over, *said]


def _is_over(drainage: Drainage, query: str, run: str) -> bool:
    news = drainage.heard.get(query)
    return news is not None and news.run == run and news.phase in (PHASES[-1], REFUSED)


def _is_meant(drainage: Drainage, query: RunningQuery) -> bool:
    news = drainage.heard.get(query.id)
    is_refused = news is not None and news.phase == REFUSED and news.run == query.run
    return not is_refused and any(one.query in (None, query.id, query.name) for one in drainage.asked)


def _misses(drainage: Drainage) -> list[Order]:
    """What is said of notifications for queries that there were none of."""
    known = drainage.labels.keys() | set(drainage.labels.values())
    missed = sorted(one.query for one in drainage.asked if one.query is not None and one.query not in known)
    running = ", ".join(sorted(drainage.labels.values(), key=natural_order)) or "none"
    return [Say(f"drain: there is no query {name}; expected one of: {running}") for name in missed]


def _by_id(order: Sequence[Sequence[str]], running: Mapping[str, RunningQuery]) -> list[list[str]]:
    """The user's order of those that run, as ids."""
    ids = {query.label: id for id, query in running.items()}
    groups = [[ids[name] for name in group if name in ids] for group in order]
    return [group for group in groups if group]
