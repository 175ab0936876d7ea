"""What clients ask of a running application: messages in the metadata store, and who reads and writes them."""

from mooring.placement.messages import (
    ANY_HOST,
    LAST_SEEN,
    STANDBY,
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    StandbyAction,
    StatusCode,
)
from mooring.placement.store import ContainerPlacementMetadataStore, MalformedRequest, StoredMessages

__all__ = [
    "ANY_HOST",
    "LAST_SEEN",
    "STANDBY",
    "ContainerPlacementMetadataStore",
    "ContainerPlacementRequestMessage",
    "ContainerPlacementResponseMessage",
    "MalformedRequest",
    "StandbyAction",
    "StatusCode",
    "StoredMessages",
]
