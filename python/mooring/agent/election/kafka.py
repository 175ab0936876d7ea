"""The election of a job's driver in Kafka, and its records, fenced together: see `mooring.coordination.kafka`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mooring.agent.election.handover import inherited
from mooring.coordination.kafka import KafkaLeaderLock
from mooring.coordination.kafka.led_store import LedStore
from mooring.metadata.kafka.opening import leader_silence, open_kafka_store
from mooring.metadata.store import Report
from mooring.model.standing import LEADING, Standing
from mooring.records.records import Records


class KafkaElection:
    """One candidate, with a store of its own."""

    def __init__(self, place: str, options: Mapping[str, str], name: str, legacy: str, report: Report) -> None:
        """Takes part from now on; `legacy` is empty, or what a candidate of the same driver left."""
        self._legacy = inherited(legacy)
        silence_seconds = leader_silence(options.get("leader.timeout"))
        # Nothing may wait for the brokers much longer than a term lasts.
        patience = {"timeout": f"{round(silence_seconds * 500)}ms"}
        rest = {name: value for name, value in options.items() if name != "exclusive.writer"}
        if len(rest) < len(options):
            report(
                "spark.mooring.metadata.exclusive.writer has no effect here: the agent's records have a role already"
            )
        self._store = open_kafka_store(place, report, {**patience, **rest})
        self._name = f"{name} ({self._legacy.token[:8]})"
        self._lock = KafkaLeaderLock(
            self._store, self._name, silence_seconds, report, token=self._legacy.token, epoch=self._legacy.epoch
        )
        self._lock.campaign()

    @property
    def silence_seconds(self) -> float:
        """`leader.timeout`."""
        return self._lock.silence_seconds

    def standing(self) -> Standing:
        """By the last look, which is a quarter of the silence old at most while the brokers answer; asks nobody."""
        if self._lock.leadership is not None:
            left, contested = self._lock.seconds_left, self._lock.is_contested
            return Standing(LEADING, self._name, left, contested, self._lock.epoch)
        return Standing.not_leading(self._lock.leader(), self._name)

    def records(self, warn: Callable[[str], None]) -> Records:
        """The records of the job, written in this candidate's terms."""
        return Records(LedStore(self._store, self._lock), warn)

    def legacy(self) -> str:
        """The token, and the epoch."""
        return replace(self._legacy, epoch=self._lock.epoch).text()

    def close(self) -> None:
        """Resign, and close the connection to the brokers."""
        self._lock.resign()
        self._store.close()
