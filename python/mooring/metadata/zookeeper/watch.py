"""Telling watchers what changed: one ZooKeeper watch on the log of writes, for any number of keys and watchers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ZookeeperError

from mooring.errors import MetadataStoreError
from mooring.metadata.store import Cancel, Report, Watcher, tell
from mooring.metadata.zookeeper.changes import ChangeLog, in_order
from mooring.metadata.zookeeper.connection import ZkConnection

_SETTLE_SECONDS = 0.02
_RETRY_SECONDS = 1.0
_NOTHING_YET = -1


class ChangeWatch:
    """One thread for all watchers of a store, from the first until `stop`.

    Kazoo's threads only wake it. It reads what the log holds beyond the last write that it knows, so a break of any
    length loses nothing; when the log does not reach back that far, all keys are told, those of before and of now.
    """

    def __init__(
        self, connection: ZkConnection, log: ChangeLog, keys: Callable[[], frozenset[str]], report: Report
    ) -> None:
        """`keys` lists all keys that there are."""
        self._connection, self._log, self._keys, self._report = connection, log, keys, report
        self._looking = threading.Lock()
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._watchers: dict[object, Watcher] = {}
        self._thread: threading.Thread | None = None
        self._known: frozenset[str] = frozenset()
        self._last = _NOTHING_YET
        self._in_trouble = False

    def add(self, watcher: Watcher) -> Cancel:
        """Tell `watcher` of every change from now on. Raises what the first look raises."""
        watch = object()
        with self._looking:
            if self._thread is None:
                self._begin()
            self._watchers[watch] = watcher

        def cancel() -> None:
            self._watchers.pop(watch, None)

        return cancel

    def stop(self) -> None:
        """End the thread and wait for it, unless it is the one that calls. Close the connection first."""
        self._stopped.set()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _begin(self) -> None:
        writes = self._arm()
        self._last = writes[-1].number if writes else _NOTHING_YET
        self._known = self._keys()
        self._thread = threading.Thread(target=self._run, name="mooring-zookeeper-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        timeout = None
        while not self._stopped.is_set():
            self._woken.wait(timeout)
            self._stopped.wait(_SETTLE_SECONDS)  # writes close together are told as one
            self._woken.clear()
            if not self._stopped.is_set():
                timeout = None if self._look() else _RETRY_SECONDS

    def _look(self) -> bool:
        """Tell what is new. A store that cannot be reached is reported once; False then: look again."""
        with self._looking:
            try:
                changed = self._changes()
            except MetadataStoreError as error:
                if not self._in_trouble and not self._stopped.is_set():
                    self._report(f"changes in the metadata store are not seen for now: {error}")
                self._in_trouble = True
                return False
            self._in_trouble = False
            watchers = list(self._watchers.items()) if changed else []
        for watch, watcher in watchers:
            if watch in self._watchers and not self._stopped.is_set():
                tell(watcher, changed, self._report)
        return True

    def _changes(self) -> frozenset[str]:
        writes = self._arm()
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

    def _arm(self) -> Any:
        """The log as it is now, with a watch on it; on its coming into being when it is not there yet."""
        log = self._log.directory
        asked = [lambda client: client.sync_async(log), lambda client: client.get_children_async(log, self._on_event)]
        while True:
            names = self._connection.ask(asked)[1]
            if not isinstance(names, ZookeeperError):
                return in_order(names)
            (there,) = self._connection.ask([lambda client: client.exists_async(log, self._on_event)])
            if there is None:
                return []

    def _on_event(self, event: object) -> None:
        """On kazoo's thread: a write, or the end of the watch with its connection; `_look` waits for a new one."""
        self._woken.set()
