"""Keeps the catalogue of committed state: a Delta table in each query's checkpoint, or one table for all queries.

One thread appends the rows of new batches, so neither the agent's loop nor a batch waits for a table. Its passes begin
at each interval, when a query ends, and once more when the application ends. After a failure the next pass begins with
the batch after the last one in the table. Batches that were committed while no agent ran are in the logs of the
checkpoint, so they get rows too.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from mooring.agent.checkpoints.checkpoint_logs import CheckpointLogs, NewBatches
from mooring.agent.checkpoints.table_damage import DamageCounts
from mooring.agent.checkpoints.table_upkeep import TableUpkeep, TidiedTables
from mooring.catalogue.rows import (
    BATCHES_IN_PARTITION,
    SCHEMA,
    TABLE,
    TABLE_PARTITION_COLUMN,
    CatalogueRow,
    LocationsOfCopies,
    ReportBook,
    reports_in,
    store_path,
)
from mooring.checkpoint.lease import DIRECTORY
from mooring.errors import AgentError, MooringError
from mooring.metadata.tree import FileTree
from mooring.model import events
from mooring.settings import Settings

_MOST_BATCHES: Final = 200
"""How many batches one append has at most. Further batches wait for the next pass."""

_MOST_REPORTS: Final = 20_000
"""How many reports of executors are taken from the JVM in one call."""

_MOST_CALLS: Final = 3
"""How many such calls one pass makes. Together they take more reports than the JVM keeps."""

_MOST_FAILURES_AFTER_END: Final = 10
"""After so many failures a query that has ended is given up. Its next start adds the rows that are missing."""

_UNCLAIMED_SECONDS: Final = 60.0
"""How long reports are kept for a checkpoint of which no query is known. The agent hears of a query within a second."""

_EXTENT: Final = ("max(batch) AS batch", "max(line) AS line", f"min({TABLE_PARTITION_COLUMN}) AS first")
_COLUMNS_OF_VERSION: Final = ("kind", "batch", "operator", "partition", "store", "id")

_END_WAIT_SECONDS: Final = 1.0
"""How long `end` waits for the thread."""


class Tables(TidiedTables, Protocol):
    """The tables of the catalogue; `mooring.spark.delta.DeltaTables` is the real class.

    A table is named by its path, or by its name in Spark's catalog. Methods raise AgentError.
    """

    def append(
        self, table: str, schema: str, partition_column: str, rows: list[CatalogueRow], writer: str, number: int
    ) -> None:
        """Add rows. A second call with the same writer and number adds nothing."""

    def select(self, table: str, columns: Sequence[str], where: str) -> list[CatalogueRow] | None:
        """Some columns of the rows for which `where` holds; None where there is no table yet."""

    def exists(self, table: str) -> bool:
        """Whether there is a table."""

    def rename(self, path: str, to: str) -> None:
        """Rename the directory of a table."""


@dataclass(frozen=True, slots=True)
class TableExtent:
    """How far the rows of a query reach in its table.

    `batch` is the last batch in the table. `times_gone_back` is how often the query had gone back to an earlier batch
    by then: the table's column `line`.
    """

    batch: int = -1
    times_gone_back: int = 0
    has_table: bool = False


@dataclass
class _Query:
    """A query, until it has ended and its last rows are in the table.

    `extent` is None where it has to be read from the table: after a failure, and when a new run begins. `copies` maps
    a partition of the state to the executors with a copy.
    """

    id: str
    run: str
    checkpoint: str
    table: str
    upkeep: TableUpkeep
    has_new_run: bool = False
    has_ended: bool = False
    failures_after_end: int = 0
    extent: TableExtent | None = None
    copies: dict[int, list[str]] = field(default_factory=dict)


class CatalogueKeeper:
    """Keeps the catalogues of one application. The thread starts with the first query, and ends with `end`."""

    def __init__(
        self,
        tables: Tables,
        take_reports: Callable[[int], str],
        open_tree: Callable[[str], FileTree],
        warn: Callable[[str], None],
        reports_written: Callable[[], None] = lambda: None,
    ) -> None:
        """`take_reports` returns at most so many reports of executors. `warn` is called for the first failure.

        `reports_written` is called when all rows that the reports taken so far belong to are in the tables, apart from
        rows of batches that are not committed yet.
        """
        self._tables, self._take_reports_of_jvm, self._open_tree, self._warn = tables, take_reports, open_tree, warn
        self._reports_written = reports_written
        self._application = ""
        self._every_seconds = 0.0
        self._retained = 0
        self._shared_table: str | None = None
        self._queries: dict[str, _Query] = {}  # by id
        self._report_books: dict[str, ReportBook] = {}  # path of the checkpoint, without a scheme -> its reports
        self._unclaimed_since: dict[str, float] = {}  # key of `_report_books` without a query -> since when
        self._damage = DamageCounts()
        self._locations: dict[str, str] = {}  # executor -> its location
        self._lock = threading.Lock()
        self._is_due = threading.Event()
        self._is_ending = threading.Event()
        self._has_warned = False
        self._thread: threading.Thread | None = None

    def handle(self, event: events.Event) -> None:
        """Handle an event about the application, a query, an executor or copies. Returns at once."""
        match event:
            case events.ApplicationStarted() if event.is_catalogued:
                self._application = event.application
                settings = Settings.from_conf(event.settings)
                self._every_seconds = settings.checkpoint_catalog_interval_ms / 1000
                self._retained = settings.checkpoint_catalog_retain_batches
                self._shared_table = settings.checkpoint_catalog_table
            case events.QueryPlanned() if self._application:
                with self._lock:
                    self._note_run(event)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="mooring-catalog", daemon=True)
                    self._thread.start()
            case events.QueryEnded():
                with self._lock:
                    query = self._queries.get(event.query)
                    if query is not None and query.run == event.run:
                        query.has_ended = True
                        self._is_due.set()  # the application may end soon, and the reports with it
            case events.ExecutorRegistered() if self._application:
                with self._lock:
                    self._locations[event.executor] = event.location
            case events.ExecutorLost():
                with self._lock:
                    self._locations.pop(event.executor, None)
            case events.CopiesSeen():
                held: dict[int, list[str]] = {}
                for copy in event.copies:
                    if copy.version >= 0:
                        held.setdefault(copy.partition, []).append(copy.executor)
                with self._lock:
                    if event.query in self._queries:
                        self._queries[event.query].copies = held

    def _note_run(self, event: events.QueryPlanned) -> None:
        known = self._queries.get(event.query)
        if known is None or known.checkpoint != event.checkpoint:
            table = self._shared_table or f"{event.checkpoint}/{DIRECTORY}/{TABLE}"
            is_shared = self._shared_table is not None
            upkeep = TableUpkeep(self._tables, table, event.query, self._retained, is_shared)
            self._queries[event.query] = _Query(event.query, event.run, event.checkpoint, table, upkeep)
        else:
            known.has_new_run = known.has_new_run or known.run != event.run
            known.run, known.has_ended, known.failures_after_end = event.run, False, 0

    def end(self) -> None:
        """Make a last pass, and wait a moment for it. After that moment it ends by itself, or with the application."""
        self._is_ending.set()
        self._is_due.set()
        if self._thread is not None:
            self._thread.join(_END_WAIT_SECONDS)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._is_due.wait(self._every_seconds)
            self._is_due.clear()
            is_last = self._is_ending.is_set()
            faults = self.write()
            if faults and not self._has_warned and not self._is_ending.is_set():  # Spark may have ended before it
                self._has_warned = True
                self._warn(
                    f"the catalogue of committed state could not be brought up to date ({_said(faults[0])});"
                    " it is tried again"
                )
            with self._lock:
                if not faults and any(query.has_ended for query in self._queries.values()):
                    self._is_due.set()  # an ended query may have more batches than one append has

    def write(self) -> list[Exception]:
        """One pass: append the new rows of all queries. Returns at most one fault for each query."""
        with self._lock:
            queries = list(self._queries.values())
            ended = [query for query in queries if query.has_ended]
            for query in queries:
                if query.has_new_run:
                    query.extent, query.has_new_run = None, False
        faults: dict[str, Exception] = {}
        unfinished: set[str] = set()  # those that had new batches
        is_behind = False
        for query in queries:
            try:
                new = self._append_new_rows(query)
                is_behind = is_behind or not new.are_all
                if new.found or not new.are_all:
                    unfinished.add(query.id)
            except Exception as fault:  # of any class, so that one query holds up no other, and the thread goes on
                faults[query.id] = fault
        self._forget([query for query in ended if query.id not in unfinished], faults)
        if unfinished and not faults and not is_behind:
            with suppress(AgentError):  # the main thread gets the same error, and ends the agent
                self._reports_written()
        return list(faults.values())

    def _forget(self, ended: list[_Query], faults: dict[str, Exception]) -> None:
        """Forget the ended queries that have all their rows, and those that failed too often; these have no fault then.

        A query of which there is a newer run is kept.
        """
        given_up: dict[str, Exception] = {}
        with self._lock:
            for query in ended:
                if not query.has_ended or query.has_new_run or self._queries.get(query.id) is not query:
                    continue
                if query.id in faults:
                    query.failures_after_end += 1
                    if query.failures_after_end < _MOST_FAILURES_AFTER_END:
                        continue
                    given_up[query.id] = faults.pop(query.id)
                del self._queries[query.id]
                self._damage.forget(query.table)
            self._drop_unclaimed_books()
        for id, fault in given_up.items():
            if not self._is_ending.is_set():  # as in `_run`
                self._warn(
                    f"the catalogue lacks rows of the query {id}, which has ended ({_said(fault)});"
                    " its next start adds them"
                )

    def _take_reports(self) -> None:
        for _ in range(_MOST_CALLS):
            taken = reports_in(self._take_reports_of_jvm(_MOST_REPORTS))
            for report in taken:
                self._report_books.setdefault(store_path(report)[0], ReportBook()).add(report)
            if len(taken) < _MOST_REPORTS:
                return

    def _drop_unclaimed_books(self) -> None:
        """Remove the reports on checkpoints of which no query has been known for some time."""
        now, claimed = time.monotonic(), {_path_of(query.checkpoint) for query in self._queries.values()}
        since = {path: self._unclaimed_since.get(path, now) for path in self._report_books.keys() - claimed}
        self._unclaimed_since = {path: at for path, at in since.items() if now < at + _UNCLAIMED_SECONDS}
        for path in since.keys() - self._unclaimed_since.keys():
            del self._report_books[path]

    def _append_new_rows(self, query: _Query) -> NewBatches:
        """Append the rows of the query's new batches, and tidy its table. Returns these batches.

        Where the query or the application has ended, snapshots without a new batch get their rows too.
        """
        logs = CheckpointLogs(query.checkpoint, self._open_tree)
        extent, query.extent = query.extent, None  # after a failure below, the next pass reads it from the table
        if extent is None:
            extent = self._extent_in_table(query, logs)
        elif extent.has_table and not self._tables.exists(query.table):  # somebody has removed it
            extent = TableExtent()
        new = logs.batches_after(extent.batch, _MOST_BATCHES)
        batches = new.found
        is_last = query.has_ended or self._is_ending.is_set()
        if batches or is_last:
            self._take_reports()  # after the log was read: executors report a version before its batch is committed
            common_columns = {"query": query.id, "deployment": self._application, "line": extent.times_gone_back}
            book = self._book_of(query)
            rows = book.rows(batches, common_columns, self._locations_of_copies(query))
            newest = batches[-1][0].batch if batches else extent.batch
            if rows:
                # Snapshots that were reported after the last batch have a number of their own: that of a writer rises.
                writer = f"{query.id}:{query.run}" if batches else f"{query.id}:{query.run}:snapshots"
                self._tables.append(query.table, SCHEMA, TABLE_PARTITION_COLUMN, rows, writer, newest)
            book.drop_written(rows, newest)
            extent = TableExtent(newest, extent.times_gone_back, extent.has_table or bool(rows))
        query.extent = extent
        if batches and extent.has_table:
            query.upkeep.tidy(extent.batch)
        return new

    def _book_of(self, query: _Query) -> ReportBook:
        return self._report_books.setdefault(_path_of(query.checkpoint), ReportBook())

    def _extent_in_table(self, query: _Query, logs: CheckpointLogs) -> TableExtent:
        """How far the rows reach, after those of undone batches were removed.

        A damaged table in the checkpoint is renamed, and counts as no table. A shared table is never renamed.
        """
        table = query.table
        try:
            extent = self._remove_undone_rows(query, logs)
        except AgentError as fault:
            is_damaged = self._damage.is_damaged(table, str(fault))
            if not is_damaged or self._shared_table is not None or not self._tables.exists(table):
                raise
            aside = f"{table}.damaged-{time.time_ns() // 1_000_000}"
            self._tables.rename(table, aside)
            self._warn(f"the catalogue {table} is damaged and lies in {aside} now; a new one is begun ({fault})")
            extent = TableExtent()
        self._damage.forget(table)
        return extent

    def _remove_undone_rows(self, query: _Query, logs: CheckpointLogs) -> TableExtent:
        """Remove the rows of undone batches from the table, and return how far the other rows reach.

        A batch is valid if the commit log has all ids that its rows have for partition 0. The rows after the newest
        valid batch are removed, also valid ones where rows of two attempts are mixed: `batches_after` gives these
        batches again. Where the log is empty nothing is removed.
        """
        of_query = f"query = '{query.id}'"
        read = self._tables.select(query.table, _EXTENT, of_query)
        if not read or "batch" not in read[0]:
            return TableExtent()
        newest, times_gone_back, query.upkeep.first_hundred = (
            int(read[0][name]) for name in ("batch", "line", "first")
        )
        logged = logs.committed_after(-1)
        oldest = min(logged, default=newest + 1)
        known = self._tables.select(query.table, _COLUMNS_OF_VERSION, f"{of_query} AND batch >= {oldest}") or []
        listed: dict[int, set[str]] = {}
        for row in known:
            if row["kind"] == "commit" and int(row["partition"]) == 0:
                listed.setdefault(int(row["batch"]), set()).add(str(row["id"]))
        in_both = sorted(set(listed) & set(logged), reverse=True)
        ids = ((batch, logs.ids_of_first_partition(logged[batch])) for batch in in_both)
        # A batch without ids in the log can not be compared, and counts as valid.
        valid = (batch for batch, in_log in ids if not in_log or listed[batch] <= in_log)
        # Where no batch in the log is valid, the rows that are older than the log's oldest entry still are.
        last = next(valid, min(newest, oldest - 1))
        self._book_of(query).note_rows_of_table(known, last)
        if last == newest:
            return TableExtent(newest, times_gone_back, has_table=True)
        since = f"{TABLE_PARTITION_COLUMN} >= {(last + 1) // BATCHES_IN_PARTITION} AND batch > {last}"
        # A row with a greater `line` is of another agent, which has removed the undone rows since `extent` was read.
        self._tables.remove(query.table, f"{of_query} AND line <= {times_gone_back} AND {since}")
        return TableExtent(last, times_gone_back + 1, has_table=True)

    def _locations_of_copies(self, query: _Query) -> LocationsOfCopies:
        with self._lock:
            return {
                partition: sorted({self._locations[id] for id in executors if id in self._locations})
                for partition, executors in query.copies.items()
            }


def _said(fault: Exception) -> str:
    return str(fault) if isinstance(fault, MooringError) else repr(fault)


def _path_of(checkpoint: str) -> str:
    """The path of a checkpoint, as in the reports of executors. Hadoop's texts of paths have no percent-encoding."""
    return re.sub(r"^[^/:]+:(//[^/]*)?", "", checkpoint)
