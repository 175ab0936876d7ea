"""Leader election with ephemeral nodes: `leader/candidate-<token>-<number>`, the smallest number leads.

Each candidate watches the one before it only. The leader renews its term by a transaction that holds only while its
node is there and nobody has led since; the term lasts, by a clock that runs on while the process is stopped, for two
thirds of the session timeout from the moment at which the last renewal was *sent*. ZooKeeper cannot end the session
earlier: a follower tells the leader of its clients every half tick, and a session has two ticks at least.
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
        """`name` is for people. The connection is the caller's, who closes it after `resign`.

        `token` tells this candidate from others: who comes with the token and the session of a candidate whose process
        died takes its place. `epoch` is that of its last term, for the case that ZooKeeper has lost it.
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
        """That of this candidate's last term; empty before the first."""
        return self._epoch

    def confirm(self, leadership: Leadership) -> None:
        """Asked of the servers. See `LeaderLock.confirm`."""
        confirm(self._connection, leadership)

    def leader(self, deadline: RetryDeadline | None = None) -> str | None:
        """The name of the first candidate; `deadline`, when another than the connection's is wanted."""
        for candidate in self._candidates(deadline):
            (found,) = self._connection.ask([partial(_get, path=f"{self._directory}/{candidate}")], deadline)
            if not isinstance(found, ZookeeperError):
                return str(found[0].decode("utf-8", "replace"))
        return None

    def resign(self) -> None:
        """End the term at once, then remove the candidate; without a connection its session's end removes it."""
        self._stop_listening()
        super().resign()

    # On this lock's thread

    def _step(self) -> float:
        """One look at the election; returns after how many seconds to look again if nothing happens."""
        self._end_if_over()
        candidates = self._candidates()
        self._contested = len(candidates) > 1
        own = next((name for name in candidates if self._is_mine(name)), None)
        if own is None:
            self._end_term()
            self._stand()
            return 0.0
        place = candidates.index(own)
        if place:
            self._end_term()
            before = f"{self._directory}/{candidates[place - 1]}"
            (there,) = self._connection.ask([lambda client: client.exists_async(before, self._on_event)])
            return 0.0 if there is None else self._connection.session_seconds
        self._lead(own)
        return self._connection.session_seconds * RENEWAL

    def _stand(self) -> None:
        """Make the candidate's node. After an interruption `_step` finds it, or makes another."""
        deadline = self._connection.new_deadline()
        self._connection.create_missing([f"{self._directory}/{GENERATION}"], deadline)
        request = partial(_stand, path=f"{self._directory}/{_PREFIX}{self._token}-", name=self._name.encode("utf-8"))
        self._connection.attempt([request], deadline)

    def _is_mine(self, candidate: str) -> bool:
        """Whether it is this client's, of the session it has now; what an earlier session left is removed."""
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
        """The same term; None when it is over."""
        (answers,) = self._connection.attempt([unchanged(term)], self._connection.new_deadline())
        return None if any(isinstance(answer, ZookeeperError) for answer in answers) else term

    def _new_term(self, candidate: str) -> ZkTerm | None:
        """Write the generation; None when somebody was faster, or our node is gone."""
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
        """The epoch there is while the last leader was this candidate, or ZooKeeper knows of none; else a new one."""
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
        """All candidates, the one that leads first."""
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


def _stand(client: Any, path: str, name: bytes) -> Any:
    return client.create_async(path, name, ephemeral=True, sequence=True)


def _begin(client: Any, candidate: str, generation: str, version: int, data: bytes) -> Any:
    transaction = client.transaction()
    transaction.check(candidate, -1)
    transaction.set_data(generation, data, version)
    return transaction.commit_async()
