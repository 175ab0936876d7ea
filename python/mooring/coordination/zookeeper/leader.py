"""Leader election with ephemeral nodes: `leader/candidate-<token>-<number>`; the smallest number leads.

Each candidate watches only the one before it. The leader renews its term with a transaction that fails when its node is
gone, or when another candidate has led since. The term lasts for two thirds of the session timeout, from the moment at
which the last renewal was *sent*. Its clock also counts time in which the process is stopped. ZooKeeper can not end the
session earlier: a follower reports its clients to ZooKeeper's leader every half tick, and a session has at least two
ticks.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import ZookeeperError

from mooring.coordination.campaign import RENEWAL, TERM, Campaign, clock
from mooring.coordination.leadership import Leadership
from mooring.coordination.zookeeper.term import GENERATION, ZkTerm, confirm, unchanged
from mooring.metadata.store import Report, report_to_log
from mooring.metadata.zookeeper.connection import NoAnswer, RetryDeadline, ZkConnection

_PREFIX = "candidate-"


class ZkLeaderLock(Campaign[ZkTerm]):
    """One candidate at `<root>/leader`."""

    def __init__(
        self,
        connection: ZkConnection,
        root: str,
        name: str,
        report: Report = report_to_log,
        now: Callable[[], float] = clock,
        token: str | None = None,
        epoch: str = "",
    ) -> None:
        """`name` is for messages. The caller closes the connection after `resign`.

        `token` identifies this candidate. A new process with the token and the session of a candidate whose process
        died is the same candidate. `epoch` is the epoch of its last term, in case ZooKeeper has lost it.
        """
        super().__init__(name, report, now)
        self._connection = connection
        self._directory = f"{root}/leader"
        self._token = token or uuid.uuid4().hex
        self._epoch = epoch
        self._stop_listening: Callable[[], None] = lambda: None

    def campaign(self) -> None:
        """Take part; the election runs on a thread of this lock."""
        if self._thread is None:
            self._stop_listening = self._connection.listen(self._on_session)
        super().campaign()

    @property
    def epoch(self) -> str:
        """The epoch of this candidate's last term; empty before the first one."""
        return self._epoch

    def confirm(self, leadership: Leadership) -> None:
        """Ask ZooKeeper's servers. See `LeaderLock.confirm`."""
        confirm(self._connection, leadership)

    def leader(self, deadline: RetryDeadline | None = None) -> str | None:
        """The name of the first candidate, or None. `deadline` overrides the connection's own."""
        for candidate in self._candidates(deadline):
            (found,) = self._connection.ask([partial(_get, path=f"{self._directory}/{candidate}")], deadline)
            if not isinstance(found, ZookeeperError):
                return str(found[0].decode("utf-8", "replace"))
        return None

    def resign(self) -> None:
        """End the term at once, then remove the candidate. Without a connection, the end of the session removes it."""
        self._stop_listening()
        super().resign()

    # On this lock's thread

    def _step(self) -> float:
        """Look at the election once. See `Campaign._step`."""
        self._end_if_over()
        candidates = self._candidates()
        self._contested = len(candidates) > 1
        own = next((name for name in candidates if self._is_mine(name)), None)
        if own is None:
            self._end_term()
            self._make_candidate()
            return 0.0
        place = candidates.index(own)
        if place:
            self._end_term()
            before = f"{self._directory}/{candidates[place - 1]}"
            (there,) = self._connection.ask([lambda client: client.exists_async(before, self._on_event)])
            return 0.0 if there is None else self._connection.session_seconds
        self._lead(own)
        return self._connection.session_seconds * RENEWAL

    def _make_candidate(self) -> None:
        """Make the candidate's node. If the connection breaks, `_step` finds the node later, or makes another."""
        deadline = self._connection.new_deadline()
        self._connection.create_missing([f"{self._directory}/{GENERATION}"], deadline)
        path = f"{self._directory}/{_PREFIX}{self._token}-"
        request = partial(_create_candidate, path=path, name=self._name.encode("utf-8"))
        self._connection.attempt([request], deadline)

    def _is_mine(self, candidate: str) -> bool:
        """Whether a candidate belongs to this client's present session; one of an earlier session is removed."""
        if not candidate.startswith(_PREFIX + self._token):
            return False
        path = f"{self._directory}/{candidate}"
        (stat,) = self._connection.ask([lambda client: client.exists_async(path)])
        session = self._connection.session
        if session is None:
            raise NoAnswer("the connection was lost")
        if stat is not None and stat.ephemeralOwner == session:
            return True
        self._connection.ask([lambda client: client.delete_async(path)])
        return False

    def _lead(self, candidate: str) -> None:
        """Begin a term, or renew it."""
        sent, held = self._now(), self._term
        term = self._new_term(candidate) if held is None else self._renewed(held)
        if term is None:
            self._end_term()
            self._woken.set()
        else:
            self._set_term(term, sent + self._connection.session_seconds * TERM)

    def _renewed(self, term: ZkTerm) -> ZkTerm | None:
        """The same term after a renewal; None when it is over."""
        (answers,) = self._connection.attempt([unchanged(term)], self._connection.new_deadline())
        return None if any(isinstance(answer, ZookeeperError) for answer in answers) else term

    def _new_term(self, candidate: str) -> ZkTerm | None:
        """Write the generation. Returns the new term, None when another candidate was first, or the node is gone."""
        at, generation = f"{self._directory}/{candidate}", f"{self._directory}/{GENERATION}"
        deadline = self._connection.new_deadline()
        (found,) = self._connection.ask([partial(_get, path=generation)], deadline)
        if isinstance(found, ZookeeperError):
            return None
        before, stat = found[0].decode("utf-8", "replace"), found[1]
        epoch = self._epoch_after(before)
        data = f"{epoch} {self._name}".encode()
        request = partial(_begin, candidate=at, generation=generation, version=stat.version, data=data)
        (answers,) = self._connection.attempt([request], deadline)
        if any(isinstance(answer, ZookeeperError) for answer in answers):
            return None
        self._epoch = epoch
        return ZkTerm(answers[1].version, self._name, self._directory, candidate, epoch)

    def _epoch_after(self, before: str) -> str:
        """The epoch for the next term, from the data of the last one.

        It is the last one's if this candidate led then, and this candidate's own if ZooKeeper has none. Else it is new.
        """
        epoch, _, leader = before.partition(" ")
        if leader == self._name:
            return epoch
        return self._epoch if not before and self._epoch else uuid.uuid4().hex[:12]

    def _withdraw(self) -> None:
        for candidate in self._candidates():
            if candidate.startswith(_PREFIX + self._token):
                path = f"{self._directory}/{candidate}"
                self._connection.ask([partial(_delete, path=path)])

    def _candidates(self, deadline: RetryDeadline | None = None) -> list[str]:
        """All candidates, in order; the first one leads."""
        asked: list[Callable[[Any], Any]] = [
            lambda client: client.sync_async(self._directory),
            lambda client: client.get_children_async(self._directory),
        ]
        names = self._connection.ask(asked, deadline)[1]
        found = [] if isinstance(names, ZookeeperError) else [name for name in names if name.startswith(_PREFIX)]
        return sorted(found, key=lambda name: name.rpartition("-")[2])

    @property
    def _is_connected(self) -> bool:
        return self._connection.is_connected

    # On kazoo's threads

    def _on_session(self, connected: bool) -> None:
        if not connected:
            self._end_term()
        self._woken.set()

    def _on_event(self, event: object) -> None:
        self._woken.set()


def _get(client: Any, path: str) -> Any:
    return client.get_async(path)


def _delete(client: Any, path: str) -> Any:
    return client.delete_async(path)


def _create_candidate(client: Any, path: str, name: bytes) -> Any:
    return client.create_async(path, name, ephemeral=True, sequence=True)


def _begin(client: Any, candidate: str, generation: str, version: int, data: bytes) -> Any:
    transaction = client.transaction()
    transaction.check(candidate, -1)
    transaction.set_data(generation, data, version)
    return transaction.commit_async()
