"""Queries that end before they are drained, and the queries that wait for their output. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mooring.agent.drains.drainage import FAILED, NOT_TOLD, ON_START, Drainage, Ending
from mooring.agent.drains.events_and_orders import EndQuery
from mooring.drain import RunningQuery, StopMode
from mooring.model.events import DrainProgressed
from mooring.model.orders import LogLine, Order


def with_lost(drainage: Drainage, running: Sequence[RunningQuery], now_ms: int) -> Drainage:
    """The drainage with the queries that have ended before they were drained.

    A report may come one look later than the end of its query. A query without a report is missing at the first look,
    and lost at the second.
    """
    runs, ids = {query.run for query in running}, {query.id for query in running}
    gone = {id for id, run in drainage.selected.items() if run not in runs and not drainage.is_over(id, run)} - ids
    failed = {id for id, report in drainage.progress.items() if report.phase == FAILED} - ids
    failed -= drainage.reported_by_earlier_drain
    unreported = (gone - failed) & drainage.missing
    reports = [
        DrainProgressed(now_ms, id, drainage.selected[id], FAILED, reason="nothing is known of why")
        for id in unreported
    ]
    return replace(
        drainage.with_progress(reports),
        missing=frozenset(gone - failed - unreported),
        lost=frozenset(failed | unreported),
    )


def blocked_by_lost(drainage: Drainage, endings: Mapping[str, Ending]) -> frozenset[str]:
    """The queries that lost queries feed, directly or through others; only queries that come after their feeders."""
    waiting = [ending.query for ending in endings.values() if ending.comes_after_its_feeders]
    blocked: set[str] = set()
    while True:
        feeders = [drainage.known[id] for id in drainage.lost | blocked if id in drainage.known]
        more = {
            query.id
            for query in waiting
            if drainage.after.get(query.id, frozenset()) & drainage.lost
            or any(drainage.feeds(other, query) for other in feeders)
        }
        if more <= blocked:
            return frozenset(blocked)
        blocked |= more


def with_blocked_reported(
    drainage: Drainage, blocked: frozenset[str], newly_lost: frozenset[str], now_ms: int
) -> tuple[Drainage, list[Order]]:
    """The drainage with a report for each blocked query, and a warning about lost and blocked queries.

    A blocked query that was started only for its drain is ordered to end after its batch.
    """
    unreported = {id for id in blocked - drainage.ordered.keys() if not drainage.is_reported_as_not_told(id)}
    if not unreported and not newly_lost:
        return drainage, []
    reason = f"it is fed by {drainage.labels_of(drainage.lost)}, which ended before it was {_verbs(drainage)[1]}"
    warning = _warning(drainage, unreported, newly_lost)
    only_for_drain = {id for id in unreported if ON_START in drainage.asked or id in drainage.held}
    how = StopMode.AFTER_BATCH.value
    ordered = {**drainage.ordered, **{id: (drainage.known[id].run, how) for id in only_for_drain}}
    reports = [DrainProgressed(now_ms, id, drainage.known[id].run, NOT_TOLD, reason=reason) for id in unreported]
    return replace(drainage.with_progress(reports), ordered=ordered), [
        warning,
        *(EndQuery(id, how, zero_input=True) for id in sorted(only_for_drain)),
    ]


def _warning(drainage: Drainage, not_told: set[str], newly_lost: frozenset[str]) -> LogLine:
    verb, past = _verbs(drainage)
    labels = drainage.labels_of
    runs = {id for id, query in drainage.known.items() if query.run in drainage.running_runs}
    parts = [f"{labels([id])} ended before it was {past}: {drainage.progress[id].reason}" for id in sorted(newly_lost)]
    parts.append(f"told to {verb} and not over: {labels(drainage.ordered.keys() & runs)}")
    parts.append(f"not told to {verb}, as they are fed by {labels(drainage.lost)}: {labels(not_told)}")
    return LogLine(f"{verb}: {'; '.join(parts)}. It goes on when they are started again; or ask again")


def _verbs(drainage: Drainage) -> tuple[str, str]:
    is_drain = any(notification.stop is None for notification in drainage.asked)
    return ("drain", "drained") if is_drain else ("stop", "stopped")
