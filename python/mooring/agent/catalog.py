"""Keeps the catalogue of committed state: a Delta table in each query's checkpoint, written now and then.

On a thread of its own, so that neither the loop nor a batch ever waits for it. Whatever fails is tried again at the
next interval, from the batch after the last that the table has: a gap, as while there was no agent, is filled by the
logs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from mooring.checkpoint.catalogue import SCHEMA, TABLE, FactBook, Row, facts_in, store_path
from mooring.checkpoint.lease import DIRECTORY
from mooring.checkpoint.logs import COMMITS, OFFSETS, Begun, Commit, parse_begun, parse_commit
from mooring.errors import AgentError, CheckpointError, MetadataStoreError
from mooring.metadata.tree import FileTree
from mooring.model import events
from mooring.settings import Settings

_MOST_BATCHES: Final = 200
"""In one append; what is more waits for the next."""

_MOST_FACTS: Final = 20_000
_MOST_BYTES: Final = 16 << 20
_LAST_SECONDS: Final = 1.0


class Tables(Protocol):
    """Where rows go; `mooring.spark.delta.DeltaTables` is the real one."""

    def append(self, path: str, schema: str, rows: list[Row], writer: str, number: int) -> None:
        """Add rows, once for each writer and number."""

    def greatest(self, path: str, column: str) -> int | None:
        """The greatest number in a column; None where there is no table yet."""


class CatalogKeeper:
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
        self._checkpoints: dict[str, str] = {}  # query -> its checkpoint, while it runs and until its last rows are in
        self._ended: set[str] = set()
        self._books: dict[str, FactBook] = {}  # by the plain path of the checkpoint
        self._last: dict[str, int] = {}  # query -> the last batch in its table
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._has_said = False
        self._thread: threading.Thread | None = None

    def take(self, event: events.Event) -> None:
        """Hear of the application and its queries. Returns at once."""
        match event:
            case events.ApplicationStarted() if event.is_catalogued:
                self._application = event.application
                self._every_seconds = Settings.from_conf(event.settings).checkpoint_catalog_interval_ms / 1000
            case events.QueryPlanned() if self._application:
                with self._lock:
                    self._checkpoints[event.query] = event.checkpoint
                    self._ended.discard(event.query)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="mooring-catalog", daemon=True)
                    self._thread.start()
            case events.QueryEnded():
                with self._lock:
                    self._ended.add(event.query)

    def end(self) -> None:
        """Write no more. A job that is under way ends by itself, or with the application."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)

    def _work(self) -> None:
        while not self._over.wait(self._every_seconds):
            try:
                self.write()
            except (AgentError, CheckpointError, MetadataStoreError) as fault:  # the next round begins where this did
                if not self._has_said:
                    self._has_said = True
                    self._say(f"the catalogue of committed state can not be written now ({fault}); it is tried again")

    def write(self) -> None:
        """One round over all queries."""
        for fact in facts_in(self._take_facts(_MOST_FACTS)):
            self._books.setdefault(store_path(fact)[0], FactBook()).take(fact)
        with self._lock:
            checkpoints, ended = dict(self._checkpoints), set(self._ended)
        for query, checkpoint in checkpoints.items():
            self._catalogue(query, checkpoint)
        with self._lock:
            for query in ended & self._ended:
                self._checkpoints.pop(query, None)
                self._ended.discard(query)
                self._last.pop(query, None)

    def _catalogue(self, query: str, checkpoint: str) -> None:
        path = f"{checkpoint}/{DIRECTORY}/{TABLE}"
        if query not in self._last:
            found = self._tables.greatest(path, "batch")
            self._last[query] = -1 if found is None else found
        batches = self._batches_after(self._last[query], checkpoint)
        if batches:
            book = self._books.setdefault(_plain(checkpoint), FactBook())
            rows = book.rows(query, self._application, batches)
            newest = batches[-1][0].batch
            if rows:
                self._tables.append(path, SCHEMA, rows, query, newest)
            self._last[query] = newest

    def _batches_after(self, last: int, checkpoint: str) -> list[tuple[Commit, Begun | None]]:
        commits, offsets = self._open_tree(f"{checkpoint}/{COMMITS}"), self._open_tree(f"{checkpoint}/{OFFSETS}")
        new = sorted((int(one.name), one) for one in commits.list() if one.name.isdigit() and int(one.name) > last)
        found: list[tuple[Commit, Begun | None]] = []
        for batch, entry in new[:_MOST_BATCHES]:
            commit, begun = commits.read(entry.name, _MOST_BYTES), offsets.read(entry.name, _MOST_BYTES)
            if not isinstance(commit, bytes):
                continue  # cleared away meanwhile: a batch of a hundred ago
            read = parse_commit(f"{checkpoint}/{COMMITS}/{batch}", batch, commit, int(entry.modified_seconds * 1000))
            known = parse_begun(f"{checkpoint}/{OFFSETS}/{batch}", batch, begun) if isinstance(begun, bytes) else None
            found.append((read, known))
        return found


def _plain(checkpoint: str) -> str:
    """The path of a URI, as executors tell it."""
    parts = urlsplit(checkpoint)
    return unquote(parts.path) if parts.scheme else checkpoint
