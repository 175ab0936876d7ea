"""Watching a store that cannot tell of changes by itself: look again and again, and compare."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from mooring.errors import MetadataStoreError
from mooring.metadata.store import Cancel, Report, Watcher, call_watcher

Snapshot = Callable[[], Mapping[str, str]]
"""Keys with a text for each that differs after the key was written again."""

Stamp = Callable[[], object]
"""Something cheap that differs after any key was written; None when that can not be told. May raise as a Snapshot."""

_MOST_PASSED_OVER = 9
"""Looks in a row that trust the stamp alone: somebody may write in a way that does not change it."""


class PollingWatch:
    """Tells watchers which keys differ between two looks: one thread for all, from the first watcher until `stop`."""

    def __init__(
        self, snapshot: Snapshot, interval_seconds: float, report: Report, stamp: Stamp = lambda: None
    ) -> None:
        """No snapshot is taken while the stamp is the same, but at every tenth look."""
        self._snapshot = snapshot
        self._stamp = stamp
        self._stamped: object = None
        self._passed_over = 0
        self._interval = interval_seconds
        self._report = report
        self._looking = threading.Lock()
        self._seen: Mapping[str, str] | None = None
        self._watchers: dict[object, Watcher] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._in_trouble = False

    def add(self, watcher: Watcher) -> Cancel:
        """Tell `watcher` of every change from now on. Raises what the first look raises."""
        watch = object()
        with self._looking:
            if self._seen is None:
                self._stamped = self._stamp()
                self._seen = self._snapshot()
            self._watchers[watch] = watcher
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mooring-metadata-watch", daemon=True)
                self._thread.start()

        def cancel() -> None:
            self._watchers.pop(watch, None)

        return cancel

    def poll(self) -> None:
        """Look once. A store that cannot be reached is reported once until it can be again; nothing is missed."""
        with self._looking:
            changed = self._changes()
            watchers = list(self._watchers.items()) if changed else []
        for watch, watcher in watchers:
            if watch in self._watchers and not self._stopped.is_set():
                call_watcher(watcher, changed, self._report)

    def stop(self) -> None:
        """End the thread and wait for it, unless it is the one that calls."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            self.poll()

    def _changes(self) -> frozenset[str]:
        before = self._seen or {}
        try:
            stamp = self._stamp()
            if stamp is not None and stamp == self._stamped and self._passed_over < _MOST_PASSED_OVER:
                self._passed_over += 1
                return frozenset()
            now = self._snapshot()
        except MetadataStoreError as error:
            if not self._in_trouble:
                self._report(f"changes in the metadata store are not seen for now: {error}")
            self._in_trouble = True
            return frozenset()
        self._in_trouble = False
        self._seen, self._stamped, self._passed_over = now, stamp, 0
        return frozenset(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
