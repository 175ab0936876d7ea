"""The metadata store in a compacted Kafka topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable
from mooring.metadata.kafka.changes import ChangePublisher
from mooring.metadata.kafka.client import KafkaClient
from mooring.metadata.kafka.exclusive import ExclusiveWriter, RoleHeld
from mooring.metadata.kafka.options import ClientOptions
from mooring.metadata.kafka.reader import Reader
from mooring.metadata.kafka.records import value_key
from mooring.metadata.kafka.topic import open_topic
from mooring.metadata.kafka.writer import PlainWriter, TopicRecords, Writer
from mooring.metadata.store import Cancel, MetadataStore, Report, Watcher, check_key, check_values, report_to_log

_OVERHEAD_BYTES = 1024
"""Room for the parts of a record beside its key and value: the batch's header, the lengths, the headers."""

_CLOSE_SECONDS = 5.0


@dataclass(frozen=True)
class _Opened:
    reader: Reader
    writer: Writer
    limit: int


class Role:
    """A role of which this client is the only writer. Its writes are apart from those of its store, one at a time."""

    def __init__(self, writer: ExclusiveWriter, reader: Reader, check: Callable[[TopicRecords], None]) -> None:
        self._writer, self._reader, self._check = writer, reader, check
        self._writing = threading.Lock()
        self._closed = False

    def write(self, values: Mapping[str, bytes | None], seconds: float) -> int:
        """Write all values in one transaction; None deletes a key. Returns the generation of this writer.

        WriterReplaced where another client has taken the role. RoleHeld where the role may not be taken, or this role
        is closed. The other errors are those of the store's writes.
        """
        check_values({key: value for key, value in values.items() if value is not None})
        records = {value_key(check_key(key)): value for key, value in values.items()}
        self._check(records)
        deadline = time.monotonic() + seconds
        with _held(self._writing, seconds) as is_ours:
            if not is_ours:
                raise MetadataStoreUnavailable("another write of this role is still waiting for an answer")
            if self._closed:
                raise RoleHeld
            self._reader.wrote(self._writer.write(records, deadline))
            return self._writer.generation or 0

    def close(self) -> None:
        """Close the connection. The role stays this client's until another client takes it."""
        with self._writing:
            self._closed = True
            self._writer.close()


