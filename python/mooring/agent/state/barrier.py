"""The barrier of a new version of the job model.

A version comes into force in the JVM when every executor that lived when the version was announced has taken it up.
Executors that are lost or late are not waited for. Pure.

The agent announces a version to the JVM. Executors ask for the newest version, take it up, and report that. An executor
that does not take a version up in time is late, until it takes a later one up. A version that timed out is replaced by
the next one, which waits for the other executors only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from mooring.coordination.barrier import BarrierState, next_barrier_state


@dataclass(frozen=True, slots=True)
class Barrier:
    """The barrier of one version.

    `awaited_since_ms` has the executors that lived when the barrier was made and were not late. It maps each to the
    time since which it is awaited, in milliseconds since the epoch; an earlier barrier may have begun to await it.
    """

    version: int
    awaited_since_ms: Mapping[str, int]
    state: BarrierState = BarrierState.NEW

    def awaits(self, taken_up: Mapping[str, int], living: Collection[str]) -> frozenset[str]:
        """The living executors that have not taken up this version.

        `taken_up` maps an executor to the newest version that it has taken up.
        """
        return frozenset(id for id in self.awaited_since_ms if id in living and taken_up.get(id, -1) < self.version)


@dataclass(frozen=True, slots=True)
class PlanBarrier:
    """The newest barrier.

    `taken_up` maps an executor to the newest version that it has taken up. No barrier waits for executors in `late`.
    """

    barrier: Barrier | None = None
    taken_up: Mapping[str, int] = field(default_factory=dict)
    late: frozenset[str] = frozenset()

    @property
    def is_new(self) -> bool:
        """Whether a version waits for executors."""
        return self.barrier is not None and self.barrier.state is BarrierState.NEW

    def opened(self, version: int, living: Collection[str], now_ms: int) -> PlanBarrier:
        """With a new barrier, for a new version, in place of the barrier before.

        An executor that both barriers await gains no time.
        """
        before = self.barrier if self.is_new else None
        awaited = before.awaits(self.taken_up, living) if before else frozenset()
        since = {
            id: before.awaited_since_ms[id] if before and id in awaited else now_ms
            for id in living
            if id not in self.late
        }
        return replace(self, barrier=Barrier(version, since))

    def with_taken_up(self, executor: str, version: int) -> PlanBarrier:
        """With an executor that has taken up a version, and is no longer late."""
        return replace(self, taken_up={**self.taken_up, executor: version}, late=self.late - {executor})

    def without(self, executor: str) -> PlanBarrier:
        """Without an executor that was lost."""
        taken_up = {id: version for id, version in self.taken_up.items() if id != executor}
        return replace(self, taken_up=taken_up, late=self.late - {executor})

    def checked(self, living: Collection[str], now_ms: int, timeout_ms: int) -> PlanBarrier:
        """With the state of the barrier at this time. Executors that were awaited for `timeout_ms` are late."""
        if self.barrier is None or not self.is_new:
            return self
        since = self.barrier.awaited_since_ms
        missing = self.barrier.awaits(self.taken_up, living)
        waited_ms = max((now_ms - since[id] for id in missing), default=0)
        state = next_barrier_state(expected=missing, joined=(), waited_ms=waited_ms, timeout_ms=timeout_ms)
        late = frozenset(id for id in missing if now_ms - since[id] >= timeout_ms)
        return replace(self, barrier=replace(self.barrier, state=state), late=self.late | late)

    def deadline_ms(self, living: Collection[str], timeout_ms: int) -> float:
        """When the next executor is late, in milliseconds since the epoch; infinity while none is awaited."""
        if self.barrier is None or not self.is_new:
            return float("inf")
        awaited = self.barrier.awaits(self.taken_up, living)
        return min((self.barrier.awaited_since_ms[id] + timeout_ms for id in awaited), default=float("inf"))
