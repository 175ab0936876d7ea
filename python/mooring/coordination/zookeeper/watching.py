"""Watches one node with its children and data, on a thread. The watch is set again after each change and each loss."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ZookeeperError

from mooring.errors import MetadataStoreError
from mooring.metadata.store import Report
from mooring.metadata.zookeeper.connection import ZkConnection

_SETTLE_SECONDS = 0.02
_RETRY_SECONDS = 1.0


class NodeWatch:
    """Calls `changed` when the node's data or children differ from those at the last look."""

    def __init__(self, connection: ZkConnection, path: str, changed: Callable[[], None], report: Report) -> None:
        """Look at the node for the first time, and start the thread. MetadataStoreError when that look fails."""
        self._connection, self._path, self._changed, self._report = connection, path, changed, report
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._seen = self._look()
        self._thread = threading.Thread(target=self._run, name="mooring-zookeeper-node-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Call `changed` no more."""
        self._stopped.set()
        self._woken.set()

    def _run(self) -> None:
        timeout: float | None = None
        in_trouble = False
        while not self._stopped.is_set():
            self._woken.wait(timeout)
            self._stopped.wait(_SETTLE_SECONDS)  # many participants come at once
            self._woken.clear()
            try:
                now, timeout = self._look(), None
            except MetadataStoreError as error:
                if not in_trouble and not self._stopped.is_set():
                    self._report(f"changes of {self._path} are not seen for now: {error}")
                in_trouble, timeout = True, _RETRY_SECONDS
                continue
            in_trouble = False
            if now != self._seen and not self._stopped.is_set():
                self._seen = now
                self._call_watcher()

    def _call_watcher(self) -> None:
        try:
            self._changed()
        except Exception as error:  # an error of the watcher must not end the watch
            self._report(f"a watcher of {self._path} failed: {error!r}")

    def _look(self) -> tuple[Any, ...]:
        asked: list[Callable[[Any], Any]] = [
            lambda client: client.sync_async(self._path),
            lambda client: client.exists_async(self._path, self._on_event),
            lambda client: client.get_children_async(self._path, self._on_event, include_data=True),
        ]
        _, stat, children = self._connection.ask(asked)
        if stat is None or isinstance(children, ZookeeperError):
            return (None, None)
        return (stat.czxid, stat.mzxid, children[1].pzxid)

    def _on_event(self, event: object) -> None:
        """Wake the thread. Called on kazoo's thread."""
        self._woken.set()
