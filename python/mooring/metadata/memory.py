"""The metadata store in memory: for tests, and the plainest statement of what the others do."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from mooring.errors import MetadataStoreError
from mooring.metadata.store import (
    Cancel,
    MetadataStore,
    Report,
    Watcher,
    call_watcher,
    check_key,
    check_values,
    report_to_log,
)


class _Space:
    """What all clients of one name share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: dict[str, bytes] = {}
        self.watchers: dict[object, tuple[Watcher, Report]] = {}

    def change(self, puts: Mapping[str, bytes], deleted: frozenset[str] = frozenset()) -> None:
        with self.lock:
            self.values.update(puts)
            gone = {key for key in deleted if self.values.pop(key, None) is not None}
            watchers = list(self.watchers.values())
        changed = frozenset(puts) | gone
        for watcher, report in watchers if changed else ():
            call_watcher(watcher, changed, report)


_named_spaces: dict[str, _Space] = {}
_naming = threading.Lock()


class MemoryMetadataStore(MetadataStore):
    """A map in this process. Clients of one name share it until the process ends; without a name it is one client's.

    Watchers are called by the writer's thread, before its write returns.
    """

    def __init__(self, name: str | None = None, report: Report = report_to_log) -> None:
        with _naming:
            self._space = _Space() if name is None else _named_spaces.setdefault(name, _Space())
        self._report = report
        self._watches: set[object] = set()
        self._closed = False

    def get(self, key: str) -> bytes | None:
        """The value of a key, or None when there is none."""
        space = self._open_space()
        with space.lock:
            return space.values.get(check_key(key))

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Write several values, at once for every reader."""
        self._open_space().change(check_values(values))

    def delete(self, key: str) -> None:
        """Remove a key; a missing one is fine."""
        self._open_space().change({}, frozenset([check_key(key)]))

    def all(self, prefix: str = "") -> dict[str, bytes]:
        """Every key that starts with `prefix`, with its value."""
        space = self._open_space()
        with space.lock:
            return {key: value for key, value in space.values.items() if key.startswith(prefix)}

    def watch(self, watcher: Watcher) -> Cancel:
        """Call `watcher` within each write, with the keys that it changed."""
        space, watch = self._open_space(), object()
        with space.lock:
            space.watchers[watch] = (watcher, self._report)
            self._watches.add(watch)
        return lambda: self._cancel(watch)

    def flush(self) -> None:
        """Nothing to do: a write is seen at once."""
        self._open_space()

    def close(self) -> None:
        """End this client's watches; the values stay for other clients of the same name."""
        for watch in list(self._watches):
            self._cancel(watch)
        self._closed = True

    def _cancel(self, watch: object) -> None:
        with self._space.lock:
            self._space.watchers.pop(watch, None)
            self._watches.discard(watch)

    def _open_space(self) -> _Space:
        if self._closed:
            raise MetadataStoreError("this metadata store is closed")
        return self._space
