"""A new job model is in force only after every executor that must know it does: the barrier of its version."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from enum import Enum

from mooring.coordination.leadership import Leadership
from mooring.metadata.store import Cancel


class BarrierState(Enum):
    """How a barrier stands. NEW becomes one of the others, once; they are final."""

    NEW = "NEW"
    DONE = "DONE"
    TIMED_OUT = "TIMED_OUT"


def next_barrier_state(
    expected: Collection[str], joined: Collection[str], waited_ms: int, timeout_ms: int
) -> BarrierState:
    """What the leader makes of a barrier that is NEW: DONE when all who are expected have joined, else out of time?"""
    if set(expected) <= set(joined):
        return BarrierState.DONE
    return BarrierState.TIMED_OUT if waited_ms >= timeout_ms else BarrierState.NEW


class Barriers(ABC):
    """One barrier for each version; the newest ten kept. The leader opens and ends them, participants join."""

    @abstractmethod
    def open(self, version: int, leadership: Leadership) -> None:
        """Make a barrier that is NEW. LeadershipLost when that term is over; MetadataStoreError when it is there."""

    @abstractmethod
    def join(self, version: int, participant: str) -> bool:
        """Say that a participant knows this version, at most once in effect; False when the barrier is not NEW."""

    @abstractmethod
    def joined(self, version: int) -> frozenset[str]:
        """Who has joined."""

    @abstractmethod
    def state(self, version: int) -> BarrierState | None:
        """How it stands; None when there is none."""

    @abstractmethod
    def end(self, version: int, state: BarrierState, leadership: Leadership) -> BarrierState:
        """Make a NEW barrier DONE or TIMED_OUT; returns how it stands, which is another's word when that came first.

        LeadershipLost when the term is over and the barrier still NEW.
        """

    @abstractmethod
    def versions(self) -> list[int]:
        """The versions whose barriers are kept, oldest first."""

    @abstractmethod
    def watch(self, version: int, watcher: Callable[[], None]) -> Cancel:
        """Call `watcher` after somebody joined this barrier, or its state changed."""

    @abstractmethod
    def close(self) -> None:
        """End the watches."""
