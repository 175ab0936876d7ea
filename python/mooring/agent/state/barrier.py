"""A new version of the job model is in force only after all living executors know it, or were given up.

Pure. The agent offers a version to the JVM; executors ask for the newest one and say that they know it. Who does not in
time is given up until it speaks again, and the version is replaced by the next one, which waits for the others only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from mooring.coordination.barrier import BarrierState, next_barrier_state


@dataclass(frozen=True, slots=True)
class Barrier:
    """The barrier of one version.

    `awaited_since_ms` has the executors that lived when it was opened and were not given up; each with the moment from
    which on it is waited for, which may be that of a barrier before this one.
    """

    version: int
    awaited_since_ms: Mapping[str, int]
    state: BarrierState = BarrierState.NEW

    def awaits(self, known: Mapping[str, int], living: Collection[str]) -> frozenset[str]:
        """The executors that live and do not know the version yet; `known`: executor to the newest it knows."""
        return frozenset(id for id in self.awaited_since_ms if id in living and known.get(id, -1) < self.version)


@dataclass(frozen=True, slots=True)
class PlanBarrier:
    """The newest barrier, and what is known of the executors."""

    barrier: Barrier | None = None
    known: Mapping[str, int] = field(default_factory=dict)
    given_up: frozenset[str] = frozenset()

    @property
    def is_new(self) -> bool:
        """Whether a version waits."""
        return self.barrier is not None and self.barrier.state is BarrierState.NEW

    def opened(self, version: int, living: Collection[str], now_ms: int) -> PlanBarrier:
        """With a barrier for a new version, in the place of the one before; who keeps both waiting gains no time."""
        before = self.barrier if self.is_new else None
        late = before.awaits(self.known, living) if before else frozenset()
        since = {
            id: before.awaited_since_ms[id] if before and id in late else now_ms
            for id in living
            if id not in self.given_up
        }
        return replace(self, barrier=Barrier(version, since))

    def picked_up(self, executor: str, version: int) -> PlanBarrier:
        """An executor knows a version: it is there, after all."""
        return replace(self, known={**self.known, executor: version}, given_up=self.given_up - {executor})

    def without(self, executor: str) -> PlanBarrier:
        """An executor is gone."""
        known = {id: version for id, version in self.known.items() if id != executor}
        return replace(self, known=known, given_up=self.given_up - {executor})

    def judged(self, living: Collection[str], now_ms: int, timeout_ms: int) -> PlanBarrier:
        """The barrier as it stands now; who keeps it waiting for too long is given up."""
        if self.barrier is None or not self.is_new:
            return self
        since = self.barrier.awaited_since_ms
        missing = self.barrier.awaits(self.known, living)
        state = next_barrier_state(missing, (), max((now_ms - since[id] for id in missing), default=0), timeout_ms)
        late = frozenset(id for id in missing if now_ms - since[id] >= timeout_ms)
        return replace(self, barrier=replace(self.barrier, state=state), given_up=self.given_up | late)

    def deadline_ms(self, living: Collection[str], timeout_ms: int) -> float:
        """When somebody is given up if nothing is heard; infinity while nobody is waited for."""
        if self.barrier is None or not self.is_new:
            return float("inf")
        awaited = self.barrier.awaits(self.known, living)
        return min((self.barrier.awaited_since_ms[id] + timeout_ms for id in awaited), default=float("inf"))
