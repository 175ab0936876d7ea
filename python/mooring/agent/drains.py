"""Drains and stops that clients have asked for: which queries are told, when, and how far they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from mooring.drain import DrainNotification, RunningQuery, StopMode, drain_order
from mooring.model import natural_order
from mooring.model.events import DrainOwed, DrainProgressed, Event, TerminationAsked
from mooring.model.orders import Order, Say

PHASES: Final = ("frozen", "caught-up", "flushed", "drained", "stopped")
OVER: Final = ("drained", "stopped")
REFUSED: Final = "refused"

DRAIN: Final = "DRAIN"
_BY_HASTE: Final = (DRAIN, *(mode.value for mode in StopMode))
_IN_ORDER: Final = (DRAIN, StopMode.AFTER_AVAILABLE.value)
"""What makes a query wait for those that feed it."""

_IN_NO_STORE: Final = UUID(int=0)
_OF_SIGTERM: Final = DrainNotification(_IN_NO_STORE, run_id="")


@dataclass(frozen=True, slots=True)
class DrainsAsked(Event):
    """Clients ask this application to drain."""

    notifications: tuple[DrainNotification, ...]


@dataclass(frozen=True, slots=True)
class QueriesSeen(Event):
    """The queries that run now, those without state too."""

    queries: tuple[RunningQuery, ...]


@dataclass(frozen=True, slots=True)
class EndQuery(Order):
    """Have a query end: `how` is DRAIN, for which its intake stops and its state is flushed, or a StopMode's value."""

    query: str
    how: str


@dataclass(frozen=True, slots=True)
class OweDrains(Order):
    """Write down, where the next starts of queries find it, that they are to be drained: each after others, by ids."""

    after: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class RemoveNotifications(Order):
    """Remove what was asked and is done."""

    uuids: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Drainage:
    """What is asked and not done yet; the last that was heard of each query's drain, by query id.

    `order` is the user's: groups of names, those that feed others first. `after` are those that were to be drained
    before a query, as an earlier application wrote down; `noted` are the runs of which this one has. `told` is the run
    of each query that was told, and what; `since` when it was told first, as after `timeout_ms` a drain is ended after
    its batch. `missed` are those of them that did not run at the last look although nobody had heard that they are
    drained.
    """

    order: tuple[tuple[str, ...], ...] = ()
    timeout_ms: int | None = None
    asked: frozenset[DrainNotification] = frozenset()
    after: Mapping[str, frozenset[str]] = field(default_factory=dict)
    noted: frozenset[str] = frozenset()
    told: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    missed: frozenset[str] = frozenset()
    heard: Mapping[str, DrainProgressed] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_under_way(self) -> bool:
        """Whether the queries that run have to be looked at."""
        return bool(self.asked)

    def state_of(self, query: str) -> float:
        """The gauge `drain-state`: 1 frozen, 2 caught up, 3 flushed, 4 drained, 5 stopped, -1 refused, else 0."""
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
                "batches": news.batches,
                "rows": news.rows,
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
    return isinstance(event, (DrainsAsked, QueriesSeen, DrainOwed, DrainProgressed, TerminationAsked))


def advanced(drainage: Drainage, event: Event) -> tuple[Drainage, list[Order]]:
    """Take one event in."""
    match event:
        case DrainsAsked():
            return replace(drainage, asked=drainage.asked | set(event.notifications)), []
        case TerminationAsked():
            return replace(drainage, asked=drainage.asked | {_OF_SIGTERM}), []
        case DrainOwed():
            asked = DrainNotification(_IN_NO_STORE, run_id="", query=event.query)
            after = {**drainage.after, event.query: event.after}
            return replace(drainage, asked=drainage.asked | {asked}, after=after), []
        case DrainProgressed():
            return replace(drainage, heard={**drainage.heard, event.query: event}), []
        case QueriesSeen() if drainage.is_under_way:
            return _told(drainage, event.queries, event.at_ms)
        case _:
            return drainage, []


