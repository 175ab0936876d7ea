"""Calls watchers on a thread of its own: a slow watcher delays only the other watchers, never the reader."""

from __future__ import annotations

import threading

from mooring.metadata.store import Cancel, Report, Watcher, call_watcher

_STOP_SECONDS = 5.0


class ChangePublisher:
    """Calls the watchers with the published keys. Its thread starts with the first watcher and ends with `stop`."""

    def __init__(self, name: str, report: Report) -> None:
        self._name = name
        self._report = report
        self._changed = threading.Condition()
        self._waiting: set[str] = set()  # keys that were published, and of which the watchers do not know yet
        self._watchers: dict[object, Watcher] = {}
        self._thread: threading.Thread | None = None
        self._stopped = False

    def add(self, watcher: Watcher) -> Cancel:
        """Call `watcher` with all keys that are published from now on."""
        watch = object()
        with self._changed:
            self._watchers[watch] = watcher
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

        def cancel() -> None:
            with self._changed:
                self._watchers.pop(watch, None)

        return cancel

    @property
    def has_watchers(self) -> bool:
        """Whether there is any watcher."""
        return bool(self._watchers)

    def publish(self, keys: set[str]) -> None:
        """Call the watchers soon with these keys. The keys of several calls may come together."""
        with self._changed:
            if self._watchers and keys:
                self._waiting |= keys
                self._changed.notify()

    def stop(self) -> None:
        """Call no watcher any more. Waits for the one that runs, five seconds at most, unless that one calls this."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                if self._stopped:
                    return
                keys, self._waiting = frozenset(self._waiting), set()
                watchers = list(self._watchers.items())
            for watch, watcher in watchers:
                if watch in self._watchers and not self._stopped:
                    call_watcher(watcher, keys, self._report)
