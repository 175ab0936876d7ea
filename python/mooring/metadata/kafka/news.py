"""Telling watchers of changes, on a thread of its own: a slow watcher holds up nobody but the other watchers."""

from __future__ import annotations

import threading

from mooring.metadata.store import Cancel, Report, Watcher, call_watcher

_STOP_SECONDS = 5.0


class News:
    """What changed and was not told yet. The thread starts with the first watcher and ends with `stop`."""

    def __init__(self, name: str, report: Report) -> None:
        self._name = name
        self._report = report
        self._changes = threading.Condition()
        self._untold: set[str] = set()
        self._watchers: dict[object, Watcher] = {}
        self._thread: threading.Thread | None = None
        self._stopped = False

    def add(self, watcher: Watcher) -> Cancel:
        """Tell `watcher` of all that is published from now on."""
        watch = object()
        with self._changes:
            self._watchers[watch] = watcher
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

        def cancel() -> None:
            with self._changes:
                self._watchers.pop(watch, None)

        return cancel

    @property
    def has_watchers(self) -> bool:
        """Whether anybody waits for news."""
        return bool(self._watchers)

    def publish(self, keys: set[str]) -> None:
        """Tell of these keys soon; those of several calls may be told together."""
        with self._changes:
            if self._watchers and keys:
                self._untold |= keys
                self._changes.notify()

    def stop(self) -> None:
        """Tell nothing more. Waits for a watcher that is being told, five seconds at most, unless it is the caller."""
        with self._changes:
            self._stopped = True
            self._changes.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changes:
                self._changes.wait_for(lambda: self._untold or self._stopped)
                if self._stopped:
                    return
                keys, self._untold = frozenset(self._untold), set()
                watchers = list(self._watchers.items())
            for watch, watcher in watchers:
                if watch in self._watchers and not self._stopped:
                    call_watcher(watcher, keys, self._report)