def _told(drainage: Drainage, running: Sequence[RunningQuery], now_ms: int) -> tuple[Drainage, list[Order]]:
    """Tell the queries that nobody feeds any more; when none that is meant runs, it is over.

    A query that is gone and was not drained, because it failed or was stopped, ends it: what it would have let out is
    not there yet for those that it feeds. Its last word may be on its way for one look.
    """
    labels = {**drainage.labels, **{query.id: query.label for query in running}}
    runs = {query.run for query in running}
    gone = {id for id, (run, _) in drainage.told.items() if run not in runs and not _is_over(drainage, id, run)}
    lost = sorted((labels[id] for id in gone & drainage.missed), key=natural_order)
    drainage = replace(drainage, labels=labels, missed=frozenset(gone))
    how = {query: _how(drainage, query, now_ms) for query in running}
    meant = {query.id: (query, wish) for query, wish in how.items() if wish and not _is_refused(drainage, query, wish)}
    if lost:
        left = ", ".join(sorted((query.label for query, _ in meant.values()), key=natural_order)) or "none"
        message = (
            f"drain: {', '.join(lost)} ended before it was drained; not told to drain: {left}. "
            "The drain goes on when they are started again; or ask again"
        )
        return _done(drainage, [Say(message)])
    if gone:
        return drainage, []
    if not meant:
        return _done(drainage, _misses(drainage))
    orderly = {id: query for id, (query, wish) in meant.items() if wish in _IN_ORDER}
    groups = drain_order(
        orderly,
        reads={id: query.reads for id, query in orderly.items()},
        writes={id: query.writes for id, query in orderly.items()},
        told=_by_id(drainage.order, orderly),
    )
    free = {*(groups[0] if groups else ()), *(meant.keys() - orderly.keys())}
    free -= {id for id in orderly if not all(_is_drained(drainage, other) for other in drainage.after.get(id, ()))}
    due = {id: (query.run, wish) for id, (query, wish) in meant.items() if id in free}
    due = {id: word for id, word in due.items() if drainage.told.get(id) != word}
    said: list[Order] = [Say(f"{_in_words(due[id][1])}: {labels[id]}") for id in due]
    since = {**{id: now_ms for id in due}, **drainage.since}
    owed = _owed(drainage, groups, meant)
    noted = drainage.noted | {meant[id][0].run for id in owed}
    drainage = replace(drainage, told={**drainage.told, **due}, since=since, noted=noted)
    return drainage, [
        *said,
        *([OweDrains(owed)] if owed else []),
        *(EndQuery(id, wish) for id, (_, wish) in due.items()),
    ]


def _how(drainage: Drainage, query: RunningQuery, now_ms: int) -> str | None:
    """What is asked of a query, of several things the one that is sooner over; None when nothing is."""
    wishes = [
        DRAIN if one.stop is None else one.stop.value
        for one in drainage.asked
        if one.query in (None, query.id, query.name)
    ]
    since = drainage.since.get(query.id)
    most = drainage.timeout_ms
    if DRAIN in wishes and since is not None and most is not None and now_ms - since > most:
        wishes.append(StopMode.AFTER_BATCH.value)
    return max(wishes, key=_BY_HASTE.index, default=None)


def _owed(
    drainage: Drainage, groups: Sequence[Sequence[str]], meant: Mapping[str, tuple[RunningQuery, str]]
) -> dict[str, frozenset[str]]:
    """The queries that are to be drained and of which that is not written down, each with those that come before it."""
    drains = [frozenset(id for id in group if meant[id][1] == DRAIN) for group in groups]
    before = [frozenset[str]().union(*drains[:place]) for place in range(len(drains))]
    return {
        id: earlier | drainage.after.get(id, frozenset())
        for group, earlier in zip(drains, before, strict=True)
        for id in sorted(group)
        if meant[id][0].run not in drainage.noted
    }


def _in_words(how: str) -> str:
    return "drain" if how == DRAIN else f"stop ({how.lower().replace('_', '-')})"


def _done(drainage: Drainage, said: list[Order]) -> tuple[Drainage, list[Order]]:
    over = RemoveNotifications(frozenset(one.uuid for one in drainage.asked))
    nothing = replace(drainage, asked=frozenset(), after={}, noted=frozenset(), told={}, since={}, missed=frozenset())
    return nothing, [over, *said]


def _is_over(drainage: Drainage, query: str, run: str) -> bool:
    news = drainage.heard.get(query)
    return news is not None and news.run == run and news.phase in (*OVER, REFUSED)


def _is_drained(drainage: Drainage, query: str) -> bool:
    news = drainage.heard.get(query)
    return news is not None and news.phase == "drained"


def _is_refused(drainage: Drainage, query: RunningQuery, how: str) -> bool:
    """Whether this run was told the same before and can not."""
    news = drainage.heard.get(query.id)
    is_refused = news is not None and news.phase == REFUSED and news.run == query.run
    return is_refused and drainage.told.get(query.id) == (query.run, how)


def _misses(drainage: Drainage) -> list[Order]:
    """What is said of notifications for queries that there were none of."""
    known = drainage.labels.keys() | set(drainage.labels.values())
    asked = [one.query for one in drainage.asked if one.uuid != _IN_NO_STORE]
    missed = sorted(query for query in asked if query is not None and query not in known)
    running = ", ".join(sorted(drainage.labels.values(), key=natural_order)) or "none"
    return [Say(f"drain: there is no query {name}; expected one of: {running}") for name in missed]


def _by_id(order: Sequence[Sequence[str]], running: Mapping[str, RunningQuery]) -> list[list[str]]:
    """The user's order of those that run, as ids."""
    ids = {query.label: id for id, query in running.items()}
    groups = [[ids[name] for name in group if name in ids] for group in order]
    return [group for group in groups if group]
