"""Orders: what the agent's core decides is to be done, as values. `mooring.agent.loop` carries them out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

from mooring.model.job_model import JobModel

Rows = Mapping[str, Mapping[int, tuple[str, ...]]]
"""Query id and partition to executors, the most wanted first."""


Copies = Mapping[str, Mapping[int, tuple[str, ...]]]
"""Query id and partition to the executors that are to hold a copy of its state, in the order of the replicas."""


class OrderStage(IntEnum):
    """When an order of a decision is carried out.

    A client gets an answer only after the overrides are saved: a later agent must know what was answered.
    """

    ACT = 0
    SAVE_OVERRIDES = 1
    ANSWER = 2


@dataclass(frozen=True, slots=True)
class Order:
    """Something to be done."""

    stage: ClassVar[OrderStage] = OrderStage.ACT


def by_stage(orders: Iterable[Order]) -> list[Order]:
    """The orders by their stage; orders of one stage stay in their order."""
    return sorted(orders, key=lambda order: order.stage)


@dataclass(frozen=True, slots=True)
class OfferPlan(Order):
    """Let executors take up a version of the job model; nothing is placed by it yet."""

    version: int


@dataclass(frozen=True, slots=True)
class SaveBarrier(Order):
    """Keep how the barrier of a version stands: NEW, DONE or TIMED_OUT."""

    version: int
    state: str


@dataclass(frozen=True, slots=True)
class PublishPlan(Order):
    """Give the JVM a plan; it holds from the next batch on."""

    version: int
    rows: Rows
    copies: Copies = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SaveJobModel(Order):
    """Keep a new version of the job model, with the locations of its processors."""

    model: JobModel


@dataclass(frozen=True, slots=True)
class SaveTaskLocality(Order):
    """Keep where tasks were last: task name to location, only those that changed."""

    changed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RestartExecutor(Order):
    """End an executor once no task runs on it, and have another one come; for one request once.

    Given up when there is no such moment within `wait_ms`.
    """

    request: str
    executor: str
    wait_ms: int


@dataclass(frozen=True, slots=True)
class LogLine(Order):
    """Write a line into the driver's log.

    A warning by default. What an operator has asked, and its ordinary course, is no warning: it is logged at INFO.
    """

    message: str
    is_warning: bool = True
