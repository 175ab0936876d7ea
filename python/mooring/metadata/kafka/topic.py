"""The topic of a store: made where it is missing, refused where its configuration does not fit."""

from __future__ import annotations

import time

from mooring.errors import MetadataStoreError, MetadataStoreMissing
from mooring.metadata.kafka.client import KafkaClient, Refused
from mooring.metadata.kafka.options import RECORD_BYTES

_REPLICAS = 3
_SEGMENT_MS = 600_000
_LOOK_AGAIN_SECONDS = 0.02


def open_topic(client: KafkaClient, replication: int | None, deadline: float, make: bool = True) -> int:
    """Make sure that there is a compacted topic of one partition. Returns the largest record that it accepts, in bytes.

    A missing topic is made with `replication` copies, by default one for each broker and at most three. Where `make` is
    false, MetadataStoreMissing is raised instead. MetadataStoreError for a topic that does not fit: with more
    partitions the records would have no order, and without compaction, or with deletion by age, values would be lost.
    """
    try:
        if not _exists(client, deadline):
            if not make:
                raise MetadataStoreMissing(
                    f"there is no topic {client.topic} in Kafka at {client.servers}; a job that keeps its metadata"
                    " there makes it"
                )
            _create(client, replication, deadline)
        return _check_shape(client, deadline)
    except Refused as refusal:
        raise MetadataStoreError(f"topic {client.topic} of Kafka at {client.servers}: {refusal}") from refusal


def _exists(client: KafkaClient, deadline: float) -> bool:
    try:
        client.partitions(deadline)
    except Refused as refusal:
        if refusal.name == "UNKNOWN_TOPIC_OR_PART":
            return False
        raise
    return True


def _create(client: KafkaClient, replication: int | None, deadline: float) -> None:
    """Make the topic, and wait until the brokers answer that it exists."""
    replicas = replication or min(_REPLICAS, client.brokers(deadline))
    configuration = {
        "cleanup.policy": "compact",
        "max.message.bytes": str(RECORD_BYTES),
        # A leader writes every few seconds, and Kafka does not compact the newest segment.
        "segment.ms": str(_SEGMENT_MS),
        "min.cleanable.dirty.ratio": "0.1",
        # An acknowledged record survives the loss of one broker.
        "min.insync.replicas": str(2 if replicas >= _REPLICAS else 1),
    }
    try:
        client.create_topic(replicas, configuration, deadline)
    except Refused as refusal:
        if refusal.name != "TOPIC_ALREADY_EXISTS":
            raise
    while not _exists(client, deadline):
        time.sleep(_LOOK_AGAIN_SECONDS)


def _check_shape(client: KafkaClient, deadline: float) -> int:
    partitions = client.partitions(deadline)
    configuration = client.topic_configuration(deadline)
    policy = configuration.get("cleanup.policy", "")
    where = f"topic {client.topic} of Kafka at {client.servers}"
    if partitions != 1:
        raise MetadataStoreError(
            f"{where} has {partitions} partitions; a metadata store needs a topic of one: name another topic, a missing"
            " one is made"
        )
    if policy != "compact":
        raise MetadataStoreError(
            f"{where} has cleanup.policy={policy}; a metadata store needs cleanup.policy=compact: name another topic, a"
            " missing one is made"
        )
    return int(configuration["max.message.bytes"])
