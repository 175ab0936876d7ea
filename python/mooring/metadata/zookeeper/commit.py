"""One transaction that changes several values: made once, however often it has to be sent."""

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
    """A new value for a node, or None to remove it.

    `key` is what watchers are told, and `spelt` whether the path tells it too. With `must_be_new` a value that is there
    refuses the whole write.
    """

    path: str
    value: bytes | None
    key: str
    spelt: bool = True
    must_be_new: bool = False

    @property
    def stored_key(self) -> str | None:
        """The key, when the node has to hold it."""
        return None if self.spelt else self.key


@dataclass(frozen=True)
class Guard:
    """A node that must be as it was for a write to be done: of this version, or of any with -1."""

    path: str
    version: int = -1


@dataclass(frozen=True)
class Batch:
    """What one transaction does; `staged` says where the large values are, and `writers` what guards them."""

    changes: tuple[Change, ...]
    guards: tuple[Guard, ...]
    staged: Mapping[str, Split]
    writers: tuple[str, ...]


class GuardFailed(Exception):
    """A guard did not hold; nothing was written. Translated by who set the guard."""


class AlreadyThere(Exception):
    """A value that must be new is there; nothing was written. Translated by who asked for it."""


class StagedPartsLost(Exception):
    """The session of this client ended while it wrote; its parts may be removed by now. Nothing was written."""


class Commit:
    """The transaction of one batch."""

    def __init__(
        self, connection: ZkConnection, base: str, log: ChangeLog, batch: Batch, deadline: RetryDeadline
    ) -> None:
        self._connection, self._base, self._log, self._batch, self._deadline = connection, base, log, batch, deadline
        self._token = log.new_token()
        self._writes_before = 0
        self._before: dict[str, tuple[bytes, Any]] = {}
        self._unanswered = False

    def run(self) -> list[str]:
        """Make the changes; returns the generations that nothing points to any more.

        MetadataStoreUnavailable when nothing was written, OutcomeUnknown when nobody can tell.
        """
        while True:
            if self._unanswered and self._was_done():
                return self._replaced()
            self._look()
            steps = self._steps()
            if not self._batch.guards and not any(step.changes for step in steps):
                return []
            try:
                (answers,) = self._connection.attempt([partial(_commit, steps=steps)], self._deadline)
            except NoAnswer as no_answer:
                self._unanswered = True
                self._pause(no_answer)
                continue
            if not any(isinstance(answer, ZookeeperError) for answer in answers):
                self._log.prune_after(answers[-1])
                return self._replaced()
            self._after_refusal(steps, answers)

    def _was_done(self) -> bool:
        try:
            done = self._log.was_done(self._token, self._writes_before, self._deadline)
        except MetadataStoreError as error:
            raise _unknown(error) from error
        if done is None:
            raise OutcomeUnknown(f"{self._connection.place}: a write was not answered, and too many others came after")
        self._unanswered = False
        return done

    def _pause(self, no_answer: NoAnswer) -> None:
        try:
            self._connection.pause(self._deadline, no_answer)
        except MetadataStoreError as error:
            raise _unknown(error) from error

    def _look(self) -> None:
        """What is there now, so that the transaction holds only for that."""
        self._writes_before = self._log.writes_so_far(self._deadline)
        paths = [change.path for change in self._batch.changes]
        asked = [partial(_get, path=f"{self._base}/{path}") for path in paths]
        answers = zip(paths, self._connection.ask(asked, self._deadline), strict=True)
        self._before = {path: answer for path, answer in answers if not isinstance(answer, ZookeeperError)}
        for change in self._batch.changes:
            if change.must_be_new and change.path in self._before:
                raise AlreadyThere(change.path)

    def _steps(self) -> list[_Step]:
        batch = self._batch
        steps = [_Step(partial(_check, guard=guard), GuardFailed) for guard in batch.guards]
        steps += [_Step(partial(_remove, at=writer, version=-1), StagedPartsLost) for writer in batch.writers]
        for change in batch.changes:
            at, before = f"{self._base}/{change.path}", self._before.get(change.path)
            version = -1 if before is None else before[1].version
            if change.value is None:
                steps += [] if before is None else [_Step(partial(_remove, at=at, version=version), changes=True)]
                continue
            split = batch.staged.get(change.path)
            data = pack_parts(split, change.stored_key) if split else pack_whole(change.value, change.stored_key)
            if before is None:
                steps.append(_Step(partial(_make, at=at, data=data), changes=True, makes=at))
            else:
                steps.append(_Step(partial(_set, at=at, data=data, version=version), changes=True))
        keys = [change.key for change in batch.changes]
        note = partial(self._log.add, token=self._token, keys=keys)
        return [*steps, _Step(note, makes=f"{self._log.directory}/note")]

    def _after_refusal(self, steps: list[_Step], answers: list[Any]) -> None:
        """Raise when another try would be refused as well; else somebody was faster, or a directory was missing."""
        for step, answer in zip(steps, answers, strict=True):
            if not isinstance(answer, ZookeeperError) or isinstance(answer, (RolledBackError, RuntimeInconsistency)):
                continue
            if step.failure is not None:
                raise step.failure
            if step.makes and isinstance(answer, NoNodeError):
                parents = {made.makes.rpartition("/")[0] for made in steps if made.makes}
                self._connection.create_missing(sorted(parents), self._deadline)

    def _replaced(self) -> list[str]:
        found = []
        for data, _ in self._before.values():
            try:
                content = unpack(data).content
            except DamagedRecord:  # whatever it was, it is replaced now
                continue
            if isinstance(content, Split):
                found.append(content.generation)
        return found


@dataclass(frozen=True)
class _Step:
    """One operation of the transaction, and what it means when this one is refused."""

    add: Callable[[Any], None]
    failure: type[Exception] | None = None
    changes: bool = False
    makes: str = ""


def _unknown(error: MetadataStoreError) -> OutcomeUnknown:
    return OutcomeUnknown(f"a write was sent and no answer came: read it back. {error}")


def _commit(client: Any, steps: list[_Step]) -> Any:
    transaction = client.transaction()
    for step in steps:
        step.add(transaction)
    return transaction.commit_async()


def _check(transaction: Any, guard: Guard) -> None:
    transaction.check(guard.path, guard.version)


def _make(transaction: Any, at: str, data: bytes) -> None:
    transaction.create(at, data)


def _set(transaction: Any, at: str, data: bytes, version: int) -> None:
    transaction.set_data(at, data, version)


def _remove(transaction: Any, at: str, version: int) -> None:
    transaction.delete(at, version)


def _get(client: Any, path: str) -> Any:
    return client.get_async(path)
