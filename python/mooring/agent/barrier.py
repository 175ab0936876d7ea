"""A new version of the job model is obeyed only after all living executors know it, or were given up.

Pure. The agent offers a version to the JVM; executors ask for the newest one and say that they know it. Who does not in
time is given up until it speaks again, and the version is replaced by the next one, which waits for the others only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from mooring.coordination.barrier import BarrierState, verdict


@dataclass(frozen=True, slots=True)
class Barrier:
    """The barrier of one version; `expected` are the executors that lived when it was opened and were not given up."""

    version: int
    opened_at_ms: int
    expected: frozenset[str]
    state: BarrierState = BarrierState.NEW

    def awaits(self, known: Mapping[str, int], living: Collection[str]) -> frozenset[str]:
        """The executors that live and do not know the version yet; `known`: executor to the newest it knows."""
        return frozenset(id for id in self.expected & frozenset(living) if known.get(id, -1) < self.version)


@dataclass(frozen=True, slots=True)
class Gate:
    """The newest barrier, and what is known of the executors."""

    barrier: Barrier | None = None
    known: Mapping[str, int] = field(default_factory=dict)
    given_up: frozenset[str] = frozenset()

    @property
    def is_new(self) -> bool:
        """Whether a version waits."""
        return self.barrier is not None and self.barrier.state is BarrierState.NEW

    def opened(self, version: int, living: Collection[str], now_ms: int) -> Gate:
        """With a barrier for a new version, in the place of the one before."""
        return replace(self, barrier=Barrier(version, now_ms, frozenset(living) - self.given_up))

    def picked_up(self, executor: str, version: int) -> Gate:
        """An executor knows a version: it is there, after all."""
        return replace(self, known={**self.known, executor: version}, given_up=self.given_up - {executor})

    def without(self, executor: str) -> Gate:
        """An executor is gone."""
        known = {id: version for id, version in self.known.items() if id != executor}
        return replace(self, known=known, given_up=self.given_up - {executor})

    def judged(self, living: Collection[str], now_ms: int, timeout_ms: int) -> Gate:
        """The barrier as it stands now; who keeps it out of time is given up."""
        if self.barrier is None or not self.is_new:
            return self
        missing = self.barrier.awaits(self.known, living)
        state = verdict(missing, (), now_ms - self.barrier.opened_at_ms, timeout_ms)
        given_up = self.given_up | missing if state is BarrierState.TIMED_OUT else self.given_up
        return replace(self, barrier=replace(self.barrier, state=state), given_up=given_up)
