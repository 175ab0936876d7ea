"""Requests to a running application: messages in the metadata store, their life, and how they are read and written."""

from mooring.placement.messages import (
    ANY_HOST,
    ANY_PROCESSOR,
    LAST_SEEN,
    STANDBY,
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    HostAction,
    StandbyAction,
    StatusCode,
)
from mooring.placement.store import ContainerPlacementMetadataStore, MalformedRequest, StoredMessages

__all__ = [
    "ANY_HOST",
    "ANY_PROCESSOR",
    "LAST_SEEN",
    "STANDBY",
    "ContainerPlacementMetadataStore",
    "ContainerPlacementRequestMessage",
    "ContainerPlacementResponseMessage",
    "HostAction",
    "MalformedRequest",
    "StandbyAction",
    "StatusCode",
    "StoredMessages",
]
