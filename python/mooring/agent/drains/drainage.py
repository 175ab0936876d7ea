"""Drains and stops that clients have asked for: which queries are told, when, and how far they are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from mooring.drain import DrainNotification, RunningQuery, StopMode, drain_order, places
from mooring.model import natural_order
from mooring.model.events import DrainOwed, DrainProgressed, Event, TerminationAsked
from mooring.model.orders import LogLine, Order

PHASES: Final = ("frozen", "caught-up", "flushed", "drained", "stopped")
OVER: Final = ("drained", "stopped")
REFUSED: Final = "refused"
FAILED: Final = "failed"
"""The run has ended before its drain was over: it failed, or its program stopped it."""
NOT_TOLD: Final = "not-told"
"""It runs, and is not told to drain, as one that feeds it has failed."""

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
    `timeout_ms` a drain is ended after its batch. `meant` is the run of each query that is or was to be told. `missed`
    are those of them that did not run at the last look although nobody had heard that they are drained; `lost` are
    those that have ended before they were. `past` are the queries whose last word is of a drain that is over.
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
    meant: Mapping[str, str] = field(default_factory=dict)
    missed: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    past: frozenset[str] = frozenset()
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
        """The gauge `drain-state`: 1 frozen, 2 caught up, 3 flushed, 4 drained, 5 stopped, else 0.

        -1 is refused, -2 failed, -3 not told.
        """
        news = self.heard.get(query)
        if news is None:
            return 0.0
        others = {REFUSED: -1.0, FAILED: -2.0, NOT_TOLD: -3.0}
        return others[news.phase] if news.phase in others else float(PHASES.index(news.phase) + 1)

    def as_json(self) -> list[dict[str, Any]]:
        """For the status page: the drains that were heard of, in natural order."""
        rows = [
            {
                "query": self.label_of(query),
                "id": query,
                "run-id": news.run,
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
            if set(event.notifications) - drainage.asked:  # what is shown is of this drain
                heard = {query: news for query, news in drainage.heard.items() if query not in drainage.past}
                drainage = replace(drainage, heard=heard, past=frozenset())
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
            heard = {**drainage.heard, event.query: _with_its_numbers(event, drainage.heard.get(event.query))}
            known = drainage.known
            if event.query not in known and event.phase in (*OVER, FAILED):  # it ended before this agent saw it
                ended = RunningQuery(event.query, event.run, event.name, writes=places(event.writes))
                known = {**known, event.query: ended}
            return replace(drainage, heard=heard, known=known, past=drainage.past - {event.query}), []
        case QueriesSeen() if drainage.is_under_way:
            return _told(drainage, event.queries, event.at_ms)
        case _:
            return drainage, []


def _announced(drainage: Drainage) -> tuple[Drainage, list[Order]]:
    drains = {one.query for one in drainage.asked if one.stop is None}
    return drainage, [AnnounceDrains(tuple(sorted(drains, key=lambda query: query or "")))]


def _told(drainage: Drainage, running: Sequence[RunningQuery], now_ms: int) -> tuple[Drainage, list[Order]]:
    """Tell the queries that nobody feeds any more; when none that is meant runs, it is over.

    A query that is gone and was not drained, because it failed or was stopped, is lost: what it would have let out is
    not there yet for those that it feeds, and they are not told. Its last word may be on its way for one look.
    """
    drainage = _with_seen(drainage, running, now_ms)
    how = {query: _how(drainage, query, now_ms) for query in running}
    meant = {query.id: (query, wish) for query, wish in how.items() if wish and not _is_refused(drainage, query, wish)}
    drainage = replace(drainage, meant={**drainage.meant, **{id: query.run for id, (query, _) in meant.items()}})
    before = drainage.lost
    drainage = _with_lost(drainage, running, now_ms)
    if drainage.missed:
        return drainage, []
    blocked = _blocked(drainage, meant)
    drainage, said = _with_blocked(drainage, blocked, drainage.lost - before, now_ms)
    active = {id: one for id, one in meant.items() if id not in blocked or id in drainage.told}
    is_settling = drainage.newest_ms is not None and now_ms - drainage.newest_ms < SETTLING_MS
    if not active and not said and drainage.newest_ms is not None and now_ms - drainage.changed_ms < SETTLING_MS:
        return drainage, [_removal(drainage)] if drainage.told else []  # the application may end now
    if not active:
        return _done(drainage, [*said, *_misses(drainage)])
    orderly = {id: query for id, (query, wish) in meant.items() if wish in _IN_ORDER}
    groups = drain_order(
        orderly,
        reads={id: query.reads for id, query in orderly.items()},
        writes={id: query.writes for id, query in orderly.items()},
        users_order=_by_id(drainage.order, orderly),
    )
    first = set() if is_settling or not groups else {id for id in groups[0] if orderly[id].has_sources}
    first -= {id for id in orderly if not all(_is_drained(drainage, other) for other in drainage.after.get(id, ()))}
    free = (first | (meant.keys() - orderly.keys())) - blocked
    due = {id: (query.run, wish) for id, (query, wish) in meant.items() if id in free}
    due = {id: word for id, word in due.items() if drainage.told.get(id) != word}
    said += [LogLine(f"{_in_words(due[id][1])}: {drainage.label_of(id)}", is_warning=False) for id in due]
    since = {**{id: now_ms for id in due}, **drainage.since}
    owed = {} if is_settling else _owed(drainage, groups, meant)
    noted = drainage.noted | {meant[id][0].run for id in owed}
    drainage = replace(drainage, told={**drainage.told, **due}, since=since, noted=noted)
    return drainage, [
        *said,
        *([OweDrains(owed)] if owed else []),
        *(EndQuery(id, wish, not _is_fed(drainage, meant[id][0])) for id, (_, wish) in due.items()),
    ]


def _with_lost(drainage: Drainage, running: Sequence[RunningQuery], now_ms: int) -> Drainage:
    """Know of those that have ended before they were drained."""
    runs, ids = {query.run for query in running}, {query.id for query in running}
    gone = {id for id, run in drainage.meant.items() if run not in runs and not _is_over(drainage, id, run)} - ids
    failed = {id for id, news in drainage.heard.items() if news.phase == FAILED} - ids - drainage.past
    unheard = (gone - failed) & drainage.missed
    why = {
        id: DrainProgressed(now_ms, id, drainage.meant[id], FAILED, reason="nothing is known of why") for id in unheard
    }
    heard = {id: _with_its_numbers(news, drainage.heard.get(id)) for id, news in why.items()}
    return replace(
        drainage,
        heard={**drainage.heard, **heard},
        past=drainage.past - unheard,
        missed=frozenset(gone - failed - unheard),
        lost=frozenset(failed | unheard),
    )


def _blocked(drainage: Drainage, meant: Mapping[str, tuple[RunningQuery, str]]) -> frozenset[str]:
    """Those that lost ones feed, by others too. One that is to end without waiting for others is not among them."""
    orderly = [query for query, wish in meant.values() if wish in _IN_ORDER]
    blocked: set[str] = set()
    while True:
        missing = [drainage.known[id] for id in drainage.lost | blocked if id in drainage.known]
        more = {
            query.id
            for query in orderly
            if drainage.after.get(query.id, frozenset()) & drainage.lost
            or any(_feeds(drainage, other, query) for other in missing)
        }
        if more <= blocked:
            return frozenset(blocked)
        blocked |= more


def _with_blocked(
    drainage: Drainage, blocked: frozenset[str], lost: frozenset[str], now_ms: int
) -> tuple[Drainage, list[Order]]:
    """LogLine of those just lost, and of those that are not told for it. What was started for its drain only ends."""
    news = {id for id in blocked - drainage.told.keys() if not _is_known_as_not_told(drainage, id)}
    if not news and not lost:
        return drainage, []
    names = partial(_names, drainage)
    is_drain = any(one.stop is None for one in drainage.asked)
    drained, to_drain = ("drained", "drain") if is_drain else ("stopped", "stop")
    reason = f"it is fed by {names(drainage.lost)}, which ended before it was {drained}"
    not_told = {id: DrainProgressed(now_ms, id, drainage.known[id].run, NOT_TOLD, reason=reason) for id in news}
    still = drainage.told.keys() & {id for id, query in drainage.known.items() if query.run in drainage.running}
    said = [f"{names([id])} ended before it was {drained}: {drainage.heard[id].reason}" for id in sorted(lost)]
    said.append(f"told to {to_drain} and not over: {names(still)}")
    said.append(f"not told to {to_drain}, as they are fed by {names(drainage.lost)}: {names(news)}")
    only_for_it = {id for id in news if _OF_START in drainage.asked or id in drainage.held}
    how = StopMode.AFTER_BATCH.value
    drainage = replace(
        drainage,
        heard={**drainage.heard, **not_told},
        past=drainage.past - news,
        told={**drainage.told, **{id: (drainage.known[id].run, how) for id in only_for_it}},
    )
    return drainage, [
        LogLine(f"{to_drain}: {'; '.join(said)}. It goes on when they are started again; or ask again"),
        *(EndQuery(id, how, zero_input=True) for id in sorted(only_for_it)),
    ]


def _names(drainage: Drainage, queries: Iterable[str]) -> str:
    return ", ".join(sorted(map(drainage.label_of, queries), key=natural_order)) or "none"


def _is_known_as_not_told(drainage: Drainage, query: str) -> bool:
    news = drainage.heard.get(query)
    is_known = news is not None and (news.phase, news.run) == (NOT_TOLD, drainage.known[query].run)
    return is_known and query not in drainage.past


def _with_its_numbers(news: DrainProgressed, before: DrainProgressed | None) -> DrainProgressed:
    """Of a run that failed: how far it was, as was heard before."""
    if news.phase != FAILED or before is None or before.run != news.run:
        return news
    return replace(before, at_ms=news.at_ms, phase=FAILED, reason=news.reason, name=news.name, writes=news.writes)


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
    return bool(drainage.after.get(query.id)) or any(
        _feeds(drainage, other, query) for other in drainage.known.values()
    )


def _feeds(drainage: Drainage, other: RunningQuery, query: RunningQuery) -> bool:
    place = next((place for place, group in enumerate(drainage.order) if query.label in group), 0)
    before = {name for group in drainage.order[:place] for name in group}
    return other.id != query.id and bool(query.reads & other.writes or other.label in before)


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
        past=frozenset(drainage.heard),
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
    return [LogLine(f"drain: there is no query {name}; expected one of: {running}") for name in missed]


def _by_id(order: Sequence[Sequence[str]], running: Mapping[str, RunningQuery]) -> list[list[str]]:
    """The user's order of those that run, as ids."""
    ids = {query.label: id for id, query in running.items()}
    groups = [[ids[name] for name in group if name in ids] for group in order]
    return [group for group in groups if group]
