"""The living processors and their locations. Each processor is announced for as long as a client's session lasts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from mooring.metadata.store import Cancel


class Processors(ABC):
    """The living processors. An entry of a client is gone when its session ends, and comes back with a new session."""

    @abstractmethod
    def announce(self, processor_id: str, location_id: str) -> None:
        """Make an entry for this processor at this location, until `withdraw`.

        An entry of another client stays until that client's session ends. Then this client's entry replaces it.
        """

    @abstractmethod
    def withdraw(self, processor_id: str) -> None:
        """Remove the entry of a processor; nothing happens if this client has not announced it."""

    @abstractmethod
    def all(self) -> Mapping[str, str]:
        """Every living processor id, with its location."""

    @abstractmethod
    def watch(self, watcher: Callable[[], None]) -> Cancel:
        """Call `watcher` after processors came or went. One call may stand for several changes."""

    @abstractmethod
    def close(self) -> None:
        """Remove this client's entries, and end the watches."""
