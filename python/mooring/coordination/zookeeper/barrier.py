"""Barriers in ZooKeeper: the data of `barriers/<version>` is the state, its children are the joined participants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, ZookeeperError

from mooring.coordination.barrier import Barriers, BarrierState
from mooring.coordination.job_models import to_remove
from mooring.coordination.leadership import Leadership
from mooring.coordination.zookeeper.term import guards_of, lost
from mooring.coordination.zookeeper.watching import NodeWatch
from mooring.errors import MetadataStoreError
from mooring.metadata.store import Cancel, Report, report_to_log
from mooring.metadata.zookeeper.commit import Guard
from mooring.metadata.zookeeper.connection import NoAnswer, ZkConnection
from mooring.metadata.zookeeper.nodes import node_name, text_of

_NEVER_CHANGED = 0


class ZkBarriers(Barriers):
    """The barriers of one application. A state is overwritten once only, so a NEW barrier has version 0 of its node."""

    def __init__(self, connection: ZkConnection, root: str, report: Report = report_to_log) -> None:
        """The caller closes the connection."""
        self._connection, self._report = connection, report
        self._directory = f"{root}/barriers"
        self._watches: list[NodeWatch] = []

    def open(self, version: int, leadership: Leadership) -> None:
        """Make the node, and remove barriers older than the newest ten. See `Barriers.open`."""
        self._connection.create_missing([self._directory], self._connection.new_deadline())
        make = partial(_make, path=self._path(version), data=BarrierState.NEW.value.encode())
        refused = self._guarded(guards_of(leadership), make, leadership)
        if isinstance(refused, NodeExistsError):
            raise MetadataStoreError(f"barrier {version} is there already in {self._connection.place}")
        for old in to_remove(self.versions()):
            self._remove(old)

    def join(self, version: int, participant: str) -> bool:
        """Make a child of the node, in a transaction that needs the state NEW. See `Barriers.join`."""
        path = self._path(version)
        request = partial(
            _transaction,
            guards=[Guard(path, _NEVER_CHANGED)],
            add=partial(_make, path=f"{path}/{node_name(participant)}", data=participant.encode("utf-8")),
        )
        (answers,) = self._connection.ask([request])
        return isinstance(answers[0], bool) or isinstance(answers[1], NodeExistsError)

    def joined(self, version: int) -> frozenset[str]:
        """The participants, from the names of the children. A long name is in the child's data."""
        names = self._children(self._path(version))
        texts = {name: text_of(name) for name in names}
        long = [name for name, text in texts.items() if text is None]
        answers = self._connection.ask([partial(_get, path=f"{self._path(version)}/{name}") for name in long])
        read = {answer[0].decode("utf-8") for answer in answers if not isinstance(answer, ZookeeperError)}
        return frozenset(text for text in texts.values() if text is not None) | read

    def state(self, version: int) -> BarrierState | None:
        """The state in the node's data; None when there is no node."""
        path = self._path(version)
        asked: list[Callable[[Any], Any]] = [
            lambda client: client.sync_async(path),
            lambda client: client.get_async(path),
        ]
        found = self._connection.ask(asked)[1]
        return None if isinstance(found, ZookeeperError) else BarrierState(found[0].decode("utf-8"))

    def end(self, version: int, state: BarrierState, leadership: Leadership) -> BarrierState:
        """Replace NEW by the state. See `Barriers.end`."""
        change = partial(_set, path=self._path(version), data=state.value.encode(), version=_NEVER_CHANGED)
        refused = self._guarded(guards_of(leadership), change, leadership)
        if isinstance(refused, NoNodeError):
            raise MetadataStoreError(f"barrier {version} is not there in {self._connection.place}")
        now = self.state(version)
        if now is None:
            raise MetadataStoreError(f"barrier {version} was removed from {self._connection.place}")
        return now

    def watch(self, version: int, watcher: Callable[[], None]) -> Cancel:
        """Watch the node and its children."""
        watch = NodeWatch(self._connection, self._path(version), watcher, self._report)
        self._watches.append(watch)
        return watch.stop

    def close(self) -> None:
        """End the watches."""
        for watch in self._watches:
            watch.stop()

    def _guarded(self, guards: Sequence[Guard], change: Callable[[Any], None], leadership: Leadership) -> Any:
        """Make one change in a leader's term; returns the error of ZooKeeper, or None. LeadershipLost after the term.

        If the request was sent again and the node exists, then the first request made it: only this leader makes it.
        """
        deadline, request = self._connection.new_deadline(), partial(_transaction, guards=guards, add=change)
        sent_before = False
        while True:
            try:
                (answers,) = self._connection.attempt([request], deadline)
                break
            except NoAnswer as interruption:
                sent_before = True
                self._connection.pause(deadline, interruption)
        if any(isinstance(answer, (NoNodeError, BadVersionError)) for answer in answers[: len(guards)]):
            raise lost(leadership)
        refused = answers[-1] if isinstance(answers[-1], ZookeeperError) else None
        return None if sent_before and isinstance(refused, NodeExistsError) else refused

    def versions(self) -> list[int]:
        """The versions of the barriers that are kept, from the names of the nodes, oldest first."""
        return sorted(int(name) for name in self._children(self._directory) if name.isdecimal())

    def _children(self, path: str) -> list[str]:
        asked: list[Callable[[Any], Any]] = [
            lambda client: client.sync_async(path),
            lambda client: client.get_children_async(path),
        ]
        names = self._connection.ask(asked)[1]
        return [] if isinstance(names, ZookeeperError) else list(names)

    def _remove(self, version: int) -> None:
        path = self._path(version)
        children = [f"{path}/{name}" for name in self._children(path)]
        self._connection.ask([partial(_delete, path=child) for child in children])
        self._connection.ask([partial(_delete, path=path)])

    def _path(self, version: int) -> str:
        return f"{self._directory}/{version}"


def _transaction(client: Any, guards: Sequence[Guard], add: Callable[[Any], None]) -> Any:
    transaction = client.transaction()
    for guard in guards:
        transaction.check(guard.path, guard.version)
    add(transaction)
    return transaction.commit_async()


def _make(transaction: Any, path: str, data: bytes) -> None:
    transaction.create(path, data)


def _set(transaction: Any, path: str, data: bytes, version: int) -> None:
    transaction.set_data(path, data, version)


def _get(client: Any, path: str) -> Any:
    return client.get_async(path)


def _delete(client: Any, path: str) -> Any:
    return client.delete_async(path)
