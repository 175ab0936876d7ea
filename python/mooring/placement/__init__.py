"""What clients ask of a running application: messages in the metadata store, and who reads and writes them."""

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
