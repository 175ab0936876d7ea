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

SETTLING_MS: Final = 5_000
"""How long after one query the next may be started, for a drain that was asked for before."""

_IN_NO_STORE: Final = UUID(int=0)
_OF_SIGTERM: Final = DrainNotification(_IN_NO_STORE, run_id="")
_OF_START: Final = DrainNotification(_IN_NO_STORE, run_id="the start")


@dataclass(frozen=True, slots=True)
class DrainsAsked(Event):
    """Clients ask this application to drain; `before_start`: they have before its first query was started."""

    notifications: tuple[DrainNotification, ...]
    before_start: bool = False


@dataclass(frozen=True, slots=True)
class QueriesSeen(Event):
    """The queries that run now, those without state too."""

    queries: tuple[RunningQuery, ...]


@dataclass(frozen=True, slots=True)
class EndQuery(Order):
    """Have a query end: `how` is DRAIN, for which its intake stops and its state is flushed, or a StopMode's value.

    `zero_input`: one that is held since its start, as it was to be drained then, reads nothing. Else it reads what
    those that feed it have let out.
    """

    query: str
    how: str
    zero_input: bool = False


@dataclass(frozen=True, slots=True)
class OweDrains(Order):
    """Write down, where the next starts of queries find it, that they are to be drained: each after others, by ids."""

    after: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class AnnounceDrains(Order):
    """Tell the driver of which queries a drain is asked for, by names or ids: one that starts now reads nothing new.

    None is every query.
    """

    queries: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class RemoveNotifications(Order):
    """Remove what was asked and is done."""

    uuids: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Drainage:
    """What is asked and not done yet; the last that was heard of each query's drain, by query id.

    `order` is the user's: groups of names, those that feed others first. `after` are those that were to be drained
    before a query, as an earlier application wrote down; `noted` are the runs of which this one has. `known` are the
    queries that were seen so far, by id; `running` are the runs of the last look, and `changed_ms` is when one came or
    went. `held` were started for their drain only. `newest_ms` is when the last query was seen first, where a drain was
    asked for before the start: until a while after that nobody is told to drain, as those that feed others may be
    started later. `told` is the run of each query that was told, and what; `since` when it was told first, as after
    `timeout_ms` a drain is ended after its batch. `missed` are those of them that did not run at the last look although
    nobody had heard that they are drained.
    """

    order: tuple[tuple[str, ...], ...] = ()
    timeout_ms: int | None = None
    asked: frozenset[DrainNotification] = frozenset()
    after: Mapping[str, frozenset[str]] = field(default_factory=dict)
    noted: frozenset[str] = frozenset()
    known: Mapping[str, RunningQuery] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    newest_ms: int | None = None
    changed_ms: int = 0
    told: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    missed: frozenset[str] = frozenset()
    heard: Mapping[str, DrainProgressed] = field(default_factory=dict)

    def with_settings(self, order: Sequence[Sequence[str]], timeout_ms: int | None, on_start: bool) -> Drainage:
        """As the settings say; `on_start` has every query drained that is started. What was heard before stands."""
        asked = self.asked | ({_OF_START} if on_start else frozenset())
        newest_ms = 0 if on_start and self.newest_ms is None else self.newest_ms
        return replace(self, order=tuple(map(tuple, order)), timeout_ms=timeout_ms, asked=asked, newest_ms=newest_ms)

    @property
    def is_under_way(self) -> bool:
        """Whether the queries that run have to be looked at."""
        return bool(self.asked)

    def label_of(self, query: str) -> str:
        """How people know a query: its name, where it is known, else its id."""
        return self.known[query].label if query in self.known else query

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
                "query": self.label_of(query),
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
            if event.before_start:
                drainage = replace(drainage, newest_ms=event.at_ms, changed_ms=event.at_ms)
            return _announced(replace(drainage, asked=drainage.asked | set(event.notifications)))
        case TerminationAsked():
            return _announced(replace(drainage, asked=drainage.asked | {_OF_SIGTERM}))
        case DrainOwed():
            asked = DrainNotification(_IN_NO_STORE, run_id="", query=event.query)
            after = {**drainage.after, event.query: event.after}
            newest_ms = event.at_ms if event.held else drainage.newest_ms
            held = drainage.held | ({event.query} if event.held else frozenset())
            all_asked = drainage.asked | {asked}
            return replace(drainage, asked=all_asked, after=after, held=held, newest_ms=newest_ms), []
        case DrainProgressed():
            return replace(drainage, heard={**drainage.heard, event.query: event}), []
        case QueriesSeen() if drainage.is_under_way:
            return _told(drainage, event.queries, event.at_ms)
        case _:
            return drainage, []


