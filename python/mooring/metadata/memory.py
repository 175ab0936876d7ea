"""The metadata store in memory, for tests. It is also the simplest code that does what every store has to do."""

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
    """The values and watchers that all clients of one name share."""

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
    """A map in this process. Clients with the same name share it until the process ends. Without a name it is private.

    Watchers are called on the writer's thread, before its write returns.
    """

    def __init__(self, name: str | None = None, report: Report = report_to_log) -> None:
        with _naming:
            self._space = _Space() if name is None else _named_spaces.setdefault(name, _Space())
        self._report = report
        self._watches: set[object] = set()
        self._closed = False

    def get(self, key: str) -> bytes | None:
        """The value of a key, or None where there is none."""
        space = self._open_space()
        with space.lock:
            return space.values.get(check_key(key))

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Write several values. A reader sees all of them or none."""
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
        """Call `watcher` during each write, with the keys that the write changed."""
        space, watch = self._open_space(), object()
        with space.lock:
            space.watchers[watch] = (watcher, self._report)
            self._watches.add(watch)
        return lambda: self._cancel(watch)

    def flush(self) -> None:
        """Does nothing: every reader sees a write as soon as it returns."""
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
