"""The barrier of a job model's version: it is in force after every executor that must take it up has done so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from enum import Enum

from mooring.coordination.leadership import Leadership
from mooring.metadata.store import Cancel


class BarrierState(Enum):
    """The state of a barrier. NEW becomes DONE or TIMED_OUT, once; those two are final."""

    NEW = "NEW"
    DONE = "DONE"
    TIMED_OUT = "TIMED_OUT"


def next_barrier_state(
    expected: Collection[str], joined: Collection[str], waited_ms: int, timeout_ms: int
) -> BarrierState:
    """The next state of a barrier that is NEW: DONE when all expected participants have joined, else by the time."""
    if set(expected) <= set(joined):
        return BarrierState.DONE
    return BarrierState.TIMED_OUT if waited_ms >= timeout_ms else BarrierState.NEW


class Barriers(ABC):
    """One barrier for each version; the newest ten are kept. The leader opens and ends barriers, participants join.

    The agent decides by `mooring.agent.state.barrier`, and records only the result here (`mooring.records.zookeeper`):
    no executor joins.
    """

    @abstractmethod
    def open(self, version: int, leadership: Leadership) -> None:
        """Make a barrier that is NEW. LeadershipLost when the term is over; MetadataStoreError when it exists."""

    @abstractmethod
    def join(self, version: int, participant: str) -> bool:
        """Record that a participant has this version; False when the barrier is not NEW. A second call does nothing."""

    @abstractmethod
    def joined(self, version: int) -> frozenset[str]:
        """The participants that have joined."""

    @abstractmethod
    def state(self, version: int) -> BarrierState | None:
        """The state of the barrier; None when there is no barrier."""

    @abstractmethod
    def end(self, version: int, state: BarrierState, leadership: Leadership) -> BarrierState:
        """Make a NEW barrier DONE or TIMED_OUT. Returns its state, which another client may have set before.

        LeadershipLost when the term is over and the barrier is still NEW.
        """

    @abstractmethod
    def versions(self) -> list[int]:
        """The versions whose barriers are kept, oldest first."""

    @abstractmethod
    def watch(self, version: int, watcher: Callable[[], None]) -> Cancel:
        """Call `watcher` after a participant joined this barrier, or after its state changed."""

    @abstractmethod
    def close(self) -> None:
        """End the watches."""
