"""Requests and responses as values, and their JSON.

The fields are those of Samza's proposal on container placement (SEP-22), and two of Mooring's own. A request with
`standby` starts or stops the standbys of a processor; its `destinationHost` is `STANDBY`. A request with `hostAction`
is about every processor on the host in `destinationHost`; its `processorId` is `*`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from uuid import UUID

from mooring.errors import InvalidMessageError
from mooring.model.fields import Fields, fitting

ANY_HOST: Final = "ANY_HOST"
"""The destination of a request for which the agent chooses the host."""

LAST_SEEN: Final = "LAST_SEEN"
"""The destination that is the processor's present or last location: the processor is restarted there."""

STANDBY: Final = "STANDBY"
"""The destination that has copies of the processor's tasks; also the destination of a request about standbys."""

ANY_PROCESSOR: Final = "*"
"""The processor of a request that is about a whole host."""


class StatusCode(Enum):
    """The status of a request; a final status never changes."""

    CREATED = "CREATED"
    BAD_REQUEST = "BAD_REQUEST"
    ACCEPTED = "ACCEPTED"
    IN_PROGRESS = "IN_PROGRESS"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def is_final(self) -> bool:
        """Whether no other status follows."""
        return self in (StatusCode.BAD_REQUEST, StatusCode.SUCCEEDED, StatusCode.FAILED)


class StandbyAction(Enum):
    """What to do with the standbys of a processor's tasks."""

    START = "START"
    STOP = "STOP"


class HostAction(Enum):
    """What to do with a host: empty it and keep it empty, or open it for tasks and copies again."""

    DRAIN = "DRAIN"
    OPEN = "OPEN"


@dataclass(frozen=True, slots=True)
class ContainerPlacementRequestMessage:
    """A request of a client; `timestamp` is the client's time, in milliseconds since the epoch.

    `request_expiry_ms` is None where none is set. `standby` and `host_action` are None in a request that places a
    processor.
    """

    uuid: UUID
    deployment_id: str
    processor_id: str
    destination_host: str
    timestamp: int
    request_expiry_ms: int | None = None
    standby: StandbyAction | None = None
    host_action: HostAction | None = None

    @property
    def status_code(self) -> StatusCode:
        """A request is always CREATED."""
        return StatusCode.CREATED

    def as_json(self) -> dict[str, Any]:
        """The JSON object."""
        return _form(self, self.status_code, self.timestamp)

    def to_json(self) -> str:
        """The JSON text."""
        return json.dumps(self.as_json())

    @classmethod
    def from_json(cls, text: str | bytes) -> ContainerPlacementRequestMessage:
        """Read a request. InvalidMessageError names the field that is wrong; unknown fields are ignored."""
        fields = Fields(text)
        fields.fixed("subType", cls.__name__)
        fields.choice("statusCode", [StatusCode.CREATED])
        message = cls(
            fields.uuid("uuid"),
            fields.text("deploymentId", "the id of the application"),
            fields.text("processorId", "the id of a processor, as a text"),
            fields.text("destinationHost", "a host, ANY_HOST, STANDBY or LAST_SEEN"),
            fields.number("timestamp", "milliseconds since the epoch"),
            _expiry(fields),
            _standby(fields),
            _host_action(fields),
        )
        if message.host_action is not None:
            fields.fixed("processorId", ANY_PROCESSOR)
            fields.absent("standby", "a request with hostAction")
            fields.absent("requestExpiry", "a request with hostAction")
        if message.standby is not None:
            fields.fixed("destinationHost", STANDBY)
        return message

    def answered(self, status: StatusCode, message: str, at_ms: int) -> ContainerPlacementResponseMessage:
        """The response to this request; a message that is too long for readers is cut."""
        return ContainerPlacementResponseMessage(self, status, fitting(message), at_ms)


@dataclass(frozen=True, slots=True)
class ContainerPlacementResponseMessage:
    """The status of a request, and why; `timestamp` is the agent's time, in milliseconds since the epoch.

    In the response to a malformed request, ids that could not be read are empty.
    """

    request: ContainerPlacementRequestMessage
    status_code: StatusCode
    response_message: str
    timestamp: int

    def as_json(self) -> dict[str, Any]:
        """The JSON object."""
        form = _form(self.request, self.status_code, self.timestamp)
        return {**form, "subType": type(self).__name__, "responseMessage": self.response_message}

    def to_json(self) -> str:
        """The JSON text."""
        return json.dumps(self.as_json())

    @classmethod
    def from_json(cls, text: str | bytes) -> ContainerPlacementResponseMessage:
        """Read a response. InvalidMessageError names the field that is wrong; unknown fields are ignored.

        A response does not have the time of its request: `request.timestamp` is the response's time.
        """
        fields = Fields(text)
        fields.fixed("subType", cls.__name__)
        at_ms = fields.number("timestamp", "milliseconds since the epoch")
        request = ContainerPlacementRequestMessage(
            fields.uuid("uuid"),
            fields.text("deploymentId", "the id of the application", may_be_empty=True),
            fields.text("processorId", "the id of a processor, as a text", may_be_empty=True),
            fields.text("destinationHost", "a host, ANY_HOST, STANDBY or LAST_SEEN", may_be_empty=True),
            at_ms,
            _expiry(fields),
            _standby(fields),
            _host_action(fields),
        )
        status = fields.choice("statusCode", [status for status in StatusCode if status is not StatusCode.CREATED])
        reason = fields.text("responseMessage", "a text", may_be_empty=True)
        return cls(request, status, reason, at_ms)


def malformed_request_of(uuid: UUID, text: bytes) -> ContainerPlacementRequestMessage:
    """A malformed request, with the ids that can be read; the others are empty."""
    try:
        fields = Fields(text)
    except InvalidMessageError:
        return ContainerPlacementRequestMessage(uuid, "", "", "", 0)
    return ContainerPlacementRequestMessage(
        uuid,
        fields.as_readable_text("deploymentId"),
        fields.as_readable_text("processorId"),
        fields.as_readable_text("destinationHost"),
        timestamp=0,
    )


def _form(request: ContainerPlacementRequestMessage, status: StatusCode, timestamp: int) -> dict[str, Any]:
    return {
        "uuid": str(request.uuid),
        "deploymentId": request.deployment_id,
        "processorId": request.processor_id,
        "destinationHost": request.destination_host,
        "subType": ContainerPlacementRequestMessage.__name__,
        "statusCode": status.value,
        "timestamp": timestamp,
        **({} if request.request_expiry_ms is None else {"requestExpiry": request.request_expiry_ms}),
        **({} if request.standby is None else {"standby": request.standby.value}),
        **({} if request.host_action is None else {"hostAction": request.host_action.value}),
    }


def _expiry(fields: Fields) -> int | None:
    return fields.number("requestExpiry", "milliseconds") if fields.has("requestExpiry") else None


def _standby(fields: Fields) -> StandbyAction | None:
    return fields.choice("standby", StandbyAction) if fields.has("standby") else None


def _host_action(fields: Fields) -> HostAction | None:
    return fields.choice("hostAction", HostAction) if fields.has("hostAction") else None
