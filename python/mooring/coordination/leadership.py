"""Who leads: at most one at a time, each with a number that is greater than those of all before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from mooring.metadata.store import Cancel


@dataclass(frozen=True)
class Leadership:
    """One term of one leader. What an act of the leader writes is refused once a term of a greater number began."""

    generation: int
    leader: str


LeaderListener = Callable[[Leadership | None], None]
"""Told the term that began, or None when it is over."""


class LeaderLock(ABC):
    """One client's part in the election.

    `leadership` is never stale: it is None from the moment at which another may lead, also in a process that was
    stopped meanwhile and has not heard of it. What happens between asking and acting nobody can rule out; so acts on
    what is shared take the Leadership as an argument, and are refused there with LeadershipLost when it is over.
    """

    @abstractmethod
    def campaign(self) -> None:
        """Take part from now on, again after each loss, until `resign`. Returns at once."""

    @property
    @abstractmethod
    def leadership(self) -> Leadership | None:
        """The term, when this client leads now. Asks nobody."""

    @property
    def is_leader(self) -> bool:
        """Whether this client leads now."""
        return self.leadership is not None

    @abstractmethod
    def wait(self, timeout: float) -> Leadership | None:
        """The term, as soon as this client leads; None after `timeout` seconds."""

    @abstractmethod
    def on_change(self, listener: LeaderListener) -> Cancel:
        """Call `listener`, on a thread of its own, when a term begins, and when it may be over."""

    @abstractmethod
    def confirm(self, leadership: Leadership) -> None:
        """Ask whether this is still the term; LeadershipLost when not, MetadataStoreUnavailable without an answer."""

    @abstractmethod
    def leader(self) -> str | None:
        """The name of the client that leads, or is about to; None when nobody takes part."""

    @abstractmethod
    def resign(self) -> None:
        """Take part no longer. Another may lead when this returns."""