def _announced(drainage: Drainage) -> tuple[Drainage, list[Order]]:
    drains = {one.query for one in drainage.asked if one.stop is None}
    return drainage, [AnnounceDrains(tuple(sorted(drains, key=lambda query: query or "")))]


def _told(drainage: Drainage, running: Sequence[RunningQuery], now_ms: int) -> tuple[Drainage, list[Order]]:
    """Tell the queries that nobody feeds any more; when none that is meant runs, it is over.

    A query that is gone and was not drained, because it failed or was stopped, ends it: what it would have let out is
    not there yet for those that it feeds. Its last word may be on its way for one look.
    """
    drainage = _with_seen(drainage, running, now_ms)
    runs, ids = {query.run for query in running}, {query.id for query in running}
    gone = {id for id, (run, _) in drainage.told.items() if run not in runs and not _is_over(drainage, id, run)} - ids
    lost = sorted((drainage.label_of(id) for id in gone & drainage.missed), key=natural_order)
    drainage = replace(drainage, missed=frozenset(gone))
    how = {query: _how(drainage, query, now_ms) for query in running}
    meant = {query.id: (query, wish) for query, wish in how.items() if wish and not _is_refused(drainage, query, wish)}
    if lost:
        return _given_up(drainage, lost, [query for query, _ in meant.values()])
    if gone:
        return drainage, []
    is_settling = drainage.newest_ms is not None and now_ms - drainage.newest_ms < SETTLING_MS
    if not meant and drainage.newest_ms is not None and now_ms - drainage.changed_ms < SETTLING_MS:
        return drainage, [_removal(drainage)] if drainage.told else []  # the application may end now
    if not meant:
        return _done(drainage, _misses(drainage))
    orderly = {id: query for id, (query, wish) in meant.items() if wish in _IN_ORDER}
    groups = drain_order(
        orderly,
        reads={id: query.reads for id, query in orderly.items()},
        writes={id: query.writes for id, query in orderly.items()},
        told=_by_id(drainage.order, orderly),
    )
    first = set() if is_settling or not groups else {id for id in groups[0] if orderly[id].has_sources}
    first -= {id for id in orderly if not all(_is_drained(drainage, other) for other in drainage.after.get(id, ()))}
    free = first | (meant.keys() - orderly.keys())
    due = {id: (query.run, wish) for id, (query, wish) in meant.items() if id in free}
    due = {id: word for id, word in due.items() if drainage.told.get(id) != word}
    said: list[Order] = [Say(f"{_in_words(due[id][1])}: {drainage.label_of(id)}") for id in due]
    since = {**{id: now_ms for id in due}, **drainage.since}
    owed = {} if is_settling else _owed(drainage, groups, meant)
    noted = drainage.noted | {meant[id][0].run for id in owed}
    drainage = replace(drainage, told={**drainage.told, **due}, since=since, noted=noted)
    return drainage, [
        *said,
        *([OweDrains(owed)] if owed else []),
        *(EndQuery(id, wish, not _is_fed(drainage, meant[id][0])) for id, (_, wish) in due.items()),
    ]


