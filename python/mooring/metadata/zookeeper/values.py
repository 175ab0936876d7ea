"""Values of any size at the nodes below one directory: read as a whole, and replaced by one transaction.

A value that fits into a node is the node's data. The parts of a larger one are written first (`parts`, steps 1 and 2).
Then one transaction writes the nodes of the values (`commit`). Afterwards the parts that it replaced are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from kazoo.exceptions import ZookeeperError

from mooring.errors import MetadataStoreError, OutcomeUnknown
from mooring.metadata.envelope import DamagedRecord
from mooring.metadata.store import Report
from mooring.metadata.zookeeper.changes import ChangeLog
from mooring.metadata.zookeeper.commit import AlreadyThere, Batch, Change, Commit, Guard, GuardFailed, StagedPartsLost
from mooring.metadata.zookeeper.connection import RetryDeadline, ZkConnection
from mooring.metadata.zookeeper.nodes import Head, Split, unpack
from mooring.metadata.zookeeper.parts import PART_BYTES, Generations

_BATCH_COUNT = 50
_BATCH_BYTES = 128 * 1024


class ZkValues:
    """The values below `base`. Any number of processes may write them; the later of two writes of one value wins."""

    def __init__(self, connection: ZkConnection, base: str, report: Report, part_bytes: int = PART_BYTES) -> None:
        self._connection = connection
        self._base = base
        self._report = report
        self._part_bytes = part_bytes
        self._reported: set[str] = set()
        self._generations = Generations(connection, base, part_bytes)
        self.log = ChangeLog(connection, base)

    def read(self, paths: Sequence[str]) -> dict[str, tuple[bytes, str | None]]:
        """For each path that has a value: the value, and the key where the node holds the key (else None).

        A value is that of the time of the call, or a later one. A damaged value is left out and reported.
        A value whose parts are missing is read again, as it may have been replaced meanwhile. It is damaged when the
        node is still the same at the second read.
        """
        deadline = self._connection.new_deadline()
        found: dict[str, tuple[bytes, str | None]] = {}
        read_without_parts: dict[str, int] = {}  # path -> the transaction that had written the node
        to_read = list(paths)
        while to_read:
            heads = self._heads(to_read, deadline)
            to_read = []
            for path, (head, written) in heads.items():
                value = self._value(path, head, deadline)
                if value is not None:
                    found[path] = (value, head.key)
                    self._reported.discard(path)
                elif read_without_parts.get(path) == written:
                    self._report_once(path, "a part of its value is missing")
                elif path not in self._reported:
                    read_without_parts[path] = written
                    to_read.append(path)
        return found

    def children(self, relative: str = "") -> list[str]:
        """The names of the nodes below a directory, as they are now; empty when there is no such directory."""
        at = f"{self._base}/{relative}".rstrip("/")
        asked = [lambda client: client.sync_async(at), lambda client: client.get_children_async(at)]
        names = self._connection.ask(asked)[1]
        return [] if isinstance(names, ZookeeperError) else list(names)

    def write(self, changes: Iterable[Change], guards: Sequence[Guard] = ()) -> None:
        """Make the changes in their order, in as few transactions as they fit into.

        The errors are about one transaction; those before it are done. MetadataStoreUnavailable, GuardFailed and
        AlreadyThere: it wrote nothing. OutcomeUnknown: it may have been done or not.
        """
        for batch in _batches(changes, self._part_bytes):
            self._write_batch(batch, tuple(guards))

    def _write_batch(self, changes: tuple[Change, ...], guards: tuple[Guard, ...]) -> None:
        deadline = self._connection.new_deadline()
        while True:
            staged = self._stage(changes, deadline)
            writers = tuple(self._generations.writer_of(split.generation) for split in staged.values())
            batch = Batch(changes, guards, staged, writers)
            try:
                replaced = Commit(self._connection, self._base, self.log, batch, deadline).run()
            except StagedPartsLost:
                self._generations.remove(split.generation for split in staged.values())
            except OutcomeUnknown:  # a node may point to the staged parts, so they must stay
                raise
            except (MetadataStoreError, GuardFailed, AlreadyThere):
                self._generations.remove(split.generation for split in staged.values())
                raise
            else:
                self._generations.remove(replaced)
                if staged:
                    self._generations.sweep()
                return

    def _stage(self, changes: Iterable[Change], deadline: RetryDeadline) -> dict[str, Split]:
        return {
            change.path: self._generations.stage(change.path, change.value, deadline)
            for change in changes
            if change.value is not None and len(change.value) > self._part_bytes
        }

    def _heads(self, paths: Sequence[str], deadline: RetryDeadline) -> dict[str, tuple[Head, int]]:
        """For each path that exists: the node's content, and the number of the transaction that wrote the node."""
        asked: list[Any] = [lambda client: client.sync_async(self._base)]
        asked += [partial(_get, path=f"{self._base}/{path}") for path in paths]
        found = {}
        for path, answer in zip(paths, self._connection.ask(asked, deadline)[1:], strict=True):
            if isinstance(answer, ZookeeperError):
                continue
            try:
                found[path] = (unpack(answer[0]), int(answer[1].mzxid))
            except DamagedRecord as damage:
                self._report_once(path, str(damage))
        return found

    def _value(self, path: str, head: Head, deadline: RetryDeadline) -> bytes | None:
        """The value; None when a part is missing, or when the parts are damaged, which is reported."""
        if isinstance(head.content, bytes):
            return head.content
        try:
            return self._generations.read(head.content, deadline)
        except DamagedRecord as damage:
            self._report_once(path, str(damage))
            return None

    def _report_once(self, path: str, why: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            self._report(f"{path} in {self._connection.place} is ignored: {why}")


def _batches(changes: Iterable[Change], part_bytes: int) -> Iterator[tuple[Change, ...]]:
    """The changes in their order, in groups for one transaction each, far below the size that a server accepts.

    A large value is the last one of its group, so at most one set of parts is staged at a time.
    """
    batch: list[Change] = []
    room = _BATCH_BYTES
    for change in changes:
        size = len(change.value or b"")
        needed = 3 * len(change.key.encode("utf-8")) + min(size, part_bytes)
        if batch and (len(batch) == _BATCH_COUNT or needed > room):
            yield tuple(batch)
            batch, room = [], _BATCH_BYTES
        batch.append(change)
        room -= needed
        if size > part_bytes:
            yield tuple(batch)
            batch, room = [], _BATCH_BYTES
    if batch:
        yield tuple(batch)


def _get(client: Any, path: str) -> Any:
    return client.get_async(path)
