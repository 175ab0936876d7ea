"""Leadership: at most one client leads at a time, and each term has a greater number than all earlier ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from mooring.metadata.store import Cancel


@dataclass(frozen=True)
class Leadership:
    """One term of one leader. Its writes are refused after a term with a greater number has begun."""

    generation: int
    leader: str


LeaderListener = Callable[[Leadership | None], None]
"""Called with the term that began, or with None when a term is over."""


class LeaderLock(ABC):
    """One client's part in the election.

    `leadership` is None from the moment at which another client may lead, also in a process that was stopped meanwhile.
    The term can still end between a look at it and an act. So every act on shared data takes the Leadership as an
    argument, and is refused with LeadershipLost when that term is over.
    """

    @abstractmethod
    def campaign(self) -> None:
        """Take part until `resign`, also after a lost term. Returns at once."""

    @property
    @abstractmethod
    def leadership(self) -> Leadership | None:
        """The term when this client leads now, else None. Makes no call over the network."""

    @property
    def is_leader(self) -> bool:
        """Whether this client leads now."""
        return self.leadership is not None

    @abstractmethod
    def wait(self, timeout: float) -> Leadership | None:
        """Wait until this client leads, and return the term; None after `timeout` seconds."""

    @abstractmethod
    def on_change(self, listener: LeaderListener) -> Cancel:
        """Call `listener`, on a thread of its own, when a term begins, and when it may be over."""

    @abstractmethod
    def confirm(self, leadership: Leadership) -> None:
        """Ask the store whether this term goes on. LeadershipLost when not, MetadataStoreUnavailable without answer."""

    @abstractmethod
    def leader(self) -> str | None:
        """The name of the client that leads or is next to lead; None when no client takes part."""

    @abstractmethod
    def resign(self) -> None:
        """Take part no longer. Another client may lead when this returns."""
