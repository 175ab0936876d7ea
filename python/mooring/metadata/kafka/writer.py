"""The plain writer, one of many writers of a topic; and the functions that it shares with the exclusive writer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mooring.errors import MetadataStoreError, OutcomeUnknown
from mooring.metadata.kafka.client import PARTITION, KafkaClient

TopicRecords = Mapping[bytes, bytes | None]
"""Record keys with their values, in the order in which they are written; None deletes."""

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 5.0

# After these errors the record was not written. After any other error it may have been written.
_REFUSALS = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_RECORD",
        "MSG_SIZE_TOO_LARGE",
        "POLICY_VIOLATION",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    }
)


class Writer(Protocol):
    """Writes records. Not safe for threads: the store calls it from one thread at a time."""

    def write(self, records: TopicRecords, deadline: float) -> int:
        """Return when all records are acknowledged, with the offset after the last one. Errors as in MetadataStore."""

    def close(self) -> None:
        """Close the connection, without waiting for acknowledgements."""


class Deliveries:
    """The result of one write. librdkafka calls back once for each record that was sent."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.errors: list[Any] = []
        self.end = 0
        """The offset after the last record that was acknowledged."""
        self._expected = 0

    @property
    def are_complete(self) -> bool:
        """Whether each record that was sent is acknowledged or has failed."""
        return self._expected == 0

    @property
    def are_acknowledged(self) -> bool:
        """Whether all records are written."""
        return self.are_complete and not self.errors

    def expect(self) -> None:
        """One record is being sent."""
        self._expected += 1

    def unexpect(self) -> None:
        """The producer did not accept the record."""
        self._expected -= 1

    def give_up(self, error: Any) -> None:
        """The remaining records are not sent, because of this error."""
        self.errors.append(error)

    def on_record(self, error: Any, message: Any) -> None:
        """The callback of librdkafka for one record."""
        self._expected -= 1
        if error is None:
            self.end = max(self.end, message.offset() + 1)
        else:
            self.errors.append(error)


class PlainWriter:
    """An idempotent producer: each record is in the topic once, in the order of the calls, after any retries.

    Before each write a request is sent to the brokers. Where they do not answer, nothing was written, and the error
    says so. Where a record is sent after that and not acknowledged, it may be written or not. librdkafka gives the
    records after it a new epoch, so a late record never comes after them.
    """

    def __init__(self, client: KafkaClient, timeout_seconds: float) -> None:
        self._client = client
        self._timeout = timeout_seconds
        self._producer: Any = None

    def write(self, records: TopicRecords, deadline: float) -> int:
        """Send all records, and wait for the acknowledgement of each."""
        self._client.end_offset(deadline)
        producer = self._open(deadline)
        deliveries = send(self._client, producer, records, [], deadline)
        wait_for(self._client, producer, deliveries, time.monotonic() + self._timeout + _GRACE_SECONDS)
        if not deliveries.are_acknowledged:
            raise self._outcome(deliveries)
        return deliveries.end

    def close(self) -> None:
        """End the producer. Records that are not acknowledged are dropped."""
        close_producer(self._client, self._producer)
        self._producer = None

    def _open(self, deadline: float) -> Any:
        if self._producer is None:
            with self._client.settings_checked():
                configuration = self._client.options.writing(self._timeout)
                self._producer = self._client.kafka.Producer(self._client.with_error_callback(configuration))
            # A producer that knows the brokers gets its id at once; otherwise it waits for half a second.
            self._ask_producer(lambda: self._producer.list_topics(self._client.topic, timeout=remaining(deadline)))
        return self._producer

    def _ask_producer(self, request: Callable[[], object]) -> None:
        try:
            request()
        except self._client.kafka.KafkaException as error:
            self.close()
            raise self._client.unavailable(self._client.text_of(self._client.error_of(error))) from error

    def _outcome(self, deliveries: Deliveries) -> MetadataStoreError:
        if any(error.fatal() for error in deliveries.errors) or not deliveries.are_complete:
            self.close()  # this producer cannot be used again; the next write makes another
        return outcome(self._client, deliveries)


def remaining(deadline: float) -> float:
    """The seconds until the deadline, at least a tenth."""
    return max(0.1, deadline - time.monotonic())


def send(
    client: KafkaClient, producer: Any, records: TopicRecords, headers: list[tuple[str, bytes]], deadline: float
) -> Deliveries:
    """Hand the records to a producer, in their order. Those after one that it does not accept are not sent."""
    deliveries = Deliveries(len(records))
    for key, value in records.items():
        error = _produce(client, producer, key, value, headers, deliveries, deadline)
        if error is not None:
            deliveries.give_up(error)
            break
    return deliveries


def _produce(
    client: KafkaClient,
    producer: Any,
    key: bytes,
    value: bytes | None,
    headers: list[tuple[str, bytes]],
    deliveries: Deliveries,
    deadline: float,
) -> Any:
    """None, or the error with which the producer did not accept the record. Waits while its queue is full."""
    codes = client.kafka.KafkaError
    while True:
        deliveries.expect()
        try:
            producer.produce(
                client.topic,
                key=key,
                value=value,
                partition=PARTITION,
                headers=headers,
                on_delivery=deliveries.on_record,
            )
            return None
        except BufferError:
            deliveries.unexpect()
        except (client.kafka.KafkaException, client.kafka.KafkaError) as error:
            deliveries.unexpect()
            return client.error_of(error)
        if time.monotonic() >= deadline:
            return codes(codes._QUEUE_FULL)
        fatal = _serve(client, producer)
        if fatal is not None:
            return fatal


def outcome(client: KafkaClient, deliveries: Deliveries) -> MetadataStoreError:
    """The error for records that were not all acknowledged."""
    where = f"topic {client.topic} of Kafka at {client.servers}"
    refused = [error for error in deliveries.errors if error.name() in _REFUSALS]
    if deliveries.are_complete and len(refused) == len(deliveries.errors):
        return MetadataStoreError(f"{where} refused a write: {client.text_of(refused[0])}")
    reason = f" ({client.text_of(deliveries.errors[0])})" if deliveries.errors else ""
    return OutcomeUnknown(
        f"{where} did not acknowledge a write of {deliveries.count}{reason}: it may have happened or not"
    )


def wait_for(client: KafkaClient, producer: Any, deliveries: Deliveries, deadline: float) -> None:
    """Return when each record is acknowledged or has failed, at the deadline, or after a fatal error."""
    while not deliveries.are_complete and time.monotonic() < deadline:
        fatal = _serve(client, producer)
        if fatal is not None:
            deliveries.give_up(fatal)
            return


def _serve(client: KafkaClient, producer: Any) -> Any:
    """Let the producer call its callbacks. Returns a fatal error, after which it can send nothing, or None."""
    try:
        producer.poll(_POLL_SECONDS)
    except (client.kafka.KafkaException, client.kafka.KafkaError) as fatal:
        return client.error_of(fatal)
    return None


def close_producer(client: KafkaClient, producer: Any) -> None:
    """End a producer, without waiting for the records that it has not sent."""
    if producer is not None:
        with contextlib.suppress(client.kafka.KafkaException, client.kafka.KafkaError):  # raised already
            producer.purge()
            producer.poll(0)
