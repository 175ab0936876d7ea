"""Calls watchers with the keys that changed: one ZooKeeper watch on the log of writes serves all keys and watchers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ZookeeperError

from mooring.errors import MetadataStoreError
from mooring.metadata.store import Cancel, Report, Watcher, call_watcher
from mooring.metadata.zookeeper.changes import ChangeLog, in_order
from mooring.metadata.zookeeper.connection import ZkConnection

_SETTLE_SECONDS = 0.02
_RETRY_SECONDS = 1.0
_NOTHING_YET = -1


class ChangeWatch:
    """One thread for all watchers of a store. It starts with the first watcher and ends with `stop`.

    Kazoo's threads only wake this thread. It then reads the notes of the log that are newer than the last one that it
    has read. So no change is missed while the connection is away. Where the log no longer has the last note that was
    read, the watchers get all keys: those that existed at the last full listing and those that exist now.
    """

    def __init__(
        self, connection: ZkConnection, log: ChangeLog, keys: Callable[[], frozenset[str]], report: Report
    ) -> None:
        """`keys` returns all keys of the store."""
        self._connection, self._log, self._keys, self._report = connection, log, keys, report
        self._looking = threading.Lock()
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._watchers: dict[object, Watcher] = {}
        self._thread: threading.Thread | None = None
        self._known: frozenset[str] = frozenset()
        self._last = _NOTHING_YET  # the number of the last note that was read
        self._is_unreachable = False

    def add(self, watcher: Watcher) -> Cancel:
        """Call `watcher` for every change from now on. Raises MetadataStoreError where the log cannot be read."""
        watch = object()
        with self._looking:
            if self._thread is None:
                self._start()
            self._watchers[watch] = watcher

        def cancel() -> None:
            self._watchers.pop(watch, None)

        return cancel

    def stop(self) -> None:
        """End the thread, and wait for it unless a watcher on it calls this. Close the connection first."""
        self._stopped.set()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _start(self) -> None:
        writes = self._read_and_watch_log()
        self._last = writes[-1].number if writes else _NOTHING_YET
        self._known = self._keys()
        self._thread = threading.Thread(target=self._run, name="mooring-zookeeper-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        timeout = None
        while not self._stopped.is_set():
            self._woken.wait(timeout)
            self._stopped.wait(_SETTLE_SECONDS)  # several writes in a short time become one call of the watchers
            self._woken.clear()
            if not self._stopped.is_set():
                timeout = None if self._look() else _RETRY_SECONDS

    def _look(self) -> bool:
        """Call the watchers with the new changes; False where the store cannot be reached, which is reported once."""
        with self._looking:
            try:
                changed = self._changes()
            except MetadataStoreError as error:
                if not self._is_unreachable and not self._stopped.is_set():
                    self._report(f"changes in the metadata store are not seen for now: {error}")
                self._is_unreachable = True
                return False
            self._is_unreachable = False
            watchers = list(self._watchers.items()) if changed else []
        for watch, watcher in watchers:
            if watch in self._watchers and not self._stopped.is_set():
                call_watcher(watcher, changed, self._report)
        return True

    def _changes(self) -> frozenset[str]:
        writes = self._read_and_watch_log()
        reaches_back = any(write.number == self._last for write in writes) or (
            self._last == _NOTHING_YET and (not writes or writes[0].number == 0)
        )
        new = [write for write in writes if write.number > self._last]
        changed = self._log.keys_of(new, self._connection.new_deadline()) if reaches_back else None
        if changed is None:
            now = self._keys()
            changed, self._known = self._known | now, now
        else:
            self._known |= changed
        self._last = writes[-1].number if writes else _NOTHING_YET
        return changed

    def _read_and_watch_log(self) -> Any:
        """The notes of the log, oldest first, and a watch on the log's directory, or on its creation if it is missing.

        The same request reads and sets the watch, so a write is in the answer or triggers the watch.
        """
        log = self._log.directory
        requests = [
            lambda client: client.sync_async(log),
            lambda client: client.get_children_async(log, self._on_event),
        ]
        while True:
            names = self._connection.ask(requests)[1]
            if not isinstance(names, ZookeeperError):
                return in_order(names)
            (stat,) = self._connection.ask([lambda client: client.exists_async(log, self._on_event)])
            if stat is None:
                return []

    def _on_event(self, event: object) -> None:
        """Runs on kazoo's thread, after a write or a lost connection: wakes this watch's own thread."""
        self._woken.set()
