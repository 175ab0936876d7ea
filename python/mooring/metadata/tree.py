"""The few things a file store needs of a directory: local here, Hadoop's FileSystem in `mooring.spark`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

TEMPORARY_PREFIX = ".tmp-"
"""Files whose names begin so are being written, or a writer died over them; the store removes old ones."""


@dataclass(frozen=True)
class FileEntry:
    """One file of a directory. `version` is any text that differs after the file was written again."""

    name: str
    size: int
    modified_seconds: float
    version: str


@dataclass(frozen=True)
class Unreadable:
    """A file that is there and cannot be read, while others may be: no permission, not a plain file, a bad sector."""

    reason: str


class FileTree(Protocol):
    """One flat directory.

    No error of the file system's own gets out: MetadataStoreUnavailable when the directory cannot be reached (and then
    nothing was written), OutcomeUnknown when a write, deletion or sync may or may not have happened. Names are ASCII,
    at most 143 bytes, without slashes, and differ in more than case. All methods may be called from any thread.

    A tree on Hadoop's local file system takes the raw one (`getRawFileSystem`): the other keeps a checksum file beside
    each record, and would refuse what a client has written through `LocalFileTree`.
    """

    @property
    def place(self) -> str:
        """The directory, for messages."""

    @property
    def reads_at_once(self) -> int:
        """How many files are worth being read at the same time: many where each is asked for over a network."""

    def stamp(self) -> object:
        """Something that differs after a file came, went or was replaced; None where that can not be told cheaply."""

    def list(self) -> list[FileEntry]:
        """Every plain file of the directory; none when the directory does not exist."""

    def read(self, name: str, limit: int) -> bytes | Unreadable | None:
        """The whole file; None when there is none; Unreadable also for one of more than `limit` bytes."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that is not there, so that no reader sees a part of it; False, and nothing done, when it is.

        Of several that try at once one succeeds. A missing directory is made.
        """

    def write_atomic(self, name: str, data: bytes) -> None:
        """Write a file over what was there, so that no reader sees a part of it; make a missing directory."""

    def delete(self, name: str) -> None:
        """Remove a file; a missing one is fine."""

    def sync(self) -> None:
        """Return when what was written survives a power cut, as far as the storage can promise that."""
