"""The one place that meets confluent-kafka's errors: questions to the brokers, asked until they are answered.

confluent-kafka is imported when the first store is made, so that nobody else needs it.
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
    """The brokers answered, and the answer is no. Never leaves the Kafka store."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def library() -> Any:
    """confluent-kafka, with its admin module; MetadataStoreError that says how to install it when it is missing."""
    try:
        import confluent_kafka.admin

        return confluent_kafka
    except ImportError as error:
        raise MetadataStoreError(
            f"a metadata store in Kafka needs the package confluent-kafka ({error}): pip install 'mooring[kafka]'"
        ) from error


class KafkaClient:
    """Questions about one topic, each asked until it is answered or its time is over. Safe for threads."""

    def __init__(self, servers: str, topic: str, options: ClientOptions) -> None:
        """Connects to nobody yet. InvalidSettingError for an option that librdkafka does not know or want."""
        self.kafka = library()
        self.servers, self.topic, self.options = servers, topic, options
        self._trouble = ""
        self._denied = threading.Event()
        self._admin = self._fresh_admin()
        with self.settings_checked():
            self.kafka.Consumer(options.reading()).close()  # what does not fit together is said now, not by a thread

    @property
    def partition(self) -> Any:
        """The only partition."""
        return self.kafka.TopicPartition(self.topic, PARTITION)

    def with_error_callback(
        self, configuration: dict[str, Any], also: Callable[[str], None] | None = None
    ) -> dict[str, Any]:
        """The configuration of a client whose troubles are kept for messages here; `also` hears the error's name."""

        def heard(error: Any) -> None:
            if not self._trouble or error.name() != "_ALL_BROKERS_DOWN":  # which says least of all
                self._trouble = self.text_of(error)
            if error.name() in ("_AUTHENTICATION", "_SSL"):
                self._denied.set()
            if also is not None:
                also(error.name())

        return {**configuration, "error_cb": heard}

    @contextmanager
    def settings_checked(self) -> Iterator[None]:
        """Around the making of a client: what librdkafka refuses is the user's setting."""
        try:
            yield
        except (self.kafka.KafkaException, ValueError, TypeError) as error:
            text = str(self.error_of(error).str()) if isinstance(error, self.kafka.KafkaException) else str(error)
            raise self.options.refusal(text) from None  # the cause would print what the message leaves out

    def error_of(self, error: BaseException) -> Any:
        """The KafkaError in an exception of confluent-kafka's."""
        inner = error.args[0] if error.args else None
        return inner if isinstance(inner, self.kafka.KafkaError) else error

    def text_of(self, error: Any) -> str:
        """What an error says, without secrets."""
        return self.options.redact(f"{error.name()}: {error.str()}")

    def end_offset(self, deadline: float) -> int:
        """The end of what is committed, now: a reader that has come so far has seen every flushed write."""
        return self._offset(self.kafka.admin.OffsetSpec.latest(), deadline)

    def written_end(self, deadline: float) -> int:
        """The end of what is written, now, also in transactions that are not over yet."""
        everything = self.kafka.IsolationLevel.READ_UNCOMMITTED
        return self._offset(self.kafka.admin.OffsetSpec.latest(), deadline, everything)

    def first_offset(self, deadline: float) -> int:
        """Where the topic begins."""
        return self._offset(self.kafka.admin.OffsetSpec.earliest(), deadline)

    def partitions(self, deadline: float) -> int:
        """How many partitions the topic has. Refused (UNKNOWN_TOPIC_OR_PART) when there is none; makes none."""
        topics = self.kafka.TopicCollection([self.topic])
        found = self.ask(lambda admin, seconds: admin.describe_topics(topics, request_timeout=seconds), deadline)
        return len(found.partitions)

    def topic_configuration(self, deadline: float) -> dict[str, str]:
        """The topic's settings."""
        resource = self.kafka.admin.ConfigResource("topic", self.topic)
        found = self.ask(lambda admin, seconds: admin.describe_configs([resource], request_timeout=seconds), deadline)
        return {name: str(entry.value) for name, entry in found.items()}

    def brokers(self, deadline: float) -> int:
        """How many brokers there are."""
        found = self.ask(lambda admin, seconds: {"": admin.describe_cluster(request_timeout=seconds)}, deadline)
        return len(found.nodes)

    def create_topic(self, replication: int, configuration: dict[str, str], deadline: float) -> None:
        """Make the topic. Refused (TOPIC_ALREADY_EXISTS) when somebody was faster."""
        new = self.kafka.admin.NewTopic(
            self.topic, num_partitions=1, replication_factor=replication, config=configuration
        )
        self.ask(lambda admin, seconds: admin.create_topics([new], request_timeout=seconds), deadline)

    def ask(self, question: Callable[[Any, float], dict[Any, Future[Answer]]], deadline: float) -> Answer:
        """Ask one thing, again and again until the deadline; MetadataStoreUnavailable then. `Refused` for a no."""
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
                    # It would ask for ever with the leader's epoch that it knows: it never looks for a new one.
                    self._admin = self._fresh_admin()
            time.sleep(min(_AGAIN_SECONDS, max(left, 0)))

    def unavailable(self, what: str = "no answer in time") -> MetadataStoreUnavailable:
        """The error for brokers that cannot be reached, with what was last heard from them."""
        last = f"; last heard: {self._trouble}" if self._trouble else ""
        return MetadataStoreUnavailable(f"topic {self.topic} of Kafka at {self.servers}: {what}{last}")

    def _fresh_admin(self) -> Any:
        with self.settings_checked():
            return self.kafka.admin.AdminClient(self.with_error_callback(self.options.asking()))

    def _wait(self, admin: Any, answer: Future[Answer], deadline: float) -> Answer:
        """The answer; KafkaException with its error. Looks up now and then, to see a refused login at once."""
        while not self._denied.is_set() and time.monotonic() < deadline + 1:
            try:
                return answer.result(0.2)
            except FutureTimeout:
                admin.poll(0)  # so that it tells of its troubles
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
        if found.offset < 0:  # librdkafka's answer when its time is over and the broker has said nothing
            raise self.unavailable()
        return int(found.offset)

    def _is_passing(self, error: Any) -> bool:
        """Whether asking again may help: the fault is on the way, or the cluster is just sorting itself out."""
        codes = self.kafka.KafkaError
        return (error.code() < 0 and error.code() != codes._INVALID_ARG) or error.name() in _BROKER_BUSY
