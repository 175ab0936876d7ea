"""The decisions about drains and stops: which query is ordered to end, and when. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mooring.agent.drains.drainage import (
    DRAIN,
    FAILED,
    NO_UUID,
    ON_SIGTERM,
    ON_START,
    OVER,
    Drainage,
    Ending,
)
from mooring.agent.drains.events_and_orders import (
    DrainsAsked,
    EndQuery,
    NoteDrains,
    QueriesSeen,
    RemoveNotifications,
    RequestDrains,
)
from mooring.agent.drains.lost import blocked_by_lost, with_blocked_reported, with_lost
from mooring.drain import DrainNotification, RunningQuery, drain_order, places
from mooring.model import natural_order
from mooring.model.events import DrainOwed, DrainProgressed, Event, TerminationAsked
from mooring.model.orders import LogLine, Order

SETTLING_MS: Final = 5_000
"""How long a drain that was asked for before the start waits after a new query, in milliseconds."""


def is_about_drains(event: Event) -> bool:
    """Whether the event is for `advanced` alone."""
    return isinstance(event, (DrainsAsked, QueriesSeen, DrainOwed, DrainProgressed, TerminationAsked))


def advanced(drainage: Drainage, event: Event) -> tuple[Drainage, list[Order]]:
    """The drainage after one event, and the orders in which it results."""
    match event:
        case DrainsAsked():
            return _requested(_with_asked(drainage, event))
        case TerminationAsked():
            return _requested(replace(drainage, asked=drainage.asked | {ON_SIGTERM}))
        case DrainOwed():
            return _with_owed(drainage, event), []
        case DrainProgressed():
            return _with_report(drainage, event), []
        case QueriesSeen() if drainage.is_under_way:
            return _queries_ended(drainage, event.queries, event.at_ms)
        case _:
            return drainage, []


def _with_asked(drainage: Drainage, event: DrainsAsked) -> Drainage:
    if event.before_start:
        drainage = replace(drainage, newest_query_ms=event.at_ms, runs_changed_ms=event.at_ms)
    if set(event.notifications) - drainage.asked:  # a new drain: the status shows no report of an earlier one
        earlier = drainage.reported_by_earlier_drain
        progress = {query: report for query, report in drainage.progress.items() if query not in earlier}
        drainage = replace(drainage, progress=progress, reported_by_earlier_drain=frozenset())
    return replace(drainage, asked=drainage.asked | set(event.notifications))


def _with_owed(drainage: Drainage, event: DrainOwed) -> Drainage:
    return replace(
        drainage,
        asked=drainage.asked | {DrainNotification(NO_UUID, run_id="", query=event.query)},
        after={**drainage.after, event.query: event.after},
        held=drainage.held | ({event.query} if event.held else frozenset()),
        newest_query_ms=event.at_ms if event.held else drainage.newest_query_ms,
    )


def _with_report(drainage: Drainage, report: DrainProgressed) -> Drainage:
    drainage = drainage.with_progress([report])
    if report.query in drainage.known or report.phase not in (*OVER, FAILED):
        return drainage
    ended = RunningQuery(report.query, report.run, report.name, writes=places(report.writes))
    return replace(drainage, known={**drainage.known, report.query: ended})  # it ended before this agent saw it


def _requested(drainage: Drainage) -> tuple[Drainage, list[Order]]:
    drains = {notification.query for notification in drainage.asked if notification.stop is None}
    return drainage, [RequestDrains(tuple(sorted(drains, key=lambda query: query or "")))]


def _queries_ended(drainage: Drainage, running: Sequence[RunningQuery], now_ms: int) -> tuple[Drainage, list[Order]]:
    """Order queries to end that no running query feeds any more. The drain is over when no selected query runs.

    A query that failed or was stopped before it was drained is lost. Its output is incomplete, so the queries that it
    feeds get no order. While a query is missing, nothing is decided.
    """
    drainage = drainage.with_seen(running, now_ms)
    endings = _endings(drainage, running, now_ms)
    selected = {id: ending.query.run for id, ending in endings.items()}
    drainage = replace(drainage, selected={**drainage.selected, **selected})
    lost_before = drainage.lost
    drainage = with_lost(drainage, running, now_ms)
    if drainage.missing:
        return drainage, []
    blocked = blocked_by_lost(drainage, endings)
    drainage, reported = with_blocked_reported(drainage, blocked, drainage.lost - lost_before, now_ms)
    if any(id not in blocked or id in drainage.ordered for id in endings):
        drainage, ordered = _due_queries_ordered(drainage, endings, blocked, now_ms)
        return drainage, [*reported, *ordered]
    was_asked_before_start = drainage.newest_query_ms is not None
    if not reported and was_asked_before_start and now_ms - drainage.runs_changed_ms < SETTLING_MS:
        return drainage, [_removal(drainage)] if drainage.ordered else []  # the application may end now
    return _finished(drainage, [*reported, *_unknown_names(drainage)])


def _endings(drainage: Drainage, running: Sequence[RunningQuery], now_ms: int) -> dict[str, Ending]:
    """The running queries that are to end, by id, without those that have refused it."""
    found = {query.id: (query, drainage.how_to_end(query, now_ms)) for query in running}
    endings = {id: Ending(query, how) for id, (query, how) in found.items() if how}
    return {id: ending for id, ending in endings.items() if not drainage.has_refused(ending)}


def _due_queries_ordered(
    drainage: Drainage, endings: Mapping[str, Ending], blocked: frozenset[str], now_ms: int
) -> tuple[Drainage, list[Order]]:
    """Order the queries to end that are due and have no such order yet, and record the drains that are to come."""
    is_settling = drainage.newest_query_ms is not None and now_ms - drainage.newest_query_ms < SETTLING_MS
    groups = [] if is_settling else _groups_in_order(drainage, endings)
    free = _free_queries(drainage, endings, groups) - blocked
    due = {id: (ending.query.run, ending.how) for id, ending in endings.items() if id in free}
    due = {id: run_and_how for id, run_and_how in due.items() if drainage.ordered.get(id) != run_and_how}
    to_record = _drains_to_record(drainage, groups, endings)
    log_lines = [LogLine(f"{_action(how)}: {drainage.label_of(id)}", is_warning=False) for id, (_, how) in due.items()]
    drainage = replace(
        drainage,
        ordered={**drainage.ordered, **due},
        ordered_since_ms={**dict.fromkeys(due, now_ms), **drainage.ordered_since_ms},
        recorded_runs=drainage.recorded_runs | {endings[id].query.run for id in to_record},
    )
    return drainage, [
        *log_lines,
        *([NoteDrains(to_record)] if to_record else []),
        *(EndQuery(id, how, not drainage.is_fed(endings[id].query)) for id, (_, how) in due.items()),
    ]


def _groups_in_order(drainage: Drainage, endings: Mapping[str, Ending]) -> list[list[str]]:
    """The queries that come after their feeders, in groups; the queries of a group end side by side."""
    queries = {id: ending.query for id, ending in endings.items() if ending.comes_after_its_feeders}
    ids = {query.label: id for id, query in queries.items()}
    users_order = [[ids[name] for name in group if name in ids] for group in drainage.order]
    return drain_order(
        queries,
        reads={id: query.reads for id, query in queries.items()},
        writes={id: query.writes for id, query in queries.items()},
        users_order=[group for group in users_order if group],
    )


def _free_queries(drainage: Drainage, endings: Mapping[str, Ending], groups: Sequence[Sequence[str]]) -> set[str]:
    """The queries that wait for no other query: the first group, and the queries that do not wait for their feeders."""
    at_once = {id for id, ending in endings.items() if not ending.comes_after_its_feeders}
    first = {id for id in groups[0] if endings[id].query.has_sources} if groups else set()
    return at_once | {id for id in first if all(drainage.is_drained(other) for other in drainage.after.get(id, ()))}


def _drains_to_record(
    drainage: Drainage, groups: Sequence[Sequence[str]], endings: Mapping[str, Ending]
) -> dict[str, frozenset[str]]:
    """The queries whose drain is not recorded yet, each with the queries that are drained before it."""
    drains = [frozenset(id for id in group if endings[id].how == DRAIN) for group in groups]
    before = [frozenset[str]().union(*drains[:place]) for place in range(len(drains))]
    return {
        id: earlier | drainage.after.get(id, frozenset())
        for group, earlier in zip(drains, before, strict=True)
        for id in sorted(group)
        if endings[id].query.run not in drainage.recorded_runs
    }


def _action(how: str) -> str:
    return "drain" if how == DRAIN else f"stop ({how.lower().replace('_', '-')})"


def _finished(drainage: Drainage, log_lines: list[Order]) -> tuple[Drainage, list[Order]]:
    """The drainage after all drains are over; a drain at every start stays asked for."""
    always = drainage.asked & {ON_START}
    if always == drainage.asked and not drainage.ordered and not log_lines:
        return drainage, []
    rest = Drainage(
        drainage.order,
        drainage.timeout_ms,
        asked=always,
        known=drainage.known,
        running_runs=drainage.running_runs,
        newest_query_ms=drainage.newest_query_ms if always else None,
        progress=drainage.progress,
        reported_by_earlier_drain=frozenset(drainage.progress),
    )
    return rest, [_removal(drainage), *_requested(rest)[1], *log_lines]


def _removal(drainage: Drainage) -> RemoveNotifications:
    return RemoveNotifications(frozenset(notification.uuid for notification in drainage.asked))


def _unknown_names(drainage: Drainage) -> list[Order]:
    """A warning for each notification that names a query that was never seen."""
    labels = {query.label for query in drainage.known.values()}
    known = drainage.known.keys() | labels
    asked = [notification.query for notification in drainage.asked if notification.uuid != NO_UUID]
    unknown = sorted(query for query in asked if query is not None and query not in known)
    expected = ", ".join(sorted(labels, key=natural_order)) or "none"
    return [LogLine(f"drain: there is no query {name}; expected one of: {expected}") for name in unknown]
