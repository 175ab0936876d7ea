"""Orders that write and remove messages of the container placement store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from mooring.model.orders import Order, OrderStage
from mooring.placement import ContainerPlacementResponseMessage


@dataclass(frozen=True, slots=True)
class Answer(Order):
    """Write a response."""

    stage: ClassVar[OrderStage] = OrderStage.ANSWER
    response: ContainerPlacementResponseMessage


@dataclass(frozen=True, slots=True)
class RemoveMessages(Order):
    """Remove a request, and its response too where `response_too` is true."""

    stage: ClassVar[OrderStage] = OrderStage.ANSWER
    uuid: UUID
    response_too: bool = False
