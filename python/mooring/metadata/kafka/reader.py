"""The thread that reads the topic from its beginning, and keeps the map of keys and values."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from mooring.errors import MetadataStoreError
from mooring.metadata.kafka.changes import ChangePublisher
from mooring.metadata.kafka.client import KafkaClient
from mooring.metadata.kafka.records import ForeignRecord
from mooring.metadata.kafka.replica import Record, Replica
from mooring.metadata.store import Report

_POLL_SECONDS = 0.1
_BATCH = 500
_AGAIN_SECONDS = 1.0
_STOP_SECONDS = 5.0
_REPORTS = 1_000

_TOO_LONG_AWAY_SECONDS = 3_600.0
"""A reader that was away longer reads the topic again from its beginning.

Kafka keeps a tombstone for a day by default (delete.retention.ms). A reader that misses it would keep the value for
ever.
"""


class _StartOver(Exception):
    """The map may miss changes, so the topic has to be read again from its beginning. The message says why."""


class Reader:
    """Keeps a `Replica` of the topic, from `start` to `stop`. It publishes changes, and reports records it ignores."""

    def __init__(self, client: KafkaClient, timeout_seconds: float, changes: ChangePublisher, report: Report) -> None:
        self._client = client
        self._timeout = timeout_seconds
        self._changes = changes
        self._report = report
        self._progress = threading.Condition()
        self._replica = Replica()
        self._position = -1
        self._own_end = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mooring-kafka-{client.topic}", daemon=True)
        self._reported: set[bytes] = set()
        self._is_unreachable = False
        self._cut_off_since: float | None = None

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Waits for it, five seconds at most, unless the thread itself calls this."""
        self._stopping.set()
        with self._progress:
            self._progress.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS)

    def wrote(self, end: int) -> None:
        """Note the offset up to which this client has written. `catch_up` waits for it too.

        Right after a transaction the broker's committed end may not include the transaction yet.
        """
        with self._progress:
            self._own_end = max(end, self._own_end)

    def catch_up(self, end: int, deadline: float, with_own: bool = True) -> None:
        """Return when every record before offset `end` is in the map. MetadataStoreUnavailable at the deadline.

        `with_own`: also this client's own writes. They may be hidden behind another client's unfinished transaction.
        """
        with self._progress:
            is_caught_up = self._progress.wait_for(
                lambda: self._position >= self._needed(end, with_own) or self._stopping.is_set(),
                max(0.0, deadline - time.monotonic()),
            )
            position, end = self._position, self._needed(end, with_own)
        if self._stopping.is_set():
            raise MetadataStoreError(f"this metadata store (topic {self._client.topic}) is closed")
        if not is_caught_up:
            raise self._client.unavailable(f"read up to offset {position} of {end}, then nothing more came in time")

    def _needed(self, end: int, with_own: bool) -> int:
        return max(end, self._own_end) if with_own else end

    def value(self, key: str) -> bytes | None:
        """The value of a key, as far as the topic has been read."""
        with self._progress:
            return self._replica.values.get(key)

    def values(self, prefix: str) -> dict[str, bytes]:
        """All keys with this prefix and their values, as far as the topic has been read."""
        with self._progress:
            return {key: value for key, value in self._replica.values.items() if key.startswith(prefix)}

    def generation(self, role: str) -> int:
        """The highest generation that was claimed of a role, as far as the topic has been read; 0 for none."""
        with self._progress:
            return self._replica.generation(role)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except _StartOver as reason:
                with self._progress:
                    self._position, self._own_end = -1, 0
                self._report(f"topic {self._client.topic} is read again from its beginning: {reason}")
            except MetadataStoreError as error:
                self._report_unreachable(str(error))
                self._stopping.wait(_AGAIN_SECONDS)
            except (self._client.kafka.KafkaException, self._client.kafka.KafkaError) as error:
                self._report_unreachable(self._client.text_of(self._client.error_of(error)))
                self._stopping.wait(_AGAIN_SECONDS)

    def _follow(self) -> None:
        """Read the topic from its beginning and then its new records, until `stop` or an error."""
        first = self._client.first_offset(time.monotonic() + self._timeout)
        configuration = self._client.with_error_callback(self._client.options.reading(), self._on_client_error)
        consumer = self._client.kafka.Consumer(configuration)
        try:
            partition = self._client.partition
            partition.offset = first
            consumer.assign([partition])
            self._reset(first)
            self._read(consumer.poll, consumer.consume)
        finally:
            consumer.close()

    def _read(self, poll: Callable[[float], Any], consume: Callable[[int, float], list[Any]]) -> None:
        woke = time.monotonic()
        while not self._stopping.is_set():
            first = poll(_POLL_SECONDS)
            slept, woke = woke, time.monotonic()
            if woke - slept > _TOO_LONG_AWAY_SECONDS:
                raise _StartOver("this process slept for more than an hour")
            if first is not None:
                self._handle([first, *consume(_BATCH, 0)])

    def _reset(self, offset: int) -> None:
        """Empty the map, and publish all its keys: any of them may have been deleted meanwhile."""
        with self._progress:
            keys = set(self._replica.values)
            self._replica = Replica()
            self._position = offset
        self._changes.publish(keys)

    def _handle(self, messages: list[Any]) -> None:
        self._check_absence()
        changed: set[str] = set()
        with self._progress:
            for message in messages:
                error = message.error()
                if error is None:
                    changed |= self._apply(message)
                    self._position = message.offset() + 1
                elif error.code() == self._client.kafka.KafkaError._PARTITION_EOF:
                    self._position = max(self._position, message.offset())
                else:
                    self._handle_error(error)
            self._progress.notify_all()
        self._changes.publish(changed)

    def _apply(self, message: Any) -> set[str]:
        record = Record(message.offset(), message.key(), message.value(), message.headers())
        try:
            key = self._replica.apply(record)
        except ForeignRecord as reason:
            self._report_once(record, reason)
            return set()
        return set() if key is None else {key}

    def _report_once(self, record: Record, reason: ForeignRecord) -> None:
        subject = (record.key or b"")[:256]
        if subject in self._reported or len(self._reported) >= _REPORTS:
            return
        self._reported.add(subject)
        self._report(f"the record at offset {record.offset} of topic {self._client.topic} is ignored: {reason}")

    def _handle_error(self, error: Any) -> None:
        codes = self._client.kafka.KafkaError
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE, codes._MAX_POLL_EXCEEDED):
            raise _StartOver(self._client.text_of(error))
        self._report_unreachable(self._client.text_of(error))

    def _on_client_error(self, name: str) -> None:
        if name == "_ALL_BROKERS_DOWN":
            self._cut_off_since = self._cut_off_since or time.monotonic()
            self._report_unreachable(f"no broker at {self._client.servers} can be reached")

    def _check_absence(self) -> None:
        """_StartOver where the brokers were away so long that tombstones may have been removed meanwhile."""
        since, self._cut_off_since, self._is_unreachable = self._cut_off_since, None, False
        if since is not None and time.monotonic() - since > _TOO_LONG_AWAY_SECONDS:
            raise _StartOver("the brokers could not be reached for more than an hour")

    def _report_unreachable(self, text: str) -> None:
        if self._changes.has_watchers and not self._is_unreachable and not self._stopping.is_set():
            self._is_unreachable = True
            self._report(f"changes in the metadata store are not seen for now: {text}")