def _given_up(drainage: Drainage, lost: Sequence[str], meant: Sequence[RunningQuery]) -> tuple[Drainage, list[Order]]:
    """Some have ended before they were drained: nobody else is told. Who was started for its drain only ends."""
    left = ", ".join(sorted((query.label for query in meant), key=natural_order)) or "none"
    message = (
        f"drain: {', '.join(lost)} ended before it was drained; not told to drain: {left}. "
        "The drain goes on when they are started again; or ask again"
    )
    only_for_it = [query.id for query in meant if _OF_START in drainage.asked or query.id in drainage.held]
    ends: list[Order] = [
        EndQuery(id, StopMode.AFTER_BATCH.value, zero_input=True) for id in only_for_it if id not in drainage.told
    ]
    return _done(drainage, [Say(message), *ends])


def _with_seen(drainage: Drainage, running: Sequence[RunningQuery], now_ms: int) -> Drainage:
    """Know of those that run; one that was not seen before, or has no sources yet, is news."""
    runs = frozenset(query.run for query in running)
    is_news = any(not query.has_sources or query.run not in _runs(drainage) for query in running)
    return replace(
        drainage,
        known={**drainage.known, **{query.id: query for query in running}},
        running=runs,
        newest_ms=now_ms if is_news and drainage.newest_ms is not None else drainage.newest_ms,
        changed_ms=now_ms if is_news or runs != drainage.running else drainage.changed_ms,
    )


def _runs(drainage: Drainage) -> set[str]:
    return {query.run for query in drainage.known.values()}


def _is_fed(drainage: Drainage, query: RunningQuery) -> bool:
    """Whether others let out what it is to read before it ends, by what was seen or by what the user has said."""
    others = [other for other in drainage.known.values() if other.id != query.id]
    place = next((place for place, group in enumerate(drainage.order) if query.label in group), 0)
    before = {name for group in drainage.order[:place] for name in group}
    return bool(drainage.after.get(query.id)) or any(
        query.reads & other.writes or other.label in before for other in others
    )


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
    always = drainage.asked & {_OF_START}
    if always == drainage.asked and not drainage.told and not said:
        return drainage, []  # nobody has asked for more
    nothing = Drainage(
        drainage.order,
        drainage.timeout_ms,
        asked=always,
        known=drainage.known,
        running=drainage.running,
        newest_ms=drainage.newest_ms if always else None,
        heard=drainage.heard,
    )
    return nothing, [_removal(drainage), *_announced(nothing)[1], *said]


def _removal(drainage: Drainage) -> RemoveNotifications:
    return RemoveNotifications(frozenset(one.uuid for one in drainage.asked))


def _is_over(drainage: Drainage, query: str, run: str) -> bool:
    news = drainage.heard.get(query)
    return news is not None and news.run == run and news.phase in (*OVER, REFUSED)


def _is_drained(drainage: Drainage, query: str) -> bool:
    news = drainage.heard.get(query)
    known = drainage.known.get(query)
    return news is not None and news.phase == "drained" and (known is None or known.run == news.run)


def _is_refused(drainage: Drainage, query: RunningQuery, how: str) -> bool:
    """Whether this run was told the same before and can not."""
    news = drainage.heard.get(query.id)
    is_refused = news is not None and news.phase == REFUSED and news.run == query.run
    return is_refused and drainage.told.get(query.id) == (query.run, how)


def _misses(drainage: Drainage) -> list[Order]:
    """What is said of notifications for queries that there were none of."""
    labels = {query.label for query in drainage.known.values()}
    known = drainage.known.keys() | labels
    asked = [one.query for one in drainage.asked if one.uuid != _IN_NO_STORE]
    missed = sorted(query for query in asked if query is not None and query not in known)
    running = ", ".join(sorted(labels, key=natural_order)) or "none"
    return [Say(f"drain: there is no query {name}; expected one of: {running}") for name in missed]


def _by_id(order: Sequence[Sequence[str]], running: Mapping[str, RunningQuery]) -> list[list[str]]:
    """The user's order of those that run, as ids."""
    ids = {query.label: id for id, query in running.items()}
    groups = [[ids[name] for name in group if name in ids] for group in order]
    return [group for group in groups if group]
