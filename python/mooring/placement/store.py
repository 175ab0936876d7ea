"""Stores requests and responses in any metadata store: two keys for each uuid, in a namespace of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mooring.errors import InvalidMessageError
from mooring.metadata import MetadataStore, NamespacedMetadataStore
from mooring.model.fields import uuid_of
from mooring.placement.messages import (
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    malformed_request_of,
)

NAMESPACE: Final = "samza-place-container-v1"
_REQUEST, _RESPONSE = ContainerPlacementRequestMessage.__name__, ContainerPlacementResponseMessage.__name__


@dataclass(frozen=True, slots=True)
class MalformedRequest:
    """A request that can not be read, and why. `request` has its uuid and the ids that could be read."""

    request: ContainerPlacementRequestMessage
    reason: str


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """All messages at one moment, by uuid. `unreadable` has the uuids of responses that can not be read."""

    requests: Mapping[UUID, ContainerPlacementRequestMessage]
    malformed: Mapping[UUID, MalformedRequest]
    responses: Mapping[UUID, ContainerPlacementResponseMessage]
    unreadable: frozenset[UUID] = frozenset()


class ContainerPlacementMetadataStore:
    """Reads and writes messages. Raises what the store raises; the caller closes the store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = NamespacedMetadataStore(store, NAMESPACE)

    def write_request(self, request: ContainerPlacementRequestMessage) -> None:
        """Write a request. When this returns, every reader sees it."""
        self._store.put(_key(request.uuid, _REQUEST), request.to_json().encode())
        self._store.flush()

    def write_response(self, response: ContainerPlacementResponseMessage) -> None:
        """Write a response; only the agent that leads does."""
        self._store.put(_key(response.request.uuid, _RESPONSE), response.to_json().encode())

    def read_request(self, uuid: UUID) -> ContainerPlacementRequestMessage | None:
        """The request; None when there is none. InvalidMessageError when it can not be read."""
        text = self._store.get(_key(uuid, _REQUEST))
        return None if text is None else ContainerPlacementRequestMessage.from_json(text)

    def read_response(self, uuid: UUID) -> ContainerPlacementResponseMessage | None:
        """The response; None when there is none. InvalidMessageError when it can not be read."""
        text = self._store.get(_key(uuid, _RESPONSE))
        return None if text is None else ContainerPlacementResponseMessage.from_json(text)

    def delete_request(self, uuid: UUID) -> None:
        """Remove the request; its response stays. A missing request is no error."""
        self._store.delete(_key(uuid, _REQUEST))

    def delete_both(self, uuid: UUID) -> None:
        """Remove request and response. Missing ones are no error."""
        self._store.delete(_key(uuid, _REQUEST))
        self._store.delete(_key(uuid, _RESPONSE))

    def all(self) -> StoredMessages:
        """Every message. Keys of another form are ignored."""
        requests: dict[UUID, ContainerPlacementRequestMessage] = {}
        malformed: dict[UUID, MalformedRequest] = {}
        responses: dict[UUID, ContainerPlacementResponseMessage] = {}
        unreadable: set[UUID] = set()
        for key, text in self._store.all().items():
            name, _, kind = key.partition(".")
            uuid = uuid_of(name)
            if uuid is None or _key(uuid, kind) != key:
                continue
            try:
                if kind == _REQUEST:
                    requests[uuid] = _checked_uuid(ContainerPlacementRequestMessage.from_json(text), uuid)
                elif kind == _RESPONSE:
                    responses[uuid] = ContainerPlacementResponseMessage.from_json(text)
            except (InvalidMessageError, RecursionError) as fault:
                if kind == _REQUEST:
                    malformed[uuid] = MalformedRequest(malformed_request_of(uuid, text), str(fault))
                else:
                    unreadable.add(uuid)
        return StoredMessages(requests, malformed, responses, frozenset(unreadable))


def _key(uuid: UUID, kind: str) -> str:
    return f"{uuid}.{kind}"


def _checked_uuid(request: ContainerPlacementRequestMessage, uuid: UUID) -> ContainerPlacementRequestMessage:
    if request.uuid != uuid:
        raise InvalidMessageError(f'uuid is "{request.uuid}": expected "{uuid}", as in the key')
    return request
