"""Which processors live, and where: each says so itself, for as long as its session lasts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from mooring.metadata.store import Cancel


class Processors(ABC):
    """The living processors. What one client announces is gone when its session ends, and comes back with a new one."""

    @abstractmethod
    def announce(self, processor_id: str, location_id: str) -> None:
        """Say that this processor lives here, until `withdraw`.

        An entry that another client has made stays until that client's session ends, then this one takes its place.
        """

    @abstractmethod
    def withdraw(self, processor_id: str) -> None:
        """Say no longer that it lives; one that was never announced here is left alone."""

    @abstractmethod
    def all(self) -> Mapping[str, str]:
        """Every living processor, with its location."""

    @abstractmethod
    def watch(self, watcher: Callable[[], None]) -> Cancel:
        """Call `watcher` after processors came or went; changes close together may be told as one."""

    @abstractmethod
    def close(self) -> None:
        """Withdraw what was announced here, and end the watches."""
