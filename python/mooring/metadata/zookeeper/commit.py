"""One ZooKeeper transaction (a multi) that changes several values, and that happens once, however often it is sent.

The steps of `Commit.run`:

1. Read. One request reads how many writes the log has seen (`ChangeLog.writes_so_far`). Then the nodes of all changes
   are read with their versions.
2. Send one transaction. ZooKeeper does all of its operations or none of them:
   - the guards: each named node must exist, and have the version that is named. So a driver that leads no longer writes
     nothing (fencing). Otherwise GuardFailed.
   - for each large value, delete the `writer` node of its parts (see `parts`). If the node is gone, this client's
     session has expired, and others may have removed the parts. Then StagedPartsLost.
   - the changes: create, set or delete each node, on condition that it still has the version of step 1.
   - a note in the log of writes. The note's name begins with a token that belongs to this commit alone.
3. Read the answer.
   - All operations were done: the commit is over.
   - An operation was refused, so nothing was written. Where another client wrote first, or a parent directory was
     missing (it is created now), the commit begins again at step 1.
   - No answer came, so the transaction may have been done or not. The commit looks for its token in the log. If it is
     there, the transaction was done, and the commit is over. If not, the commit begins again at step 1. The log keeps
     the newest 500 notes, so after more than 500 later writes nobody can tell: OutcomeUnknown.

What a crash leaves: before step 2, nothing of this commit, but perhaps parts that a later `Generations.sweep` removes.
After step 2, the complete change; the parts of the replaced values are removed by a later sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kazoo.exceptions import NoNodeError, RolledBackError, RuntimeInconsistency, ZookeeperError

from mooring.errors import MetadataStoreError, OutcomeUnknown
from mooring.metadata.envelope import DamagedRecord
from mooring.metadata.zookeeper.changes import ChangeLog
from mooring.metadata.zookeeper.connection import NoAnswer, RetryDeadline, ZkConnection
from mooring.metadata.zookeeper.nodes import Split, pack_parts, pack_whole, unpack


@dataclass(frozen=True)
class Change:
    """A new value for the node at `path` (below the base directory), or None to remove the node.

    `key` goes to the watchers. `spelt` is true where `key_of_path(path)` returns the same key; otherwise the node holds
    the key. With `must_be_new`, the whole write fails with AlreadyThere if the node exists.
    """

    path: str
    value: bytes | None
    key: str
    spelt: bool = True
    must_be_new: bool = False

    @property
    def stored_key(self) -> str | None:
        """The key, where the node has to hold it; otherwise None."""
        return None if self.spelt else self.key


@dataclass(frozen=True)
class Guard:
    """A condition of a write: the node at this absolute path exists and has this version; -1 stands for any version."""

    path: str
    version: int = -1


@dataclass(frozen=True)
class Batch:
    """The content of one transaction.

    `staged` maps the path of a large value to its parts. `writers` are the absolute paths of their `writer` nodes.
    """

    changes: tuple[Change, ...]
    guards: tuple[Guard, ...]
    staged: Mapping[str, Split]
    writers: tuple[str, ...]


class GuardFailed(Exception):
    """A guard did not hold; nothing was written. The code that set the guard catches this."""


class AlreadyThere(Exception):
    """A node of a change with `must_be_new` exists; nothing was written. The code that asked for it catches this."""


class StagedPartsLost(Exception):
    """The client's session expired while it wrote parts; others may have removed the parts. Nothing was written."""