class KafkaMetadataStore(MetadataStore):
    """Records of a topic with one partition. Any number of processes may share it.

    A missing topic is made at the first use. Where `make_topic` is false, MetadataStoreMissing is raised instead.

    A thread reads the topic and keeps all values in memory. Each read asks the broker for the topic's end first, and
    waits until the thread has read up to it. Writes are sent one at a time, and return when the broker has acknowledged
    them. A write that waits for another one gives up after the timeout.

    Without `exclusive_writer` this client is one of many writers, and a later write wins. With it, this client takes
    the role of that name at its first use. The client that had the role writes nothing more: its next write raises
    WriterReplaced. `options` go to librdkafka.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        exclusive_writer: str | None = None,
        timeout_seconds: float = 30.0,
        replication_factor: int | None = None,
        make_topic: bool = True,
        options: Mapping[str, str] | None = None,
        report: Report = report_to_log,
    ) -> None:
        """Only checks the options. Nothing is read, written or made before the first use."""
        self._client = KafkaClient(servers, topic, ClientOptions(servers, options or {}))
        self._role = exclusive_writer
        self._timeout = timeout_seconds
        self._replication = replication_factor
        self._make_topic = make_topic
        self._report = report
        self._changes = ChangePublisher(f"mooring-kafka-watch-{topic}", report)
        self._opening = threading.Lock()
        self._writing = threading.Lock()
        self._opened: _Opened | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"KafkaMetadataStore({self._client.servers!r}, {self._client.topic!r})"

    def get(self, key: str) -> bytes | None:
        """The value of a key, or None when there is none."""
        check_key(key)
        return self._caught_up().value(key)

    def all(self, prefix: str = "") -> dict[str, bytes]:
        """Every key that starts with `prefix`, with its value."""
        return self._caught_up().values(prefix)

    def look(self, prefix: str, seconds: float, with_own: bool = True) -> dict[str, bytes]:
        """As `all`, but with a timeout of its own.

        Without `with_own` it does not wait for this client's own writes. So it returns in time even while another
        client's unfinished transaction hides them.
        """
        return self._caught_up(seconds, with_own).values(prefix)

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Send all values, in the order of the mapping, and wait for the acknowledgements.

        The mapping of an exclusive writer is one transaction: readers see all of it or nothing.
        """
        self._write({value_key(key): value for key, value in check_values(values).items()})

    def delete(self, key: str) -> None:
        """Write a tombstone, also for a key that does not exist."""
        self._write({value_key(check_key(key)): None})

    def watch(self, watcher: Watcher) -> Cancel:
        """Call `watcher`, on a thread of this store, with the keys that were written or deleted."""
        self._caught_up()
        return self._changes.add(watcher)

    def flush(self) -> None:
        """Return when readers see this client's writes: another's unfinished transaction may hide them for a while."""
        self._caught_up()

    def role(self, name: str, may_take: Callable[[Callable[[str], bytes | None]], bool]) -> Role:
        """A role of which this client is the only writer, from its first write on. Close it before the store.

        `may_take` is called before the role is taken, when the writer before can write nothing more. It gets a function
        that returns the value of a key, and returns whether to take the role.
        """
        opened = self._open(time.monotonic() + self._timeout)
        reader = opened.reader
        writer = ExclusiveWriter(self._client, reader, name, self._timeout, lambda: may_take(reader.value))
        return Role(writer, reader, lambda records: self._check_sizes(records, opened.limit))

    def close(self) -> None:
        """End the threads and connections. It takes some seconds at most, also where no broker answers."""
        self._closed = True
        self._changes.stop()
        with _held(self._opening, _CLOSE_SECONDS):
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.reader.stop()
            with _held(self._writing, _CLOSE_SECONDS) as is_ours:
                if is_ours:  # otherwise the write that has the lock closes the writer at its end
                    opened.writer.close()

    def _caught_up(self, seconds: float | None = None, with_own: bool = True) -> Reader:
        """The reader, after it has read all records that were committed in the topic at the time of this call."""
        deadline = time.monotonic() + (self._timeout if seconds is None else seconds)
        opened = self._open(deadline)
        opened.reader.catch_up(self._client.end_offset(deadline), deadline, with_own)
        return opened.reader

    def _write(self, records: TopicRecords) -> None:
        deadline = time.monotonic() + self._timeout
        opened = self._open(deadline)
        self._check_sizes(records, opened.limit)
        if not records:
            return
        with _held(self._writing, self._timeout) as is_ours:
            if not is_ours:
                raise self._client.unavailable("other writes of this client are still waiting for an answer")
            try:
                opened.reader.wrote(opened.writer.write(records, max(deadline, time.monotonic() + 1)))
            finally:
                if self._closed:
                    opened.writer.close()

    def _open(self, deadline: float) -> _Opened:
        """The reader and the writer, made at the first use."""
        with _held(self._opening, self._timeout) as is_ours:
            self._refuse_closed()
            if not is_ours:
                raise self._client.unavailable()
            if self._opened is None:
                self._opened = self._make(deadline)
            return self._opened

    def _make(self, deadline: float) -> _Opened:
        largest = open_topic(self._client, self._replication, deadline, self._make_topic)
        limit = min(largest, self._client.options.message_max_bytes)
        reader = Reader(self._client, self._timeout, self._changes, self._report)
        reader.start()
        try:
            writer = self._writer(reader, deadline)
            self._refuse_closed()
        except MetadataStoreError:
            reader.stop()
            raise
        return _Opened(reader, writer, limit)

    def _writer(self, reader: Reader, deadline: float) -> Writer:
        if self._role is None:
            return PlainWriter(self._client, self._timeout)
        writer = ExclusiveWriter(self._client, reader, self._role, self._timeout)
        writer.take_over(deadline)
        return writer

    def _check_sizes(self, records: TopicRecords, limit: int) -> None:
        for key, value in records.items():
            size = len(key) + len(value or b"") + _OVERHEAD_BYTES
            if size > limit:
                raise MetadataStoreError(
                    f"a record of {size} bytes ({key[:80].decode(errors='replace')}) does not fit into topic"
                    f" {self._client.topic}: its max.message.bytes, or this client's message.max.bytes, is {limit};"
                    " nothing was written"
                )

    def _refuse_closed(self) -> None:
        if self._closed:
            raise MetadataStoreError(f"this metadata store (topic {self._client.topic}) is closed")


@contextmanager
def _held(lock: threading.Lock, seconds: float) -> Iterator[bool]:
    """Wait this long for the lock. Yields whether it was acquired, and releases it at the end."""
    held = lock.acquire(timeout=seconds)
    try:
        yield held
    finally:
        if held:
            lock.release()
