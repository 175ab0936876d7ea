"""Requests to the brokers, sent again until they are answered; and the errors of confluent-kafka, in one place.

confluent-kafka is imported when the first store is made. So users of other stores need not install it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import Any, TypeVar

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable
from mooring.metadata.kafka.options import ClientOptions

Answer = TypeVar("Answer")

PARTITION = 0

_AGAIN_SECONDS = 0.05

_BROKER_BUSY = (
    "BROKER_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "LEADER_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "NOT_CONTROLLER",
    "NOT_COORDINATOR",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_LEADER_EPOCH",
)


class Refused(Exception):
    """The brokers answered a request with a final error, whose name is `name`. The Kafka store catches this."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def library() -> Any:
    """confluent-kafka, with its admin module. MetadataStoreError, with how to install it, where it is missing."""
    try:
        import confluent_kafka.admin

        return confluent_kafka
    except ImportError as error:
        raise MetadataStoreError(
            f"a metadata store in Kafka needs the package confluent-kafka ({error}): pip install 'mooring[kafka]'"
        ) from error


class KafkaClient:
    """Requests about one topic, each sent again until it is answered or its deadline has passed.

    Deadlines are times of `time.monotonic()`. All methods may be called from any thread.
    """

    def __init__(self, servers: str, topic: str, options: ClientOptions) -> None:
        """Connects to no broker yet. InvalidSettingError for an option that librdkafka does not accept."""
        self.kafka = library()
        self.servers, self.topic, self.options = servers, topic, options
        self._trouble = ""
        self._denied = threading.Event()
        self._admin = self._fresh_admin()
        with self.settings_checked():
            self.kafka.Consumer(options.reading()).close()  # raises here, not later on the reader's thread

    @property
    def partition(self) -> Any:
        """The topic's only partition."""
        return self.kafka.TopicPartition(self.topic, PARTITION)

    def with_error_callback(
        self, configuration: dict[str, Any], also: Callable[[str], None] | None = None
    ) -> dict[str, Any]:
        """The configuration with a callback that keeps the last error for messages. `also` gets each error's name."""

        def on_error(error: Any) -> None:
            if not self._trouble or error.name() != "_ALL_BROKERS_DOWN":  # it does not say why they are down
                self._trouble = self.text_of(error)
            if error.name() in ("_AUTHENTICATION", "_SSL"):
                self._denied.set()
            if also is not None:
                also(error.name())

        return {**configuration, "error_cb": on_error}

    @contextmanager
    def settings_checked(self) -> Iterator[None]:
        """Translates the error of a client that librdkafka does not make: a setting of the user's is wrong."""
        try:
            yield
        except (self.kafka.KafkaException, ValueError, TypeError) as error:
            text = str(self.error_of(error).str()) if isinstance(error, self.kafka.KafkaException) else str(error)
            raise self.options.refusal(text) from None  # the cause would print the secrets that the message leaves out

    def error_of(self, error: BaseException) -> Any:
        """The KafkaError in an exception of confluent-kafka's."""
        inner = error.args[0] if error.args else None
        return inner if isinstance(inner, self.kafka.KafkaError) else error

    def text_of(self, error: Any) -> str:
        """The name and text of an error, without secrets."""
        return self.options.redact(f"{error.name()}: {error.str()}")

    def end_offset(self, deadline: float) -> int:
        """The offset after the last committed record. A reader that has read up to it has seen every flushed write."""
        return self._offset(self.kafka.admin.OffsetSpec.latest(), deadline)

    def written_end(self, deadline: float) -> int:
        """The offset after the last record, including those of transactions that have not ended."""
        everything = self.kafka.IsolationLevel.READ_UNCOMMITTED
        return self._offset(self.kafka.admin.OffsetSpec.latest(), deadline, everything)

    def first_offset(self, deadline: float) -> int:
        """The offset of the topic's first record."""
        return self._offset(self.kafka.admin.OffsetSpec.earliest(), deadline)

    def partitions(self, deadline: float) -> int:
        """How many partitions the topic has. Refused (UNKNOWN_TOPIC_OR_PART) where there is no such topic."""
        topics = self.kafka.TopicCollection([self.topic])
        found = self.ask(lambda admin, seconds: admin.describe_topics(topics, request_timeout=seconds), deadline)
        return len(found.partitions)

    def topic_configuration(self, deadline: float) -> dict[str, str]:
        """The topic's settings."""
        resource = self.kafka.admin.ConfigResource("topic", self.topic)
        found = self.ask(lambda admin, seconds: admin.describe_configs([resource], request_timeout=seconds), deadline)
        return {name: str(entry.value) for name, entry in found.items()}

    def brokers(self, deadline: float) -> int:
        """How many brokers the cluster has."""
        found = self.ask(lambda admin, seconds: {"": admin.describe_cluster(request_timeout=seconds)}, deadline)
        return len(found.nodes)

    def create_topic(self, replication: int, configuration: dict[str, str], deadline: float) -> None:
        """Create the topic. Refused (TOPIC_ALREADY_EXISTS) where another client has created it."""
        new = self.kafka.admin.NewTopic(
            self.topic, num_partitions=1, replication_factor=replication, config=configuration
        )
        self.ask(lambda admin, seconds: admin.create_topics([new], request_timeout=seconds), deadline)

    def ask(self, question: Callable[[Any, float], dict[Any, Future[Answer]]], deadline: float) -> Answer:
        """Send a request again until it is answered. MetadataStoreUnavailable at the deadline.

        Refused where the brokers answer with a final error. A refused login ends it before the deadline.
        """
        self._denied.clear()
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or self._denied.is_set():
                raise self.unavailable()
            admin = self._admin
            try:
                (answer,) = question(admin, max(left, 0.1)).values()
                found = self._wait(admin, answer, deadline)
                self._trouble = ""
                return found
            except self.kafka.KafkaException as failure:
                error = self.error_of(failure)
                if not self._is_passing(error):
                    raise Refused(error.name(), self.text_of(error)) from failure
                if error.name() not in ("_TIMED_OUT", "_ALL_BROKERS_DOWN"):
                    self._trouble = self.text_of(error)
                if error.name() in _BROKER_BUSY and admin is self._admin:
                    # An admin client never refreshes the leader's epoch, so all its further requests would fail.
                    self._admin = self._fresh_admin()
            time.sleep(min(_AGAIN_SECONDS, max(left, 0)))

    def unavailable(self, what: str = "no answer in time") -> MetadataStoreUnavailable:
        """The error for brokers that cannot be reached, with the last error of a client."""
        last = f"; last heard: {self._trouble}" if self._trouble else ""
        return MetadataStoreUnavailable(f"topic {self.topic} of Kafka at {self.servers}: {what}{last}")

    def _fresh_admin(self) -> Any:
        with self.settings_checked():
            return self.kafka.admin.AdminClient(self.with_error_callback(self.options.asking()))

    def _wait(self, admin: Any, answer: Future[Answer], deadline: float) -> Answer:
        """The answer, or KafkaException. Checks five times a second whether the login was refused."""
        while not self._denied.is_set() and time.monotonic() < deadline + 1:
            try:
                return answer.result(0.2)
            except FutureTimeout:
                admin.poll(0)  # calls the error callback
        raise self.unavailable()

    def _offset(self, where: Any, deadline: float, isolation: Any = None) -> int:
        isolation = isolation or self.kafka.IsolationLevel.READ_COMMITTED
        partition = self.partition
        try:
            found: Any = self.ask(
                lambda admin, seconds: admin.list_offsets(
                    {partition: where}, isolation_level=isolation, request_timeout=seconds
                ),
                deadline,
            )
        except Refused as refusal:
            raise self.unavailable(f"its offsets cannot be read ({refusal})") from refusal
        if found.offset < 0:  # librdkafka returns this when the broker has not answered in time
            raise self.unavailable()
        return int(found.offset)

    def _is_passing(self, error: Any) -> bool:
        """Whether the same request may succeed later: the client or the network failed, or a broker is not ready."""
        codes = self.kafka.KafkaError
        return (error.code() < 0 and error.code() != codes._INVALID_ARG) or error.name() in _BROKER_BUSY
