"""What the agent knows of drains and stops, as a value: who asked for them, and how far each query is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from mooring.drain import DrainNotification, RunningQuery, StopMode
from mooring.model import natural_order
from mooring.model.events import DrainProgressed

PHASES: Final = ("frozen", "caught-up", "flushed", "drained", "stopped")
OVER: Final = ("drained", "stopped")
REFUSED: Final = "refused"
FAILED: Final = "failed"
"""The run has ended before its drain was over: it failed, or its program stopped it."""
NOT_TOLD: Final = "not-told"
"""The query runs and gets no order to end, as a query that feeds it has failed."""

DRAIN: Final = "DRAIN"
_FROM_SLOWEST_TO_FASTEST: Final = (DRAIN, *(mode.value for mode in StopMode))
_IN_ORDER: Final = (DRAIN, StopMode.AFTER_AVAILABLE.value)

NO_UUID: Final = UUID(int=0)
"""The uuid of a drain for which the metadata store has no notification."""
ON_SIGTERM: Final = DrainNotification(NO_UUID, run_id="")
ON_START: Final = DrainNotification(NO_UUID, run_id="the start")


@dataclass(frozen=True, slots=True)
class Ending:
    """A running query that is to end. `how` is DRAIN or the value of a StopMode."""

    query: RunningQuery
    how: str

    @property
    def comes_after_its_feeders(self) -> bool:
        """Whether the query ends only when the queries that feed it have ended."""
        return self.how in _IN_ORDER


@dataclass(frozen=True, slots=True)
class Drainage:
    """The drains and stops that are not over yet, and the last progress of each query. Query ids are the keys.

    `order` is the user's: groups of names, those that feed others first. After `timeout_ms` a drain becomes a stop
    after the batch. `asked` are the notifications that are not done.

    `after` maps a query to the queries that are drained before it, as an earlier application recorded them.
    `recorded_runs` are the runs whose drain this application has recorded.

    `known` are all queries that were seen. `running_runs` are the runs of the last look. `runs_changed_ms` is when a
    run last came or went. `held` are queries that were started only for their drain. `newest_query_ms` is set where a
    drain was asked for before the start, to the time when the last new query was seen. Nothing ends until some time
    after it, as queries that feed the others may start later.

    `ordered` maps a query to its run and how the run was ordered to end; `ordered_since_ms` is the time of the first
    order. `selected` maps each query that is or was to end to its run. `missing` are selected queries that did not run
    at the last look, and that have not reported yet that they are drained. `lost` are queries that ended before they
    were drained. `progress` has the last report of each query; the reports of `reported_by_earlier_drain` are of
    drains that are over.
    """

    order: tuple[tuple[str, ...], ...] = ()
    timeout_ms: int | None = None
    asked: frozenset[DrainNotification] = frozenset()
    after: Mapping[str, frozenset[str]] = field(default_factory=dict)
    recorded_runs: frozenset[str] = frozenset()
    known: Mapping[str, RunningQuery] = field(default_factory=dict)
    running_runs: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    newest_query_ms: int | None = None
    runs_changed_ms: int = 0
    ordered: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    ordered_since_ms: Mapping[str, int] = field(default_factory=dict)
    selected: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    progress: Mapping[str, DrainProgressed] = field(default_factory=dict)
    reported_by_earlier_drain: frozenset[str] = frozenset()

    def with_settings(self, order: Sequence[Sequence[str]], timeout_ms: int | None, on_start: bool) -> Drainage:
        """With the settings; earlier events stay in force. `on_start`: every query that starts is drained."""
        asked = self.asked | ({ON_START} if on_start else frozenset())
        newest_ms = 0 if on_start and self.newest_query_ms is None else self.newest_query_ms
        return replace(
            self, order=tuple(map(tuple, order)), timeout_ms=timeout_ms, asked=asked, newest_query_ms=newest_ms
        )

    def with_progress(self, reports: Iterable[DrainProgressed]) -> Drainage:
        """With new reports, one for each query at most. A report of a failure keeps the numbers of its run so far."""
        new = {report.query: _with_numbers_of(self.progress.get(report.query), report) for report in reports}
        earlier = self.reported_by_earlier_drain - new.keys()
        return replace(self, progress={**self.progress, **new}, reported_by_earlier_drain=earlier)

    def with_seen(self, running: Sequence[RunningQuery], now_ms: int) -> Drainage:
        """With the queries that run now. A query counts as new while it has no sources, and when its run is new."""
        runs = frozenset(query.run for query in running)
        known_runs = {query.run for query in self.known.values()}
        has_new = any(not query.has_sources or query.run not in known_runs for query in running)
        return replace(
            self,
            known={**self.known, **{query.id: query for query in running}},
            running_runs=runs,
            newest_query_ms=now_ms if has_new and self.newest_query_ms is not None else self.newest_query_ms,
            runs_changed_ms=now_ms if has_new or runs != self.running_runs else self.runs_changed_ms,
        )

    @property
    def is_under_way(self) -> bool:
        """Whether the agent must look which queries run."""
        return bool(self.asked)

    def label_of(self, query: str) -> str:
        """The name of a query where it is known, else its id."""
        return self.known[query].label if query in self.known else query

    def labels_of(self, queries: Iterable[str]) -> str:
        """The labels of queries in natural order, as one text; "none" where there are no queries."""
        return ", ".join(sorted(map(self.label_of, queries), key=natural_order)) or "none"

    def how_to_end(self, query: RunningQuery, now_ms: int) -> str | None:
        """DRAIN or the value of a StopMode, the fastest of those that are asked for; None when nothing is asked."""
        asked = [
            DRAIN if notification.stop is None else notification.stop.value
            for notification in self.asked
            if notification.query in (None, query.id, query.name)
        ]
        since_ms, timeout_ms = self.ordered_since_ms.get(query.id), self.timeout_ms
        if DRAIN in asked and since_ms is not None and timeout_ms is not None and now_ms - since_ms > timeout_ms:
            asked.append(StopMode.AFTER_BATCH.value)
        return max(asked, key=_FROM_SLOWEST_TO_FASTEST.index, default=None)

    def feeds(self, other: RunningQuery, query: RunningQuery) -> bool:
        """Whether `other` writes what `query` reads, or comes before it in the user's order."""
        place = next((place for place, group in enumerate(self.order) if query.label in group), 0)
        before = {name for group in self.order[:place] for name in group}
        return other.id != query.id and bool(query.reads & other.writes or other.label in before)

    def is_fed(self, query: RunningQuery) -> bool:
        """Whether another query feeds this one, now or by the record of an earlier application."""
        return bool(self.after.get(query.id)) or any(self.feeds(other, query) for other in self.known.values())

    def is_over(self, query: str, run: str) -> bool:
        """Whether this run is drained or stopped, or has refused to."""
        report = self.progress.get(query)
        return report is not None and report.run == run and report.phase in (*OVER, REFUSED)

    def is_drained(self, query: str) -> bool:
        """Whether the newest known run of the query is drained."""
        report, known = self.progress.get(query), self.known.get(query)
        return report is not None and report.phase == "drained" and (known is None or known.run == report.run)

    def has_refused(self, ending: Ending) -> bool:
        """Whether this run got the same order before and refused it."""
        query, report = ending.query, self.progress.get(ending.query.id)
        has_refused = report is not None and report.phase == REFUSED and report.run == query.run
        return has_refused and self.ordered.get(query.id) == (query.run, ending.how)

    def is_reported_as_not_told(self, query: str) -> bool:
        """Whether the report of this drain says that the query gets no order to end."""
        report = self.progress.get(query)
        is_not_told = report is not None and (report.phase, report.run) == (NOT_TOLD, self.known[query].run)
        return is_not_told and query not in self.reported_by_earlier_drain

    def state_of(self, query: str) -> float:
        """The gauge `drain-state`: 1 frozen, 2 caught up, 3 flushed, 4 drained, 5 stopped, else 0.

        -1 is refused, -2 failed, -3 not told.
        """
        report = self.progress.get(query)
        if report is None:
            return 0.0
        others = {REFUSED: -1.0, FAILED: -2.0, NOT_TOLD: -3.0}
        return others[report.phase] if report.phase in others else float(PHASES.index(report.phase) + 1)

    def as_json(self) -> list[dict[str, Any]]:
        """The reports of all queries for the status page, by label in natural order."""
        rows = [
            {
                "query": self.label_of(query),
                "id": query,
                "run-id": report.run,
                "phase": report.phase,
                "batch": report.batch,
                "batches": report.batches,
                "rows": report.rows,
                "flush-batches": report.flushes,
                "state-rows-flushed": report.flushed,
                "state-rows-left": report.left,
                **({"reason": report.reason} if report.reason else {}),
            }
            for query, report in self.progress.items()
        ]
        return sorted(rows, key=lambda row: natural_order(str(row["query"])))


def _with_numbers_of(before: DrainProgressed | None, report: DrainProgressed) -> DrainProgressed:
    if report.phase != FAILED or before is None or before.run != report.run:
        return report
    return replace(
        before, at_ms=report.at_ms, phase=FAILED, reason=report.reason, name=report.name, writes=report.writes
    )
