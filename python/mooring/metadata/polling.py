"""Watches a store that has no notifications: lists it again and again, and compares the listings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from mooring.errors import MetadataStoreError
from mooring.metadata.store import Cancel, Report, Watcher, call_watcher

Snapshot = Callable[[], Mapping[str, str]]
"""Returns each key with a text (a version) that differs after every write of the key. May raise MetadataStoreError."""

Stamp = Callable[[], object]
"""Returns a value that is cheap to get and differs after a write of any key; None where there is no such value."""

_MOST_SKIPPED = 9
"""How many snapshots in a row may be skipped because of the stamp: some writes may not change the stamp."""


class PollingWatch:
    """Calls watchers with the keys that differ between two snapshots.

    One thread serves all watchers. It starts with the first watcher and ends with `stop`.
    """

    def __init__(
        self, snapshot: Snapshot, interval_seconds: float, report: Report, stamp: Stamp = lambda: None
    ) -> None:
        """While the stamp stays the same, only every tenth poll takes a snapshot."""
        self._snapshot = snapshot
        self._stamp = stamp
        self._last_stamp: object = None
        self._skipped = 0
        self._interval = interval_seconds
        self._report = report
        self._polling = threading.Lock()
        self._last_snapshot: Mapping[str, str] | None = None
        self._watchers: dict[object, Watcher] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_unreachable = False

    def add(self, watcher: Watcher) -> Cancel:
        """Call `watcher` for every change from now on. The first call raises what `snapshot` raises."""
        watch = object()
        with self._polling:
            if self._last_snapshot is None:
                self._last_stamp = self._stamp()
                self._last_snapshot = self._snapshot()
            self._watchers[watch] = watcher
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mooring-metadata-watch", daemon=True)
                self._thread.start()

        def cancel() -> None:
            self._watchers.pop(watch, None)

        return cancel

    def poll(self) -> None:
        """Compare once, and call the watchers.

        A store that cannot be reached is reported once, until it can be reached again. The next comparison is with the
        last snapshot before that, so no change is missed.
        """
        with self._polling:
            changed = self._changes()
            watchers = list(self._watchers.items()) if changed else []
        for watch, watcher in watchers:
            if watch in self._watchers and not self._stopped.is_set():
                call_watcher(watcher, changed, self._report)

    def stop(self) -> None:
        """End the thread, and wait for it unless a watcher on it calls this."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            self.poll()

    def _changes(self) -> frozenset[str]:
        before = self._last_snapshot or {}
        try:
            stamp = self._stamp()
            if stamp is not None and stamp == self._last_stamp and self._skipped < _MOST_SKIPPED:
                self._skipped += 1
                return frozenset()
            now = self._snapshot()
        except MetadataStoreError as error:
            if not self._is_unreachable:
                self._report(f"changes in the metadata store are not seen for now: {error}")
            self._is_unreachable = True
            return frozenset()
        self._is_unreachable = False
        self._last_snapshot, self._last_stamp, self._skipped = now, stamp, 0
        return frozenset(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
