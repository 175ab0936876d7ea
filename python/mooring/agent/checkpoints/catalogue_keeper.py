"""Keeps the catalogue of committed state: a Delta table in each query's checkpoint.

One thread appends the rows of new batches at each interval, so neither the loop nor a batch waits for the table. After
a failure the next round begins with the batch after the last one in the table. Batches that were committed while no
agent ran are in the logs of the checkpoint, so they get rows too.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from mooring.checkpoint.catalogue_rows import (
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
from mooring.checkpoint.logs import COMMITS, OFFSETS, BegunBatch, Commit, parse_begun, parse_commit
from mooring.errors import AgentError, CheckpointError, MetadataStoreError, MooringError
from mooring.metadata.tree import FileEntry, FileTree
from mooring.model import events
from mooring.settings import Settings

_MOST_BATCHES: Final = 200
"""How many batches one append has at most. Further batches wait for the next interval."""

_MOST_REPORTS: Final = 20_000
"""How many reports of executors are taken from the JVM at a time."""

_MOST_BYTES: Final = 16 << 20
"""How large an entry of a log may be."""

_MOST_FAILURES: Final = 3
"""After so many failed readings in a row, one at each interval, a damaged table is set aside."""

_DAMAGE: Final = re.compile(r"(?i)json|malformed|corrupt|parquet|delta_(log|state|version|invalid|truncated)")
"""Matches Delta's error for a table whose own files are damaged."""

_NEWER: Final = re.compile(r"(?i)protocol|unsupported|feature")
"""Matches Delta's error for a table that a newer Delta has written. Such a table does not count as damaged."""

_MANY_BATCHES: Final = 1000
"""Full partitions of the table are compacted where more batches than this are kept."""

_PARTITIONS_AT_ONCE: Final = 5
"""How many partitions of the table are removed or compacted together. Each time takes Spark a second or more."""

_VACUUM_EVERY_SECONDS: Final = 12 * 3600.0
"""How long after a search for unused files the next one begins. Delta keeps such files for a day."""

_REST_SECONDS: Final = 600.0
"""How long after a failure the partitions of a query are not removed or compacted."""

_EXTENT: Final = ("max(batch) AS batch", "max(line) AS line", f"min({TABLE_PARTITION_COLUMN}) AS first")
_COLUMNS_OF_VERSION: Final = ("kind", "batch", "operator", "partition", "store", "id")

_END_WAIT_SECONDS: Final = 1.0
"""How long `end` waits for the thread."""


class Tables(Protocol):
    """The tables of the catalogue; `mooring.spark.delta.DeltaTables` is the real class.

    A table is named by its path, or by its name in Spark's catalog.
    """

    def append(
        self, table: str, schema: str, partition_column: str, rows: list[CatalogueRow], writer: str, number: int
    ) -> None:
        """Add rows. A second call with the same writer and number adds nothing."""

    def select(self, table: str, columns: Sequence[str], where: str) -> list[CatalogueRow] | None:
        """Some columns of the rows for which `where` holds; None where there is no table yet."""

    def remove(self, table: str, where: str) -> None:
        """Remove the rows for which `where` holds."""

    def compact(self, table: str, where: str) -> None:
        """Merge small files in the partitions for which `where` holds."""

    def vacuum(self, table: str) -> None:
        """Delete files that the table has not used for a day."""

    def exists(self, table: str) -> bool:
        """Whether there is a table."""

    def rename(self, path: str, to: str) -> None:
        """Rename the directory of a table."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the table of a query reaches.

    `batch` is the last batch in the table. `times_gone_back` is how often the query had gone back to an earlier batch
    by then: the table's column `line`.
    """

    batch: int = -1
    times_gone_back: int = 0
    has_table: bool = False


