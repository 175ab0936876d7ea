"""Writing: a plain writer shares the topic with everybody; an exclusive one is the only one of its role."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mooring.errors import MetadataStoreError, OutcomeUnknown
from mooring.metadata.kafka.client import PARTITION, KafkaClient

Records = Mapping[bytes, bytes | None]
"""Record keys with their values, in the order in which they are written; None deletes."""

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 5.0

# With any other error a record may have been written all the same.
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
    """One way of writing. Not safe for threads: the store lets one in at a time."""

    def write(self, records: Records, deadline: float) -> int:
        """Return when all are acknowledged, with the offset after the last; the errors are the store's."""

    def close(self) -> None:
        """Let go of the connection, without waiting for what is not acknowledged."""


class Deliveries:
    """What became of the records of one write: each is sent, or given up; each that is sent is told of once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.errors: list[Any] = []
        self.end = 0
        """The offset after the last record that was acknowledged."""
        self._expected = 0

    @property
    def are_complete(self) -> bool:
        """Whether the fate of each record that was sent is known."""
        return self._expected == 0

    @property
    def are_acknowledged(self) -> bool:
        """Whether all is written."""
        return self.are_complete and not self.errors

    def expect(self) -> None:
        """One record is being sent."""
        self._expected += 1

    def unexpect(self) -> None:
        """It was not taken after all."""
        self._expected -= 1

    def give_up(self, error: Any) -> None:
        """The rest is not sent."""
        self.errors.append(error)

    def told(self, error: Any, message: Any) -> None:
        """The delivery callback."""
        self._expected -= 1
        if error is None:
            self.end = max(self.end, message.offset() + 1)
        else:
            self.errors.append(error)


class PlainWriter:
    """An idempotent producer: each record is in the topic once, in the order of the calls, after any retries.

    Before each write the brokers are asked for something: when they do not answer, nothing was sent. After that, a
    record without an answer is one of unknown fate. librdkafka gives the next records a new epoch then, so a late one
    never ends up after them.
    """

    def __init__(self, client: KafkaClient, timeout_seconds: float) -> None:
        self._client = client
        self._timeout = timeout_seconds
        self._producer: Any = None

    def write(self, records: Records, deadline: float) -> int:
        """Send all, and wait for the acknowledgement of each."""
        self._client.end_offset(deadline)
        producer = self._open(deadline)
        deliveries = send(self._client, producer, records, [], deadline)
        wait_for(self._client, producer, deliveries, time.monotonic() + self._timeout + _GRACE_SECONDS)
        if not deliveries.are_acknowledged:
            raise self._outcome(deliveries)
        return deliveries.end

    def close(self) -> None:
        """Forget what is not acknowledged."""
        close_producer(self._client, self._producer)
        self._producer = None

    def _open(self, deadline: float) -> Any:
        if self._producer is None:
            with self._client.settings_checked():
                configuration = self._client.options.writing(self._timeout)
                self._producer = self._client.kafka.Producer(self._client.with_error_callback(configuration))
            # Once it knows the brokers it gets its producer id at once; otherwise it waits for half a second.
            self._producer_asks(lambda: self._producer.list_topics(self._client.topic, timeout=remaining(deadline)))
        return self._producer

    def _producer_asks(self, question: Callable[[], object]) -> None:
        try:
            question()
        except self._client.kafka.KafkaException as error:
            self.close()
            raise self._client.unavailable(self._client.text_of(self._client.error_of(error))) from error

    def _outcome(self, deliveries: Deliveries) -> MetadataStoreError:
        if any(error.fatal() for error in deliveries.errors) or not deliveries.are_complete:
            self.close()  # this producer is done for; the next write makes another
        return outcome(self._client, deliveries)


def remaining(deadline: float) -> float:
    """Seconds to the deadline, at least a tenth."""
    return max(0.1, deadline - time.monotonic())


def send(
    client: KafkaClient, producer: Any, records: Records, headers: list[tuple[str, bytes]], deadline: float
) -> Deliveries:
    """Hand the records to a producer, in their order; what comes after one that it does not take is not sent."""
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
    """None, or the error for which the producer did not take the record; waits while its queue is full."""
    codes = client.kafka.KafkaError
    while True:
        deliveries.expect()
        try:
            producer.produce(
                client.topic, key=key, value=value, partition=PARTITION, headers=headers, on_delivery=deliveries.told
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
    """What to raise for records that were not all acknowledged."""
    where = f"topic {client.topic} of Kafka at {client.servers}"
    refused = [error for error in deliveries.errors if error.name() in _REFUSALS]
    if deliveries.are_complete and len(refused) == len(deliveries.errors):
        return MetadataStoreError(f"{where} refused a write: {client.text_of(refused[0])}")
    reason = f" ({client.text_of(deliveries.errors[0])})" if deliveries.errors else ""
    return OutcomeUnknown(
        f"{where} did not acknowledge a write of {deliveries.count}{reason}: it may have happened or not"
    )


def wait_for(client: KafkaClient, producer: Any, deliveries: Deliveries, deadline: float) -> None:
    """Return when the fate of each record was told, at the deadline, or when the producer can do nothing any more."""
    while not deliveries.are_complete and time.monotonic() < deadline:
        fatal = _serve(client, producer)
        if fatal is not None:
            deliveries.give_up(fatal)
            return


def _serve(client: KafkaClient, producer: Any) -> Any:
    """Let the producer call back; the error for which it can do nothing any more, or None."""
    try:
        producer.poll(_POLL_SECONDS)
    except (client.kafka.KafkaException, client.kafka.KafkaError) as fatal:
        return client.error_of(fatal)
    return None


def close_producer(client: KafkaClient, producer: Any) -> None:
    """End a producer, without waiting for what it has not sent."""
    if producer is not None:
        with contextlib.suppress(client.kafka.KafkaException, client.kafka.KafkaError):  # what was fatal was told
            producer.purge()
            producer.poll(0)
