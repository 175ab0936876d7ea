"""Orders that write and remove messages of the container placement store."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from mooring.model.orders import Order
from mooring.placement import ContainerPlacementResponseMessage


@dataclass(frozen=True, slots=True)
class Answer(Order):
    """Write a response."""

    response: ContainerPlacementResponseMessage


@dataclass(frozen=True, slots=True)
class RemoveMessages(Order):
    """Remove a request, and its response too where `response_too` is true."""

    uuid: UUID
    response_too: bool = False
