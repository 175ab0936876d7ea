"""A log of writes, as nodes. It has two uses.

Each write creates the node `=writes/<token>-<number>` in the same transaction that changes the values. The node's data
are the keys, as a JSON array. ZooKeeper gives the number, which only grows. The newest 500 nodes are kept.

- Watchers learn from it which keys changed. One watch on the directory is enough for any number of keys. After a lost
  connection a watcher reads the notes that came after the last number that it saw.
- A writer that got no answer looks here for its own token, and so learns whether its write was done.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from kazoo.exceptions import ZookeeperError

from mooring.errors import MetadataStoreError
from mooring.metadata.zookeeper.connection import RetryDeadline, ZkConnection
from mooring.metadata.zookeeper.nodes import CHANGES

KEPT = 500
_PRUNED_EVERY = 50
_NUMBER_DIGITS = 10


@dataclass(frozen=True)
class Write:
    """One node of the log."""

    number: int
    name: str


class ChangeLog:
    """The log of one directory `base`."""

    def __init__(self, connection: ZkConnection, base: str) -> None:
        self._connection = connection
        self.directory = f"{base}/{CHANGES}"

    @staticmethod
    def new_token() -> str:
        """A text of 32 hexadecimal digits by which a writer finds its own note."""
        return uuid.uuid4().hex

    def add(self, transaction: Any, token: str, keys: Iterable[str]) -> None:
        """Put the note into a transaction that changes values."""
        data = json.dumps(sorted(keys), ensure_ascii=False).encode("utf-8")
        transaction.create(f"{self.directory}/{token}-", data, sequence=True)

    def writes_so_far(self, deadline: RetryDeadline) -> int:
        """A number that grows with every write (the directory's `cversion`), 0 before the first; for `was_done`."""
        (stat,) = self._connection.ask([lambda client: client.exists_async(self.directory)], deadline)
        return 0 if stat is None else int(stat.cversion)

    def was_done(self, token: str, writes_before: int, deadline: RetryDeadline) -> bool | None:
        """Whether the write with this token was done. It was sent after `writes_so_far` had returned `writes_before`.

        None where so many writes came since that the note may have been pruned.
        """
        requests = [
            lambda client: client.sync_async(self.directory),
            lambda client: client.get_children_async(self.directory, include_data=True),
        ]
        answer = self._connection.ask(requests, deadline)[1]
        if isinstance(answer, ZookeeperError):
            return False
        names, stat = answer
        if any(name.startswith(token) for name in names):
            return True
        return False if int(stat.cversion) - writes_before < KEPT else None

    def prune_after(self, created: str) -> None:
        """After every fiftieth write, remove all notes but the newest 500; `created` is the path of the last note."""
        if parse(created.rpartition("/")[2]).number % _PRUNED_EVERY == 0:
            with suppress(MetadataStoreError):  # a later write prunes then
                deadline = self._connection.new_deadline()
                (names,) = self._connection.ask([lambda client: client.get_children_async(self.directory)], deadline)
                old = in_order(() if isinstance(names, ZookeeperError) else names)[:-KEPT]
                self._connection.ask(
                    [partial(_delete, path=f"{self.directory}/{write.name}") for write in old], deadline
                )

    def keys_of(self, writes: Sequence[Write], deadline: RetryDeadline) -> frozenset[str] | None:
        """The keys of these writes; None when one of the notes has been pruned meanwhile."""
        asked = [partial(_get, path=f"{self.directory}/{write.name}") for write in writes]
        keys: set[str] = set()
        for answer in self._connection.ask(asked, deadline):
            if isinstance(answer, ZookeeperError):
                return None
            keys.update(json.loads(answer[0]))
        return frozenset(keys)


def in_order(names: Iterable[str]) -> list[Write]:
    """The writes with these node names, oldest first."""
    return sorted(map(parse, names), key=lambda write: write.number)


def parse(name: str) -> Write:
    """The write with this node name; the number is -1, older than all, for a node that is not from Mooring."""
    digits = name[-_NUMBER_DIGITS:]
    return Write(int(digits) if digits.isdecimal() else -1, name)


def _get(client: Any, path: str) -> Any:
    return client.get_async(path)


def _delete(client: Any, path: str) -> Any:
    return client.delete_async(path)
