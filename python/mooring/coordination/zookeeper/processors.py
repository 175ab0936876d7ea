"""Processors in ZooKeeper: `processors/processor.<n>` is an ephemeral node with the location as its value."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import NodeExistsError, ZookeeperError

from mooring.coordination.processors import Processors
from mooring.coordination.zookeeper.watching import NodeWatch
from mooring.errors import MetadataStoreError
from mooring.metadata.store import Cancel, Report, report_to_log
from mooring.metadata.zookeeper.connection import ZkConnection
from mooring.metadata.zookeeper.nodes import node_name, text_of

_PREFIX = "processor."
_RETRY_SECONDS = 1.0


class ZkProcessors(Processors):
    """The processors of one application."""

    def __init__(self, connection: ZkConnection, root: str, report: Report = report_to_log) -> None:
        """The caller closes the connection, after `close`."""
        self._connection, self._report = connection, report
        self._directory = f"{root}/processors"
        self._announced: dict[str, str] = {}
        self._keeping = threading.Lock()
        self._sessions: set[int] = set()
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._watches: list[NodeWatch] = []
        self._stop_listening: Callable[[], None] = lambda: None

    def announce(self, processor_id: str, location_id: str) -> None:
        """Write the entry, and again in each new session, even if this call raises MetadataStoreUnavailable."""
        with self._keeping:
            self._announced[processor_id] = location_id
            if self._thread is None:
                self._stop_listening = self._connection.listen(self._on_session)
                self._thread = threading.Thread(target=self._run, name="mooring-processors", daemon=True)
                self._thread.start()
            # The first call may find no directory, or an entry of this client's last session.
            if not (self._is_kept(processor_id, location_id) or self._is_kept(processor_id, location_id)):
                self._woken.set()

    def withdraw(self, processor_id: str) -> None:
        """Remove the entry, if this client has made it."""
        with self._keeping:
            if self._announced.pop(processor_id, None) is not None and self._owner(processor_id) in self._sessions:
                self._connection.ask([partial(_delete, path=self._path(processor_id))])

    def all(self) -> dict[str, str]:
        """Every processor id with its location."""
        asked: list[Callable[[Any], Any]] = [
            lambda client: client.sync_async(self._directory),
            lambda client: client.get_children_async(self._directory),
        ]
        names = self._connection.ask(asked)[1]
        found = {} if isinstance(names, ZookeeperError) else {name: _id_of(name) for name in names}
        ids = {name: id for name, id in found.items() if id is not None}
        answers = self._connection.ask([partial(_get, path=f"{self._directory}/{name}") for name in ids])
        return {
            id: answer[0].decode("utf-8", "replace")
            for id, answer in zip(ids.values(), answers, strict=True)
            if not isinstance(answer, ZookeeperError)
        }

    def watch(self, watcher: Callable[[], None]) -> Cancel:
        """Watch the directory: one watch for all processors."""
        self._connection.create_missing([self._directory], self._connection.new_deadline())
        watch = NodeWatch(self._connection, self._directory, watcher, self._report)
        self._watches.append(watch)
        return watch.stop

    def close(self) -> None:
        """Remove this client's entries; without a connection, the end of the session removes them."""
        self._stop_listening()
        self._stopped.set()
        self._woken.set()
        for watch in self._watches:
            watch.stop()
        try:
            for processor_id in list(self._announced):
                self.withdraw(processor_id)
        except MetadataStoreError as error:
            self._report(f"processors could not be withdrawn; their session's end will do it: {error}")

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._woken.wait()
            self._woken.clear()
            if not self._keep_all():  # no connection, or an entry of another client
                self._stopped.wait(_RETRY_SECONDS)
                self._woken.set()

    def _keep_all(self) -> bool:
        try:
            with self._keeping:
                kept = [self._is_kept(id, location) for id, location in self._announced.items()]
            return all(kept)
        except MetadataStoreError as error:
            if not self._stopped.is_set():
                self._report(f"processors are not announced for now: {error}")
            return False

    def _is_kept(self, processor_id: str, location_id: str) -> bool:
        """Make the entry if it is missing, or of this client's earlier session. False when it must be tried again."""
        deadline = self._connection.new_deadline()
        make = partial(_make, path=self._path(processor_id), location=location_id.encode("utf-8"))
        (made,) = self._connection.ask([make], deadline)
        session = self._connection.session
        if session is not None:
            self._sessions.add(session)
        if not isinstance(made, ZookeeperError):
            return True
        if not isinstance(made, NodeExistsError):
            self._connection.create_missing([self._directory], deadline)
            return False
        owner = self._owner(processor_id)
        if owner in self._sessions and owner != session:
            self._connection.ask([partial(_delete, path=self._path(processor_id))], deadline)
            return False
        return owner == session

    def _owner(self, processor_id: str) -> int | None:
        path = self._path(processor_id)
        (stat,) = self._connection.ask([lambda client: client.exists_async(path)])
        return None if stat is None else int(stat.ephemeralOwner)

    def _path(self, processor_id: str) -> str:
        return f"{self._directory}/{_PREFIX}{node_name(processor_id)}"

    def _on_session(self, connected: bool) -> None:
        """Wake the thread when there is a connection. Called on kazoo's thread."""
        if connected:
            self._woken.set()


def _id_of(name: str) -> str | None:
    return text_of(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None


def _make(client: Any, path: str, location: bytes) -> Any:
    return client.create_async(path, location, ephemeral=True)


def _get(client: Any, path: str) -> Any:
    return client.get_async(path)


def _delete(client: Any, path: str) -> Any:
    return client.delete_async(path)
