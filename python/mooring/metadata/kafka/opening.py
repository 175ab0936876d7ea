"""Makes a store from `kafka://host:port,host:port/topic` and the options of `spark.mooring.metadata.*`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.errors import InvalidSettingError, MetadataStoreError
from mooring.metadata.kafka.store import KafkaMetadataStore
from mooring.metadata.store import Report
from mooring.settings.notation import parse_duration_ms

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_ROLE = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PREFIX = "spark.mooring.metadata."


def open_kafka_store(uri: str, report: Report, options: Mapping[str, str]) -> KafkaMetadataStore:
    """The store in the topic that the address names.

    `timeout`, `replication.factor`, `make.topic` and `exclusive.writer` are the store's own options. `leader.timeout`
    is for drivers (see `leader_silence`). All others go to librdkafka. MetadataStoreError for an address that names no
    topic, InvalidSettingError for an option with a wrong value.
    """
    servers, topic = _parts(uri)
    rest = dict(options)
    leader_silence(rest.pop("leader.timeout", None))
    return KafkaMetadataStore(
        servers,
        topic,
        timeout_seconds=_seconds("timeout", rest.pop("timeout", "30s"), 0.1),
        replication_factor=_replication(rest.pop("replication.factor", None)),
        make_topic=_flag("make.topic", rest.pop("make.topic", "true")),
        exclusive_writer=_role(rest.pop("exclusive.writer", None)),
        options=rest,
        report=report,
    )


def _parts(uri: str) -> tuple[str, str]:
    expected = "expected kafka://host:port[,host:port]/topic"
    address = uri.partition(":")[2]
    if not address.startswith("//"):
        raise MetadataStoreError(f"{uri}: {expected}")
    servers, _, topic = address[2:].partition("/")
    if "@" in servers:
        # The message does not repeat the address, as a password may be in it.
        raise MetadataStoreError(
            f"an address of Kafka has no user in it ({expected}); use {_PREFIX}sasl.username and {_PREFIX}sasl.password"
        )
    if not servers or not all(servers.split(",")):
        raise MetadataStoreError(f"{uri} names no server; {expected}")
    if _TOPIC.fullmatch(topic) is None:
        raise MetadataStoreError(
            f"{uri}: {topic!r} is not the name of a topic (letters, digits, dot, underscore and dash, at most 249);"
            f" {expected}"
        )
    return servers, topic


def leader_silence(text: str | None) -> float:
    """The seconds of `leader.timeout`: after so long without a sign of the leader another driver may lead."""
    return _seconds("leader.timeout", text or "10s", 3)


def _seconds(name: str, text: str, least: float) -> float:
    try:
        seconds = parse_duration_ms(text) / 1000
    except ValueError:
        seconds = 0.0
    if not least <= seconds <= 600:
        raise InvalidSettingError(f"{_PREFIX}{name}={text}: expected a duration from {least:g}s to 10m, such as 30s")
    return seconds


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidSettingError(f"{_PREFIX}{name}={text}: expected true or false")
    return text.lower() == "true"


def _replication(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or not 1 <= int(text) <= 100:
        raise InvalidSettingError(f"{_PREFIX}replication.factor={text}: expected a number from 1 on")
    return int(text)


def _role(text: str | None) -> str | None:
    if text is not None and _ROLE.fullmatch(text) is None:
        raise InvalidSettingError(
            f"{_PREFIX}exclusive.writer={text}: expected letters, digits, dot, underscore or dash, at most 100"
        )
    return text
