"""Makes librdkafka's configurations from the options of `spark.mooring.metadata.*`, and keeps secrets out of texts."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping
from typing import Any

from mooring.errors import InvalidSettingError, MetadataStoreError
from mooring.metadata.store import MAX_VALUE_BYTES

RECORD_BYTES = MAX_VALUE_BYTES + 1024 * 1024
"""The largest record of a topic that the store makes: the largest value, and room for a long key."""

_PREFIX = "spark.mooring.metadata."
_SECRET = re.compile(r"password|secret|token|credential|\.pem$|\.jwt|assertion|oauthbearer\.config|jaas", re.IGNORECASE)
_NAMED_PROPERTY = re.compile(r'configuration property:? "([^"]+)"')

# Options that the store sets itself, because its promises depend on them. Some have two names in librdkafka.
_OURS = {
    "bootstrap.servers": "the servers are named in the address, kafka://host:port/topic",
    "metadata.broker.list": "the servers are named in the address, kafka://host:port/topic",
    "transactional.id": "use exclusive.writer",
    **dict.fromkeys(
        (
            "acks",
            "request.required.acks",
            "allow.auto.create.topics",
            "auto.offset.reset",
            "enable.auto.commit",
            "enable.idempotence",
            "enable.partition.eof",
            "isolation.level",
            "message.timeout.ms",
            "delivery.timeout.ms",
            "transaction.timeout.ms",
        ),
        "the store sets it itself; its promises rest on it",
    ),
}

# The user's values replace these.
_DEFAULTS: Mapping[str, Any] = {
    "client.id": "mooring",
    "reconnect.backoff.max.ms": 1_000,
    "socket.keepalive.enable": True,
    "message.max.bytes": RECORD_BYTES + 64 * 1024,
}
_READING: Mapping[str, Any] = {
    # The consumer learns of the partition's end by an empty fetch, so a reader waits this long after a transaction.
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    "max.partition.fetch.bytes": RECORD_BYTES,
    "fetch.max.bytes": 2 * RECORD_BYTES,
    "receive.message.max.bytes": 3 * RECORD_BYTES,
}

_log = logging.getLogger("mooring.metadata.kafka")


class ClientOptions:
    """The configurations of the three clients of one store: the admin client, the consumer and the producer.

    `repr` shows no secret, and `redact` removes secrets from any text. InvalidSettingError for an option that the store
    sets itself. An option that librdkafka does not know is found when a client is made, see `refusal`.
    """

    def __init__(self, servers: str, options: Mapping[str, str]) -> None:
        for name in sorted(set(options) & set(_OURS)):
            raise InvalidSettingError(f"{_PREFIX}{name} cannot be set: {_OURS[name]}")
        self._servers = servers
        self._options = dict(options)
        self._secrets = sorted(
            (value for name, value in options.items() if value and _SECRET.search(name)), key=len, reverse=True
        )

    def __repr__(self) -> str:
        return f"ClientOptions({self._servers!r}, {sorted(self._options)})"

    @property
    def message_max_bytes(self) -> int:
        """The largest record that this client sends, in bytes."""
        return int(self._options.get("message.max.bytes", _DEFAULTS["message.max.bytes"]))

    def asking(self) -> dict[str, Any]:
        """The configuration of the admin client, which asks about topics and offsets."""
        return self._common({"allow.auto.create.topics": False})

    def reading(self) -> dict[str, Any]:
        """The configuration of the consumer. It joins no group, but librdkafka requires a group id all the same."""
        return self._common(
            {
                "group.id": self._options.get("group.id", f"mooring-metadata-{uuid.uuid4().hex[:8]}"),
                "allow.auto.create.topics": False,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            },
            _READING,
        )

    def writing(self, timeout_seconds: float, transactional_id: str | None = None) -> dict[str, Any]:
        """The configuration of the producer. That of an exclusive writer has a transactional id."""
        ours: dict[str, Any] = {
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": max(1, round(timeout_seconds * 1000)),
        }
        if transactional_id is not None:
            ours |= {"transactional.id": transactional_id, "transaction.timeout.ms": ours["message.timeout.ms"]}
        return self._common(ours, {"linger.ms": 0})

    def redact(self, text: str) -> str:
        """The text with `***` in place of every secret."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def refusal(self, text: str) -> MetadataStoreError | InvalidSettingError:
        """The error for a client that librdkafka did not make. It names the setting, and shows no secret."""
        named = _NAMED_PROPERTY.search(text)
        subject = f"{_PREFIX}{named[1]}" if named else f"{_PREFIX}*"
        return InvalidSettingError(f"{subject}: {self.redact(text)}")

    def log(self, level: int, text: str, *words: object) -> None:
        """Write librdkafka's log at DEBUG. Important lines also come as errors, which are raised or reported."""
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s", self.redact(text % words if words else text))

    def _common(self, ours: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {
            **_DEFAULTS,
            **(defaults or {}),
            **self._options,
            "bootstrap.servers": self._servers,
            **ours,
            "logger": self,
        }
