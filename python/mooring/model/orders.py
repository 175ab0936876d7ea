"""Orders: the decisions of the agent's core, as values. `mooring.agent.loop` carries them out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

from mooring.model.job_model import JobModel

Rows = Mapping[str, Mapping[int, tuple[str, ...]]]
"""Query id and partition to executors, the preferred executor first."""


Copies = Mapping[str, Mapping[int, tuple[str, ...]]]
"""Query id and partition to the executors that are to hold a copy of the state, in the order of the replicas.

In JSON it is `standbys`."""


class OrderRank(IntEnum):
    """When an order of a decision is carried out: orders of a lower rank first.

    A client gets an answer only after the overrides are saved: a later agent must know what was answered.
    """

    ACT = 0
    SAVE_OVERRIDES = 1
    ANSWER = 2


@dataclass(frozen=True, slots=True)
class Order:
    """One thing to do."""

    rank: ClassVar[OrderRank] = OrderRank.ACT


def by_rank(orders: Iterable[Order]) -> list[Order]:
    """The orders by their rank; orders of one rank stay in their order."""
    return sorted(orders, key=lambda order: order.rank)


@dataclass(frozen=True, slots=True)
class AnnounceVersion(Order):
    """Announce a version of the job model to executors. It places no task yet."""

    version: int


@dataclass(frozen=True, slots=True)
class SaveBarrier(Order):
    """Save the state of the barrier of a version: NEW, DONE or TIMED_OUT."""

    version: int
    state: str


@dataclass(frozen=True, slots=True)
class PublishPlan(Order):
    """Give the JVM a plan, which places tasks from the next batch on."""

    version: int
    rows: Rows
    copies: Copies = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SaveJobModel(Order):
    """Save a new version of the job model, with the locations of its processors."""

    model: JobModel


@dataclass(frozen=True, slots=True)
class SaveTaskLocality(Order):
    """Save the last locations of tasks. `changed` maps the names of tasks that moved to their locations."""

    changed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RestartExecutor(Order):
    """End an executor when no task runs on it, so that Spark starts another one. One request ends one executor.

    The JVM gives up when the executor has tasks for all of `wait_ms`.
    """

    request: str
    executor: str
    wait_ms: int


@dataclass(frozen=True, slots=True)
class ForgetRestart(Order):
    """Have the JVM forget the restart for a request whose answer is in the store. Later agents do not hear of it."""

    request: str


@dataclass(frozen=True, slots=True)
class WantHosts(Order):
    """Have the cluster manager asked for executors on these hosts, now and at the next start.

    There is one host for each executor, the most important first. On Kubernetes a host is a node, and `at` maps the
    living executors to their nodes. No new executor should come to the hosts in `avoided`. An order replaces the one
    before.
    """

    hosts: tuple[str, ...]
    at: Mapping[str, str] = field(default_factory=dict)
    avoided: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogLine(Order):
    """Write a line into the driver's log.

    A warning by default. An operator's request and its normal progress are logged at INFO.
    """

    message: str
    is_warning: bool = True
