"""Values that are larger than a node may be: written part by part, each value under a generation of its own.

The nodes of one generation:

    =generations/<id>           its data is the path of the value's node
    =generations/<id>/writer    ephemeral: exists while the parts are being written
    =generations/<id>/0, 1, ... the parts

The writes, in this order:

1. One transaction creates the generation and its `writer` node. ZooKeeper removes `writer` when the session of the
   client that created it ends.
2. The parts are created.
3. One transaction (`commit.Commit`) sets the value's node to point to the generation, and deletes `writer`. From then
   on readers see the new value. Before, they see the old one as a whole: its parts are not touched.
4. The client deletes the generation that the value's node pointed to before.

What a crash leaves, and what cleans it up:

- After step 1 or 2: a generation to which no node points. ZooKeeper removes `writer` when the session expires. From
  then on no transaction can let a node point to the generation, because step 3 deletes `writer` and fails where it is
  missing. This also stops a client that was suspended longer than its session: it gets StagedPartsLost, and writes the
  parts again under a new generation.
- After step 3: the old generation. No node points to it.

In both cases the generation has no `writer`, and its value's node does not point to it. Each client that writes a large
value removes such generations afterwards (`Generations.sweep`). A reader that reads parts while they are removed finds
one of them missing, and reads the value's node again.
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

PART_BYTES = 64 * 1024
"""The most bytes of a part. A server's limit is 1 MB, but it keeps the last 500 writes in memory, twice.

Measured with a heap of 128 MB, while 3 MB were written again and again: parts of 128 KiB filled 96 % of the heap's old
generation, parts of 64 KiB filled 47 %.
"""

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
        """The path of the node that exists while the generation is being written."""
        return f"{self._directory}/{generation}/{_WRITER}"

    def stage(self, relative: str, value: bytes, deadline: RetryDeadline) -> Split:
        """Steps 1 and 2: write all parts of a value for the node at `relative`. No reader sees them before step 3."""
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
        """Whether the `writer` node exists: then the session of the client that writes the parts is alive."""
        writer = self.writer_of(generation)
        return self._connection.ask([lambda client: client.exists_async(writer)], deadline)[0] is not None

    def read(self, split: Split, deadline: RetryDeadline) -> bytes | None:
        """The value of these parts.

        None when a part is missing: the value's node points to another generation by now. DamagedRecord when length or
        checksum do not match.
        """
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
        """Remove generations to which no node points. Where that fails, a later `sweep` removes them."""
        for generation in generations:
            with suppress(MetadataStoreError):
                self._remove(f"{self._directory}/{generation}")

    def sweep(self) -> None:
        """Remove all generations that have neither a `writer` node nor a value's node that points to them."""
        with suppress(MetadataStoreError):  # the sweep is not needed for correctness; writes raise their own errors
            deadline = self._connection.new_deadline()
            (names,) = self._connection.ask([lambda client: client.get_children_async(self._directory)], deadline)
            if not isinstance(names, ZookeeperError):
                self.remove([name for name in names if self._is_garbage(name, deadline)])

    def _write(self, generation: str, relative: str, pieces: list[bytes], deadline: RetryDeadline) -> bool:
        """Write all parts; False where the directory of generations was missing, or the session ended meanwhile."""
        at = f"{self._directory}/{generation}"

        def create_generation(client: Any) -> Any:
            transaction = client.transaction()
            transaction.create(at, relative.encode("utf-8"))
            transaction.create(f"{at}/{_WRITER}", ephemeral=True)
            return transaction.commit_async()

        (created,) = self._connection.attempt([create_generation], deadline)
        if any(isinstance(answer, ZookeeperError) for answer in created):
            self._connection.create_missing([self._directory], deadline)
            return False
        writes = [partial(_create, path=f"{at}/{number}", data=piece) for number, piece in enumerate(pieces)]
        written = self._connection.attempt(writes, deadline, _WRITE_WINDOW)
        return not any(isinstance(answer, ZookeeperError) for answer in written)

    def _is_garbage(self, generation: str, deadline: RetryDeadline) -> bool:
        # `writer` is read first. Where it is missing, step 3 has been done or can never be done, so the value's node,
        # which is read after it, tells for good whether the generation is in use.
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
        return True  # it may point to this generation, so this generation must stay
    return isinstance(content, Split) and content.generation == generation


def _get(client: Any, path: str) -> Any:
    return client.get_async(path)


def _create(client: Any, path: str, data: bytes) -> Any:
    return client.create_async(path, data)


def _delete(client: Any, path: str) -> Any:
    return client.delete_async(path)
