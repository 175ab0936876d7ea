"""Keeps the catalogue of committed state: a Delta table in each query's checkpoint, written now and then.

On a thread of its own, so that neither the loop nor a batch ever waits for it. Whatever fails is tried again at the
next interval, from the batch after the last that the table has: a gap, as while there was no agent, is filled by the
logs.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from mooring.checkpoint.catalogue import (
    BATCHES_IN_PARTITION,
    PARTITION,
    SCHEMA,
    TABLE,
    Copies,
    FactBook,
    Row,
    facts_in,
    store_path,
)
from mooring.checkpoint.lease import DIRECTORY
from mooring.checkpoint.logs import COMMITS, OFFSETS, BegunBatch, Commit, parse_begun, parse_commit
from mooring.errors import AgentError, CheckpointError, MetadataStoreError, MooringError
from mooring.metadata.tree import FileEntry, FileTree
from mooring.model import events
from mooring.settings import Settings

_MOST_BATCHES: Final = 200
"""In one append; what is more waits for the next."""

_MOST_FACTS: Final = 20_000
_MOST_BYTES: Final = 16 << 20
_MOST_TRIES: Final = 3
"""Of reading a table, an interval apart."""

_DAMAGE: Final = re.compile(r"(?i)json|malformed|corrupt|parquet|delta_(log|state|version|invalid|truncated)")
"""What Delta says of a table whose own files are not what they should be."""

_NEWER: Final = re.compile(r"(?i)protocol|unsupported|feature")
"""What it says of one that a newer Delta has written: then nothing is known to be wrong."""

_MANY_BATCHES: Final = 1000
"""Where more are kept, partitions that are full are made one file each."""

_PARTITIONS_AT_ONCE: Final = 5
"""Are let go of, or made small: each time is a second and more of Spark's work."""

_SWEEP_SECONDS: Final = 12 * 3600.0
"""Between two searches for files that a table does not name any more, for which Delta waits a day."""

_REST_SECONDS: Final = 600.0

_TOP: Final = ("max(batch) AS batch", "max(line) AS line", f"min({PARTITION}) AS first")
_OF_PLACE: Final = ("kind", "batch", "operator", "partition", "store", "id")

_LAST_SECONDS: Final = 1.0


class Tables(Protocol):
    """Where rows go; `mooring.spark.delta.DeltaTables` is the real one. A table is a path, or a name in a catalog."""

    def append(self, table: str, schema: str, partition: str, rows: list[Row], writer: str, number: int) -> None:
        """Add rows, once for each writer and number."""

    def select(self, table: str, columns: Sequence[str], where: str) -> list[Row] | None:
        """Some columns of the rows for which `where` holds; None where there is no table yet."""

    def remove(self, table: str, where: str) -> None:
        """Remove the rows for which `where` holds."""

    def compact(self, table: str, where: str) -> None:
        """Make few files of many, in the partitions for which `where` holds."""

    def vacuum(self, table: str) -> None:
        """Delete files that the table does not name any more."""

    def exists(self, table: str) -> bool:
        """Whether there is a table."""

    def rename(self, path: str, to: str) -> None:
        """Take the table away from its path."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the table of a query reaches: the last batch in it, and how often the query had gone back by then."""

    batch: int = -1
    line: int = 0
    has_table: bool = False


