"""Orders that write and remove messages of the container placement store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from mooring.model.orders import Order, OrderRank
from mooring.placement import ContainerPlacementResponseMessage


@dataclass(frozen=True, slots=True)
class Answer(Order):
    """Write a response."""

    rank: ClassVar[OrderRank] = OrderRank.ANSWER
    response: ContainerPlacementResponseMessage


@dataclass(frozen=True, slots=True)
class RemoveMessages(Order):
    """Remove a request, and its response too where `response_too` is true."""

    rank: ClassVar[OrderRank] = OrderRank.ANSWER
    uuid: UUID
    response_too: bool = False
