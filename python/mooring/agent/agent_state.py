"""The state of the agent: one immutable value, which each event replaces. All decisions are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.agent.drains.drainage import Drainage
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.state.barrier import PlanBarrier
from mooring.agent.state.fleet import Fleet
from mooring.model.orders import Copies, Rows, WantHosts
from mooring.records.operator_overrides import NO_OVERRIDES, OperatorOverrides


@dataclass(frozen=True, slots=True)
class AgentState:
    """The fleet, requests, drains, and what the JVM and the metadata store got last.

    `published` and `published_copies` are the plan that this agent has published last. `version_in_force` is the
    version of the plan that the JVM holds. A newer version of the job model waits at the `plan_barrier` until
    executors have taken it up. `saved_version`, `saved_locality` and `saved_overrides` are in the store, so that
    only differences are written. `hosts_wanted` is the last such order. `queue` has the requests of operators, and
    `drainage` the drains.
    """

    fleet: Fleet = field(default_factory=Fleet)
    published: Rows = field(default_factory=dict)
    published_copies: Copies = field(default_factory=dict)
    version_in_force: int = -1
    plan_barrier: PlanBarrier = field(default_factory=PlanBarrier)
    saved_version: int = -1
    saved_locality: Mapping[str, str] = field(default_factory=dict)
    saved_overrides: OperatorOverrides = NO_OVERRIDES
    hosts_wanted: WantHosts | None = None
    queue: RequestQueue = field(default_factory=RequestQueue)
    drainage: Drainage = field(default_factory=Drainage)

    @property
    def rows_in_jvm(self) -> Rows:
        """The rows that the JVM holds: those that this agent has published last, else those of the agent before."""
        return self.published or self.fleet.rows_at_start