class CatalogueKeeper:
    """The catalogues of one application. The thread starts with the first query, and ends with `end`."""

    def __init__(
        self,
        tables: Tables,
        take_facts: Callable[[int], str],
        open_tree: Callable[[str], FileTree],
        say: Callable[[str], None],
    ) -> None:
        """`take_facts` hands over what executors have told, at most so much; `say` hears of the first failure."""
        self._tables, self._take_facts, self._open_tree, self._say = tables, take_facts, open_tree, say
        self._application = ""
        self._every_seconds = 0.0
        self._retained = 0
        self._shared_table: str | None = None
        self._checkpoints: dict[str, str] = {}  # query -> its checkpoint, while it runs and until its last rows are in
        self._runs: dict[str, str] = {}  # query -> its newest run
        self._ended: set[str] = set()
        self._anew: set[str] = set()  # queries of which a run has begun since the last round
        self._books: dict[str, FactBook] = {}  # by the plain path of the checkpoint
        self._reached: dict[str, Reached] = {}  # query -> how far its table reaches, while it runs
        self._unreadable: dict[str, int] = {}  # table -> how often it could not be read, in a row
        self._first: dict[str, int] = {}  # query -> the first partition that its table has
        self._compacted: dict[str, int] = {}  # query -> until which of its partitions are small
        self._rests_until: dict[str, float] = {}  # query -> until when its table is not tended
        self._sweeps: dict[str, float] = {}  # table -> when its files are to be swept next
        self._copies: dict[str, dict[int, list[str]]] = {}  # query -> partition -> executors that hold copies
        self._locations: dict[str, str] = {}  # executor -> where it is
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._has_said = False
        self._thread: threading.Thread | None = None

    def take(self, event: events.Event) -> None:
        """Hear of the application and its queries. Returns at once."""
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
                        self._anew.add(event.query)
                    self._runs[event.query] = event.run
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="mooring-catalog", daemon=True)
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
        """Write no more. A job that is under way ends by itself, or with the application."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)

    def _work(self) -> None:
        while not self._over.wait(self._every_seconds):
            for fault in self.write():
                if not self._has_said:
                    self._has_said = True
                    self._say(f"the catalogue of committed state can not be written now ({fault}); it is tried again")

    def write(self) -> list[MooringError]:
        """One round over all queries; what went wrong, a fault a query: there the next round begins where this did."""
        with self._lock:
            checkpoints, ended = dict(self._checkpoints), set(self._ended)
            for query in self._anew:
                self._reached.pop(query, None)
            self._anew.clear()
        faults: dict[str, MooringError] = {}
        for query, checkpoint in checkpoints.items():
            try:
                self._catalogue(query, checkpoint)
            except (AgentError, CheckpointError, MetadataStoreError) as fault:
                faults[query] = fault
        with self._lock:
            for query in (ended & self._ended) - faults.keys():  # its last batches are in
                self._checkpoints.pop(query, None)
                self._runs.pop(query, None)
                self._ended.discard(query)
                self._reached.pop(query, None)
                self._copies.pop(query, None)
        return list(faults.values())

    def _hear(self) -> None:
        for fact in facts_in(self._take_facts(_MOST_FACTS)):
            self._books.setdefault(store_path(fact)[0], FactBook()).take(fact)

    def _catalogue(self, query: str, checkpoint: str) -> None:
        table = self._shared_table or f"{checkpoint}/{DIRECTORY}/{TABLE}"
        if query not in self._reached:
            self._reached[query] = self._found(query, table, checkpoint)
        elif self._reached[query].has_table and not self._tables.exists(table):  # somebody has removed it
            self._reached[query] = Reached()
        reached = self._reached.pop(query)  # where what follows fails the table says what came of it
        batches = self._batches_after(reached.batch, checkpoint)
        if batches:
            self._hear()  # after the look into the log: what a batch has told was told before it was committed
            book = self._books.setdefault(_plain(checkpoint), FactBook())
            of_all = {"query": query, "deployment": self._application, "line": reached.line}
            rows = book.rows(batches, of_all, self._holders(query))
            newest = batches[-1][0].batch
            if rows:
                self._tables.append(table, SCHEMA, PARTITION, rows, f"{query}:{self._runs[query]}", newest)
            book.settle(rows)
            reached = Reached(newest, reached.line, reached.has_table or bool(rows))
        self._reached[query] = reached
        if batches and reached.has_table:
            self._tend(query, table, reached.batch)

    def _found(self, query: str, table: str, checkpoint: str) -> Reached:
        """By the table, whose rows of batches that were undone since are removed: their ids are not in the log."""
        of_query = f"query = '{query}'"
        top = self._top(table, of_query)
        if not top or "batch" not in top[0]:
            return Reached()
        newest, line, self._first[query] = (int(top[0][name]) for name in ("batch", "line", "first"))
        logged = self._entries_after(-1, checkpoint)
        oldest = min(logged, default=newest + 1)
        known = self._tables.select(table, _OF_PLACE, f"{of_query} AND batch >= {oldest}") or []
        self._books.setdefault(_plain(checkpoint), FactBook()).know(known)
        listed: dict[int, set[str]] = {}
        for row in known:
            if row["kind"] == "commit" and int(row["partition"]) == 0:
                listed.setdefault(int(row["batch"]), set()).add(str(row["id"]))
        in_both = sorted(set(listed) & set(logged), reverse=True)  # as a rule the first is the same
        ids = ((one, self._ids(checkpoint, logged[one])) for one in in_both)
        same = (one for one, known in ids if not known or listed[one] <= known)  # a commit without ids proves nothing
        last = next(same, min(newest, oldest - 1))
        if last == newest:
            return Reached(newest, line, has_table=True)
        since = f"{PARTITION} >= {(last + 1) // BATCHES_IN_PARTITION} AND batch > {last}"
        self._tables.remove(table, f"{of_query} AND line <= {line} AND {since}")
        return Reached(last, line + 1, has_table=True)

    def _top(self, table: str, of_query: str) -> list[Row] | None:
        """The last batch and line, and the first partition. A table of its own that can not be read is set aside."""
        try:
            top = self._tables.select(table, _TOP, of_query)
        except AgentError as fault:
            self._unreadable[table] = self._unreadable.get(table, 0) + 1
            said = str(fault).replace(table, "")
            is_damaged = (
                _DAMAGE.search(said) is not None
                and _NEWER.search(said) is None
                and self._unreadable[table] >= _MOST_TRIES
            )
            if not is_damaged or self._shared_table is not None or not self._tables.exists(table):
                raise
            aside = f"{table}.damaged-{time.time_ns() // 1_000_000}"
            self._tables.rename(table, aside)
            self._say(f"the catalogue {table} is damaged and lies in {aside} now; a new one is begun ({fault})")
            top = None
        self._unreadable.pop(table, None)
        return top

    def _holders(self, query: str) -> Copies:
        with self._lock:
            return {
                partition: sorted({self._locations[one] for one in executors if one in self._locations})
                for partition, executors in self._copies.get(query, {}).items()
            }

    def _tend(self, query: str, table: str, newest: int) -> None:
        """Let go of batches that are older than is wanted, some partitions at a time; make others small.

        What fails, as where the owner of a shared table does not permit it, is tried again after a rest.
        """
        now = time.monotonic()
        if now < self._rests_until.get(query, 0.0):
            return
        self._rests_until[query] = now + _REST_SECONDS
        partition = newest // BATCHES_IN_PARTITION
        compacted = self._compacted.get(query, partition - _PARTITIONS_AT_ONCE)
        if self._retained > _MANY_BATCHES and partition >= compacted + _PARTITIONS_AT_ONCE:
            self._tables.compact(table, f"{PARTITION} >= {compacted} AND {PARTITION} < {partition}")
            self._compacted[query] = partition
        wanted = max(0, newest + 1 - self._retained) // BATCHES_IN_PARTITION
        if wanted >= self._first.get(query, 0) + _PARTITIONS_AT_ONCE:
            old = f"{PARTITION} < {wanted}"  # by partitions alone no file need be read
            self._tables.remove(table, old if self._shared_table is None else f"query = '{query}' AND {old}")
            self._first[query] = wanted
            if self._shared_table is None and now >= self._sweeps.get(table, now):
                self._sweeps[table] = now + _SWEEP_SECONDS
                self._tables.vacuum(table)
        self._rests_until[query] = 0.0

    def _entries_after(self, last: int, checkpoint: str) -> dict[int, FileEntry]:
        """Batch to its entry in the commit log, in order."""
        entries = self._open_tree(f"{checkpoint}/{COMMITS}").list()
        return dict(sorted((int(one.name), one) for one in entries if one.name.isdigit() and int(one.name) > last))

    def _commit(self, checkpoint: str, entry: FileEntry) -> Commit | None:
        """None where it was cleared away meanwhile: a batch of a hundred ago."""
        read = self._open_tree(f"{checkpoint}/{COMMITS}").read(entry.name, _MOST_BYTES)
        where, at_ms = f"{checkpoint}/{COMMITS}/{entry.name}", int(entry.modified_seconds * 1000)
        return parse_commit(where, int(entry.name), read, at_ms) if isinstance(read, bytes) else None

    def _ids(self, checkpoint: str, entry: FileEntry) -> set[str]:
        """Of the first partition's versions."""
        commit = self._commit(checkpoint, entry)
        ids = {} if commit is None else commit.state_ids
        return {one for (_, partition), of_task in ids.items() if partition == 0 for one in of_task}

    def _batches_after(self, last: int, checkpoint: str) -> list[tuple[Commit, BegunBatch | None]]:
        offsets = self._open_tree(f"{checkpoint}/{OFFSETS}")
        found: list[tuple[Commit, BegunBatch | None]] = []
        for batch, entry in list(self._entries_after(last, checkpoint).items())[:_MOST_BATCHES]:
            commit, begun = self._commit(checkpoint, entry), offsets.read(entry.name, _MOST_BYTES)
            if commit is not None:
                known = (
                    parse_begun(f"{checkpoint}/{OFFSETS}/{batch}", batch, begun) if isinstance(begun, bytes) else None
                )
                found.append((commit, known))
        return found


def _plain(checkpoint: str) -> str:
    """The path of a URI, as executors tell it."""
    parts = urlsplit(checkpoint)
    return unquote(parts.path) if parts.scheme else checkpoint
