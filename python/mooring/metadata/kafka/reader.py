"""The thread that reads the topic from its beginning and keeps the map."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from mooring.errors import MetadataStoreError
from mooring.metadata.kafka.client import KafkaClient
from mooring.metadata.kafka.news import News
from mooring.metadata.kafka.records import ForeignRecord
from mooring.metadata.kafka.replica import Record, Replica
from mooring.metadata.store import Report

_POLL_SECONDS = 0.1
_BATCH = 500
_AGAIN_SECONDS = 1.0
_STOP_SECONDS = 5.0
_REPORTS = 1_000

# Tombstones are kept for a day by default (delete.retention.ms): who hears nothing for long could miss one for ever.
_TOO_LONG_AWAY_SECONDS = 3_600.0


class _StartOver(Exception):
    """What was read so far may not be the topic's history any more; the message says why."""


class Reader:
    """Keeps a `Replica` of the topic, from `start` to `stop`; publishes changes, reports what it must leave out."""

    def __init__(self, client: KafkaClient, timeout_seconds: float, news: News, report: Report) -> None:
        self._client = client
        self._timeout = timeout_seconds
        self._news = news
        self._report = report
        self._progress = threading.Condition()
        self._replica = Replica()
        self._position = -1
        self._own_end = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mooring-kafka-{client.topic}", daemon=True)
        self._reported: set[bytes] = set()
        self._in_trouble = False
        self._cut_off_since: float | None = None

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waits for it, five seconds at most, unless it is the one that calls."""
        self._stopping.set()
        with self._progress:
            self._progress.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS)

    def wrote(self, end: int) -> None:
        """Do not answer before this offset is read too: this client has written up to it.

        Right after a transaction the broker may not count it to the committed end yet.
        """
        with self._progress:
            self._own_end = max(end, self._own_end)

    def catch_up(self, end: int, deadline: float, with_own: bool = True) -> None:
        """Return when everything before offset `end` is in the map; MetadataStoreUnavailable after the deadline.

        `with_own`: what this client has written too, which another's unfinished transaction may hide.
        """
        with self._progress:
            there = self._progress.wait_for(
                lambda: self._position >= self._needed(end, with_own) or self._stopping.is_set(),
                max(0.0, deadline - time.monotonic()),
            )
            position, end = self._position, self._needed(end, with_own)
        if self._stopping.is_set():
            raise MetadataStoreError(f"this metadata store (topic {self._client.topic}) is closed")
        if not there:
            raise self._client.unavailable(f"read up to offset {position} of {end}, then nothing more came in time")

    def _needed(self, end: int, with_own: bool) -> int:
        return max(end, self._own_end) if with_own else end

    def value(self, key: str) -> bytes | None:
        """The value of a key as far as the topic was read."""
        with self._progress:
            return self._replica.values.get(key)

    def values(self, prefix: str) -> dict[str, bytes]:
        """All keys with this prefix as far as the topic was read."""
        with self._progress:
            return {key: value for key, value in self._replica.values.items() if key.startswith(prefix)}

    def generation(self, role: str) -> int:
        """The highest generation that was claimed of a role, as far as the topic was read."""
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
                self._say_trouble(str(error))
                self._stopping.wait(_AGAIN_SECONDS)
            except (self._client.kafka.KafkaException, self._client.kafka.KafkaError) as error:
                self._say_trouble(self._client.text_of(self._client.error_of(error)))
                self._stopping.wait(_AGAIN_SECONDS)

    def _follow(self) -> None:
        """Read from the beginning on, until there is a reason to begin again."""
        begin = self._client.first_offset(time.monotonic() + self._timeout)
        configuration = self._client.with_error_callback(self._client.options.reading(), self._heard_error)
        consumer = self._client.kafka.Consumer(configuration)
        try:
            partition = self._client.partition
            partition.offset = begin
            consumer.assign([partition])
            self._begin(begin)
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
                self._take([first, *consume(_BATCH, 0)])

    def _begin(self, offset: int) -> None:
        """An empty map; watchers are told of every key that there was, as it may be gone."""
        with self._progress:
            gone = set(self._replica.values)
            self._replica = Replica()
            self._position = offset
        self._news.publish(gone)

    def _take(self, messages: list[Any]) -> None:
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
                    self._refused(error)
            self._progress.notify_all()
        self._news.publish(changed)

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

    def _refused(self, error: Any) -> None:
        codes = self._client.kafka.KafkaError
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE, codes._MAX_POLL_EXCEEDED):
            raise _StartOver(self._client.text_of(error))
        self._say_trouble(self._client.text_of(error))

    def _heard_error(self, name: str) -> None:
        if name == "_ALL_BROKERS_DOWN":
            self._cut_off_since = self._cut_off_since or time.monotonic()
            self._say_trouble(f"no broker at {self._client.servers} can be reached")

    def _check_absence(self) -> None:
        """After the connection was gone for long, what is missing in the map may have been removed meanwhile."""
        since, self._cut_off_since, self._in_trouble = self._cut_off_since, None, False
        if since is not None and time.monotonic() - since > _TOO_LONG_AWAY_SECONDS:
            raise _StartOver("the brokers could not be reached for more than an hour")

    def _say_trouble(self, text: str) -> None:
        if self._news.has_watchers and not self._in_trouble and not self._stopping.is_set():
            self._in_trouble = True
            self._report(f"changes in the metadata store are not seen for now: {text}")
