"""Values that are larger than a node may be: written part by part under a generation of their own.

A generation is `=generations/<id>`, its data says which value it is for, its children are the parts. While it is being
written it has one more child, `writer`, which ZooKeeper removes when the writer's session ends. One transaction lets
the value's node point to the generation and removes `writer`. So a generation that has no writer, and that its value
does not point to, will never be pointed to: it is removed. A writer that was asleep past the end of its session finds
its `writer` gone, and that transaction fails.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import NoNodeError, ZookeeperError

from mooring.errors import MetadataStoreError
from mooring.metadata.envelope import DamagedRecord
from mooring.metadata.zookeeper.connection import NoAnswer, RetryDeadline, ZkConnection
from mooring.metadata.zookeeper.nodes import GENERATIONS, Split, unpack

# Far below a server's limit of 1 MB: it keeps the last 500 writes in memory, twice, besides the values themselves. Seen
# with a heap of 128 MB while 3 MB were written over and over: 96 % of the old generation in use with parts of 128 KiB,
# 47 % with these.
PART_BYTES = 64 * 1024
_WRITE_WINDOW = 16
_READ_WINDOW = 32
_WRITER = "writer"


class Generations:
    """The large values of one directory `base`."""

    def __init__(self, connection: ZkConnection, base: str, part_bytes: int) -> None:
        self._connection = connection
        self._base = base
        self._directory = f"{base}/{GENERATIONS}"
        self._part_bytes = part_bytes

    def writer_of(self, generation: str) -> str:
        """The node that is there as long as the generation is being written: to be removed with the switch."""
        return f"{self._directory}/{generation}/{_WRITER}"

    def stage(self, relative: str, value: bytes, deadline: RetryDeadline) -> Split:
        """Write all parts of a value for the node `relative`. Nobody sees them before the switch."""
        pieces = [value[start : start + self._part_bytes] for start in range(0, len(value), self._part_bytes)]
        while True:
            generation = uuid.uuid4().hex
            try:
                if self._write(generation, relative, pieces, deadline):
                    return Split(generation, len(pieces), len(value), hashlib.sha256(value).hexdigest())
            except NoAnswer as no_answer:
                self._connection.pause(deadline, no_answer)
            self.remove([generation])

    def is_being_written(self, generation: str, deadline: RetryDeadline) -> bool:
        """Whether its writer's session lives."""
        writer = self.writer_of(generation)
        return self._connection.ask([lambda client: client.exists_async(writer)], deadline)[0] is not None

    def read(self, split: Split, deadline: RetryDeadline) -> bytes | None:
        """The value; None when a part is gone: the node points elsewhere by now. DamagedRecord when it is wrong."""
        at = f"{self._directory}/{split.generation}"
        asked = [partial(_get, path=f"{at}/{number}") for number in range(split.count)]
        pieces: list[bytes] = []
        for answer in self._connection.ask(asked, deadline, _READ_WINDOW):
            if isinstance(answer, ZookeeperError):
                return None
            pieces.append(answer[0])
        value = b"".join(pieces)
        if len(value) != split.size or hashlib.sha256(value).hexdigest() != split.sha256:
            raise DamagedRecord("its parts are not what was written")
        return value

    def remove(self, generations: Iterable[str]) -> None:
        """Remove generations that nothing points to. What cannot be removed now is left to the next `sweep`."""
        for generation in generations:
            with suppress(MetadataStoreError):
                self._remove(f"{self._directory}/{generation}")

    def sweep(self) -> None:
        """Remove what writers that died have left. A generation that is being written, or in use, is not touched."""
        with suppress(MetadataStoreError):  # a courtesy; the writes themselves say what is wrong
            deadline = self._connection.new_deadline()
            (names,) = self._connection.ask([lambda client: client.get_children_async(self._directory)], deadline)
            if not isinstance(names, ZookeeperError):
                self.remove([name for name in names if self._is_garbage(name, deadline)])

    def _write(self, generation: str, relative: str, pieces: list[bytes], deadline: RetryDeadline) -> bool:
        """Whether all parts are there; not when the directory was missing, or the session ended meanwhile."""
        at = f"{self._directory}/{generation}"

        def begin(client: Any) -> Any:
            transaction = client.transaction()
            transaction.create(at, relative.encode("utf-8"))
            transaction.create(f"{at}/{_WRITER}", ephemeral=True)
            return transaction.commit_async()

        (begun,) = self._connection.attempt([begin], deadline)
        if any(isinstance(answer, ZookeeperError) for answer in begun):
            self._connection.create_missing([self._directory], deadline)
            return False
        writes = [partial(_create, path=f"{at}/{number}", data=piece) for number, piece in enumerate(pieces)]
        written = self._connection.attempt(writes, deadline, _WRITE_WINDOW)
        return not any(isinstance(answer, ZookeeperError) for answer in written)

    def _is_garbage(self, generation: str, deadline: RetryDeadline) -> bool:
        # In this order: a writer that is gone has switched already, or never will.
        if self.is_being_written(generation, deadline):
            return False
        at = f"{self._directory}/{generation}"
        (owner,) = self._connection.ask([partial(_get, path=at)], deadline)
        if isinstance(owner, ZookeeperError):
            return False
        relative = owner[0].decode("utf-8", "replace")
        (head,) = self._connection.ask([partial(_get, path=f"{self._base}/{relative}")], deadline)
        return isinstance(head, NoNodeError) or (not isinstance(head, ZookeeperError) and not _points(head, generation))

    def _remove(self, at: str) -> None:
        deadline = self._connection.new_deadline()
        (names,) = self._connection.ask([lambda client: client.get_children_async(at)], deadline)
        if not isinstance(names, ZookeeperError):
            paths = [f"{at}/{name}" for name in names]
            self._connection.ask([partial(_delete, path=path) for path in paths], deadline)
            self._connection.ask([partial(_delete, path=at)], deadline)


def _points(head: tuple[bytes, object], generation: str) -> bool:
    try:
        content = unpack(head[0]).content
    except DamagedRecord:
        return True  # not understood, so not touched
    return isinstance(content, Split) and content.generation == generation


def _get(client: Any, path: str) -> Any:
    return client.get_async(path)


def _create(client: Any, path: str, data: bytes) -> Any:
    return client.create_async(path, data)


def _delete(client: Any, path: str) -> Any:
    return client.delete_async(path)
