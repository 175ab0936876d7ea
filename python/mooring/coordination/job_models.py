"""The published job models. Each is immutable and has its own version; the newest ten are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from mooring.coordination.leadership import Leadership
from mooring.metadata.store import Cancel
from mooring.model import JobModel

KEPT_VERSIONS = 10


class JobModels(ABC):
    """The job models that leaders have published."""

    @abstractmethod
    def publish(self, model: JobModel, leadership: Leadership) -> None:
        """Write a model under its version.

        LeadershipLost when the term is over; then nothing was written. MetadataStoreError when the version exists, or
        is older than the newest one.
        """

    @abstractmethod
    def versions(self) -> list[int]:
        """The versions that are kept, oldest first."""

    @abstractmethod
    def read(self, version: int) -> JobModel | None:
        """A model; None when that version is not kept. InvalidJobModelError when it is damaged."""

    def newest(self) -> JobModel | None:
        """The model that was published last, or None."""
        for version in reversed(self.versions()):
            model = self.read(version)
            if model is not None:  # it may have been removed since `versions`
                return model
        return None

    @abstractmethod
    def watch(self, watcher: Callable[[], None]) -> Cancel:
        """Call `watcher` after a model was published."""

    @abstractmethod
    def close(self) -> None:
        """End the watches."""


def to_remove(versions: list[int]) -> list[int]:
    """The versions that are older than the newest ten."""
    return sorted(versions)[:-KEPT_VERSIONS]
