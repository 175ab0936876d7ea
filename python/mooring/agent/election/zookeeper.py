"""The election of a job's driver in ZooKeeper: see `mooring.coordination`.

An agent that dies does not cost its driver the lead: the next agent of the driver goes on with the session, if it comes
within the session timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mooring.agent.election.handover import inherited
from mooring.coordination.zookeeper import ZkLeaderLock
from mooring.coordination.zookeeper.term import guards_of
from mooring.errors import LeadershipLost, MetadataStoreError
from mooring.metadata.store import Report
from mooring.metadata.zookeeper import ZkMetadataStore
from mooring.metadata.zookeeper.commit import Guard
from mooring.metadata.zookeeper.connection import RetryDeadline, ZkConnection
from mooring.metadata.zookeeper.options import settings_from
from mooring.model.standing import LEADING, UNKNOWN, Standing
from mooring.records.zookeeper import ZkRecords

_ANSWER_SECONDS = 1.0
"""The driver wants a word every second: who leads is not known when ZooKeeper takes longer to answer."""


class ZkElection:
    """One candidate, with a connection of its own."""

    def __init__(
        self, place: str, options: Mapping[str, str], application: str, name: str, legacy: str, report: Report
    ) -> None:
        """Takes part from now on; `legacy` is empty, or what a candidate of the same driver left."""
        self._settings = settings_from(place, options).of_application(application)
        self._report = report
        left = inherited(legacy)
        self._legacy = left
        self._name = f"{name} ({left.token[:8]})"
        self._connection = ZkConnection(self._settings, left.session)
        self._lock = ZkLeaderLock(
            self._connection, self._settings.root, self._name, report, token=left.token, epoch=left.epoch
        )
        self._lock.campaign()

    @property
    def silence_seconds(self) -> float:
        """The session's timeout."""
        return self._connection.session_seconds

    def standing(self) -> Standing:
        """Nobody is asked while there is no connection."""
        term = self._lock.leadership
        if term is not None:
            return Standing(LEADING, self._name, self._lock.seconds_left, self._lock.is_contested, term.epoch)
        if not self._connection.is_connected:
            return Standing(UNKNOWN)
        try:
            return Standing.not_leading(self._lock.leader(RetryDeadline(_ANSWER_SECONDS)), self._name)
        except MetadataStoreError:  # the connection broke in this moment
            return Standing(UNKNOWN)

    def records(self, warn: Callable[[str], None]) -> ZkRecords:
        """The records of the job, written in this candidate's terms."""
        store = ZkMetadataStore(self._settings, report=self._report, guards=self._guards)
        return ZkRecords(store, warn, self._connection, self._settings.root, lambda: self._lock.leadership)

    def _guards(self) -> Sequence[Guard]:
        """By which a write that was decided in a term is not made after it, however long the agent slept in between."""
        term = self._lock.leadership
        if term is None:
            raise LeadershipLost("this driver does not lead now: its records are not kept")
        return guards_of(term)

    def legacy(self) -> str:
        """The session, as last known, since it outlives its connections; and the epoch."""
        session = self._connection.credentials or self._legacy.session
        self._legacy = replace(self._legacy, epoch=self._lock.epoch, session=session)
        return self._legacy.text()

    def close(self) -> None:
        """Resign, and end the session."""
        self._lock.resign()
        self._connection.close()