class CatalogueKeeper:
    """Keeps the catalogues of one application. The thread starts with the first query, and ends with `end`."""

    def __init__(
        self,
        tables: Tables,
        take_reports: Callable[[int], str],
        open_tree: Callable[[str], FileTree],
        warn: Callable[[str], None],
    ) -> None:
        """`take_reports` returns at most so many reports of executors. `warn` is called for the first failure."""
        self._tables, self._take_reports_of_jvm, self._open_tree, self._warn = tables, take_reports, open_tree, warn
        self._application = ""
        self._every_seconds = 0.0
        self._retained = 0
        self._shared_table: str | None = None
        self._checkpoints: dict[str, str] = {}  # query -> its checkpoint, while it runs and until its last rows are in
        self._runs: dict[str, str] = {}  # query -> its newest run
        self._ended: set[str] = set()
        self._with_new_run: set[str] = set()  # queries with a run that has begun since the last round
        self._report_books: dict[str, ReportBook] = {}  # path of the checkpoint, without a scheme -> its reports
        self._reached: dict[str, Reached] = {}  # running query -> how far its table reaches
        self._read_failures: dict[str, int] = {}  # table -> how often in a row it could not be read
        self._first_partition: dict[str, int] = {}  # query -> the first partition in its table
        self._compacted_up_to: dict[str, int] = {}  # query -> the first partition that is not compacted yet
        self._tidied_again_at: dict[str, float] = {}  # query -> before this time its table is not tidied again
        self._vacuumed_again_at: dict[str, float] = {}  # table -> before this time it is not vacuumed again
        self._copies: dict[str, dict[int, list[str]]] = {}  # query -> partition of the state -> executors with a copy
        self._locations: dict[str, str] = {}  # executor -> its location
        self._lock = threading.Lock()
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
                    self._checkpoints[event.query] = event.checkpoint
                    self._ended.discard(event.query)
                    if self._runs.get(event.query) != event.run:
                        self._with_new_run.add(event.query)
                    self._runs[event.query] = event.run
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="mooring-catalog", daemon=True)
                    self._thread.start()
            case events.QueryEnded():
                with self._lock:
                    if self._runs.get(event.query) == event.run:
                        self._ended.add(event.query)
            case events.ExecutorRegistered() if self._application:
                with self._lock:
                    self._locations[event.executor] = event.location
            case events.CopiesSeen() if self._application:
                held: dict[int, list[str]] = {}
                for copy in event.copies:
                    if copy.version >= 0:
                        held.setdefault(copy.partition, []).append(copy.executor)
                with self._lock:
                    self._copies[event.query] = held

    def end(self) -> None:
        """Begin no further round. A round that is under way ends by itself, or with the application."""
        self._is_ending.set()
        if self._thread is not None:
            self._thread.join(_END_WAIT_SECONDS)

    def _run(self) -> None:
        while not self._is_ending.wait(self._every_seconds):
            for fault in self.write():
                if not self._has_warned:
                    self._has_warned = True
                    self._warn(f"the catalogue of committed state can not be written now ({fault}); it is tried again")

    def write(self) -> list[MooringError]:
        """Append the new rows of all queries. Returns at most one fault for each query."""
        with self._lock:
            checkpoints, ended = dict(self._checkpoints), set(self._ended)
            for query in self._with_new_run:
                self._reached.pop(query, None)
            self._with_new_run.clear()
        faults: dict[str, MooringError] = {}
        for query, checkpoint in checkpoints.items():
            try:
                self._append_new_rows(query, checkpoint)
            except (AgentError, CheckpointError, MetadataStoreError) as fault:
                faults[query] = fault
        with self._lock:
            for query in (ended & self._ended) - faults.keys():  # the table has its last batches
                self._checkpoints.pop(query, None)
                self._runs.pop(query, None)
                self._ended.discard(query)
                self._reached.pop(query, None)
                self._copies.pop(query, None)
        return list(faults.values())

    def _take_reports(self) -> None:
        for report in reports_in(self._take_reports_of_jvm(_MOST_REPORTS)):
            self._report_books.setdefault(store_path(report)[0], ReportBook()).add(report)

    def _append_new_rows(self, query: str, checkpoint: str) -> None:
        """Append the rows of the query's new batches, and tidy its table."""
        table = self._shared_table or f"{checkpoint}/{DIRECTORY}/{TABLE}"
        if query not in self._reached:
            self._reached[query] = self._read_reached(query, table, checkpoint)
        elif self._reached[query].has_table and not self._tables.exists(table):  # somebody has removed it
            self._reached[query] = Reached()
        reached = self._reached.pop(query)  # after a failure below, the next round reads it from the table
        batches = self._batches_after(reached.batch, checkpoint)
        if batches:
            self._take_reports()  # after the log was read: executors report a version before its batch is committed
            book = self._report_books.setdefault(_path_of(checkpoint), ReportBook())
            common_columns = {"query": query, "deployment": self._application, "line": reached.times_gone_back}
            rows = book.rows(batches, common_columns, self._locations_of_copies(query))
            newest = batches[-1][0].batch
            if rows:
                self._tables.append(table, SCHEMA, TABLE_PARTITION_COLUMN, rows, f"{query}:{self._runs[query]}", newest)
            book.settle(rows)
            reached = Reached(newest, reached.times_gone_back, reached.has_table or bool(rows))
        self._reached[query] = reached
        if batches and reached.has_table:
            self._tidy(query, table, reached.batch)

    def _read_reached(self, query: str, table: str, checkpoint: str) -> Reached:
        """How far the table reaches. Rows of undone batches are removed from the table first.

        A batch was undone if the commit log has other ids for partition 0 than its rows have. The table reaches up to
        the newest batch that was not undone.
        """
        of_query = f"query = '{query}'"
        extent = self._read_extent(table, of_query)
        if not extent or "batch" not in extent[0]:
            return Reached()
        newest, times_gone_back, self._first_partition[query] = (
            int(extent[0][name]) for name in ("batch", "line", "first")
        )
        logged = self._entries_after(-1, checkpoint)
        oldest = min(logged, default=newest + 1)
        known = self._tables.select(table, _COLUMNS_OF_VERSION, f"{of_query} AND batch >= {oldest}") or []
        self._report_books.setdefault(_path_of(checkpoint), ReportBook()).know(known)
        listed: dict[int, set[str]] = {}
        for row in known:
            if row["kind"] == "commit" and int(row["partition"]) == 0:
                listed.setdefault(int(row["batch"]), set()).add(str(row["id"]))
        in_both = sorted(set(listed) & set(logged), reverse=True)
        ids = ((batch, self._ids(checkpoint, logged[batch])) for batch in in_both)
        # A batch without ids in the log can not be compared, and counts as valid.
        valid = (batch for batch, in_log in ids if not in_log or listed[batch] <= in_log)
        # Where no batch in the log is valid, the rows that are older than the log's oldest entry still are.
        last = next(valid, min(newest, oldest - 1))
        if last == newest:
            return Reached(newest, times_gone_back, has_table=True)
        since = f"{TABLE_PARTITION_COLUMN} >= {(last + 1) // BATCHES_IN_PARTITION} AND batch > {last}"
        self._tables.remove(table, f"{of_query} AND line <= {times_gone_back} AND {since}")
        return Reached(last, times_gone_back + 1, has_table=True)

    def _read_extent(self, table: str, of_query: str) -> list[CatalogueRow] | None:
        """The last batch, the greatest `line` and the first partition of the query's rows; None without a table.

        A damaged table in the checkpoint is renamed, and counts as no table. A shared table is never renamed.
        """
        try:
            extent = self._tables.select(table, _EXTENT, of_query)
        except AgentError as fault:
            self._read_failures[table] = self._read_failures.get(table, 0) + 1
            said = str(fault).replace(table, "")
            is_damaged = (
                _DAMAGE.search(said) is not None
                and _NEWER.search(said) is None
                and self._read_failures[table] >= _MOST_FAILURES
            )
            if not is_damaged or self._shared_table is not None or not self._tables.exists(table):
                raise
            aside = f"{table}.damaged-{time.time_ns() // 1_000_000}"
            self._tables.rename(table, aside)
            self._warn(f"the catalogue {table} is damaged and lies in {aside} now; a new one is begun ({fault})")
            extent = None
        self._read_failures.pop(table, None)
        return extent

    def _locations_of_copies(self, query: str) -> LocationsOfCopies:
        with self._lock:
            return {
                partition: sorted({self._locations[id] for id in executors if id in self._locations})
                for partition, executors in self._copies.get(query, {}).items()
            }

    def _tidy(self, query: str, table: str, newest: int) -> None:
        """Remove partitions of batches that are no longer to be kept, and compact full partitions.

        A failure raises, and the next attempt comes after `_REST_SECONDS`. The owner of a shared table may forbid both.
        """
        now = time.monotonic()
        if now < self._tidied_again_at.get(query, 0.0):
            return
        self._tidied_again_at[query] = now + _REST_SECONDS
        partition = newest // BATCHES_IN_PARTITION
        compacted = self._compacted_up_to.get(query, partition - _PARTITIONS_AT_ONCE)
        if self._retained > _MANY_BATCHES and partition >= compacted + _PARTITIONS_AT_ONCE:
            self._tables.compact(
                table, f"{TABLE_PARTITION_COLUMN} >= {compacted} AND {TABLE_PARTITION_COLUMN} < {partition}"
            )
            self._compacted_up_to[query] = partition
        wanted = max(0, newest + 1 - self._retained) // BATCHES_IN_PARTITION
        if wanted >= self._first_partition.get(query, 0) + _PARTITIONS_AT_ONCE:
            old = f"{TABLE_PARTITION_COLUMN} < {wanted}"  # whole partitions are removed without reading a file
            self._tables.remove(table, old if self._shared_table is None else f"query = '{query}' AND {old}")
            self._first_partition[query] = wanted
            if self._shared_table is None and now >= self._vacuumed_again_at.get(table, now):
                self._vacuumed_again_at[table] = now + _VACUUM_EVERY_SECONDS
                self._tables.vacuum(table)
        self._tidied_again_at[query] = 0.0

    def _entries_after(self, last: int, checkpoint: str) -> dict[int, FileEntry]:
        """Batch to its entry in the commit log, for the batches after `last`, in order."""
        entries = self._open_tree(f"{checkpoint}/{COMMITS}").list()
        by_batch = ((int(entry.name), entry) for entry in entries if entry.name.isdigit())
        return dict(sorted((batch, entry) for batch, entry in by_batch if batch > last))

    def _commit(self, checkpoint: str, entry: FileEntry) -> Commit | None:
        """The commit in this entry. None when Spark has removed the entry meanwhile, as it does with old entries."""
        read = self._open_tree(f"{checkpoint}/{COMMITS}").read(entry.name, _MOST_BYTES)
        where, at_ms = f"{checkpoint}/{COMMITS}/{entry.name}", int(entry.modified_seconds * 1000)
        return parse_commit(where, int(entry.name), read, at_ms) if isinstance(read, bytes) else None

    def _ids(self, checkpoint: str, entry: FileEntry) -> set[str]:
        """The unique ids of the versions of partition 0 in this commit; empty in checkpoints of format v1."""
        commit = self._commit(checkpoint, entry)
        ids = {} if commit is None else commit.state_ids
        return {unique_id for (_, partition), of_task in ids.items() if partition == 0 for unique_id in of_task}

    def _batches_after(self, last: int, checkpoint: str) -> list[tuple[Commit, BegunBatch | None]]:
        """The commits after a batch, at most `_MOST_BATCHES`.

        Each comes with the batch's entry in the offset log; None where there is no such entry.
        """
        offsets = self._open_tree(f"{checkpoint}/{OFFSETS}")
        found: list[tuple[Commit, BegunBatch | None]] = []
        for batch, entry in list(self._entries_after(last, checkpoint).items())[:_MOST_BATCHES]:
            commit, begun = self._commit(checkpoint, entry), offsets.read(entry.name, _MOST_BYTES)
            if commit is not None:
                where = f"{checkpoint}/{OFFSETS}/{batch}"
                found.append((commit, parse_begun(where, batch, begun) if isinstance(begun, bytes) else None))
        return found


def _path_of(checkpoint: str) -> str:
    """The path of a URI without its scheme, as in the reports of executors."""
    parts = urlsplit(checkpoint)
    return unquote(parts.path) if parts.scheme else checkpoint