class Commit:
    """The transaction of one batch; see the module's docstring for its steps."""

    def __init__(
        self, connection: ZkConnection, base: str, log: ChangeLog, batch: Batch, deadline: RetryDeadline
    ) -> None:
        self._connection, self._base, self._log, self._batch, self._deadline = connection, base, log, batch, deadline
        self._token = log.new_token()
        self._writes_before = 0
        self._current: dict[str, tuple[bytes, Any]] = {}  # path -> the node's data and stat, as step 1 read them
        self._is_unanswered = False

    def run(self) -> list[str]:
        """Make the changes, and return the generations of the values that were replaced: no node points to them now.

        MetadataStoreUnavailable: nothing was written. OutcomeUnknown: the changes may have been written or not.
        """
        while True:
            if self._is_unanswered and self._was_committed():
                return self._replaced_generations()
            self._read_current()
            operations = self._operations()
            if not self._batch.guards and not any(operation.changes_value for operation in operations):
                return []
            try:
                (answers,) = self._connection.attempt([partial(_commit, operations=operations)], self._deadline)
            except NoAnswer as no_answer:
                self._is_unanswered = True
                self._pause(no_answer)
                continue
            if not any(isinstance(answer, ZookeeperError) for answer in answers):
                self._log.prune_after(answers[-1])
                return self._replaced_generations()
            self._handle_refusal(operations, answers)

    def _was_committed(self) -> bool:
        try:
            done = self._log.was_done(self._token, self._writes_before, self._deadline)
        except MetadataStoreError as error:
            raise _unknown(error) from error
        if done is None:
            raise OutcomeUnknown(f"{self._connection.place}: a write was not answered, and too many others came after")
        self._is_unanswered = False
        return done

    def _pause(self, no_answer: NoAnswer) -> None:
        try:
            self._connection.pause(self._deadline, no_answer)
        except MetadataStoreError as error:
            raise _unknown(error) from error

    def _read_current(self) -> None:
        """Step 1. The number of writes is read before the transaction is sent, so that `was_done` can count from it."""
        self._writes_before = self._log.writes_so_far(self._deadline)
        paths = [change.path for change in self._batch.changes]
        asked = [partial(_get, path=f"{self._base}/{path}") for path in paths]
        answers = zip(paths, self._connection.ask(asked, self._deadline), strict=True)
        self._current = {path: answer for path, answer in answers if not isinstance(answer, ZookeeperError)}
        for change in self._batch.changes:
            if change.must_be_new and change.path in self._current:
                raise AlreadyThere(change.path)

    def _operations(self) -> list[_Operation]:
        batch = self._batch
        guards = [_Operation(partial(_check, guard=guard), GuardFailed) for guard in batch.guards]
        writers = [_Operation(partial(_delete, at=writer, version=-1), StagedPartsLost) for writer in batch.writers]
        changes = [operation for change in batch.changes if (operation := self._operation_of(change)) is not None]
        keys = [change.key for change in batch.changes]
        note = _Operation(partial(self._log.add, token=self._token, keys=keys), creates=f"{self._log.directory}/note")
        return [*guards, *writers, *changes, note]

    def _operation_of(self, change: Change) -> _Operation | None:
        """The operation that makes one change; None where a node is to be removed that does not exist."""
        at, current = f"{self._base}/{change.path}", self._current.get(change.path)
        version = -1 if current is None else current[1].version
        if change.value is None:
            delete = partial(_delete, at=at, version=version)
            return None if current is None else _Operation(delete, changes_value=True)
        split = self._batch.staged.get(change.path)
        data = pack_parts(split, change.stored_key) if split else pack_whole(change.value, change.stored_key)
        if current is None:
            return _Operation(partial(_create, at=at, data=data), changes_value=True, creates=at)
        return _Operation(partial(_set, at=at, data=data, version=version), changes_value=True)

    def _handle_refusal(self, operations: list[_Operation], answers: list[Any]) -> None:
        """Raise where another try would be refused too; create the parent directories where one of them is missing.

        In all other cases another client wrote first, and `run` reads again what is there.
        """
        for operation, answer in zip(operations, answers, strict=True):
            if not isinstance(answer, ZookeeperError) or isinstance(answer, (RolledBackError, RuntimeInconsistency)):
                continue
            if operation.failure is not None:
                raise operation.failure
            if operation.creates and isinstance(answer, NoNodeError):
                parents = {each.creates.rpartition("/")[0] for each in operations if each.creates}
                self._connection.create_missing(sorted(parents), self._deadline)

    def _replaced_generations(self) -> list[str]:
        found = []
        for data, _ in self._current.values():
            try:
                content = unpack(data).content
            except DamagedRecord:  # it names no generation that could be found
                continue
            if isinstance(content, Split):
                found.append(content.generation)
        return found


@dataclass(frozen=True)
class _Operation:
    """One operation of the transaction.

    `failure` is raised when ZooKeeper refuses this operation. `creates` is the path of the node that it creates.
    """

    add_to: Callable[[Any], None]
    failure: type[Exception] | None = None
    changes_value: bool = False
    creates: str = ""


def _unknown(error: MetadataStoreError) -> OutcomeUnknown:
    return OutcomeUnknown(f"a write was sent and no answer came: read it back. {error}")


def _commit(client: Any, operations: list[_Operation]) -> Any:
    transaction = client.transaction()
    for operation in operations:
        operation.add_to(transaction)
    return transaction.commit_async()


def _check(transaction: Any, guard: Guard) -> None:
    transaction.check(guard.path, guard.version)


def _create(transaction: Any, at: str, data: bytes) -> None:
    transaction.create(at, data)


def _set(transaction: Any, at: str, data: bytes, version: int) -> None:
    transaction.set_data(at, data, version)


def _delete(transaction: Any, at: str, version: int) -> None:
    transaction.delete(at, version)


def _get(client: Any, path: str) -> Any:
    return client.get_async(path)
