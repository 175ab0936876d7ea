"""The operations on a directory that the file store uses.

`local_tree` implements them for local directories, `mooring.spark.hadoop_tree` for Hadoop's FileSystem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

TEMPORARY_PREFIX = ".tmp-"
"""Names of files that are being written begin so. A writer that dies leaves its file; the store removes old ones."""


@dataclass(frozen=True)
class FileEntry:
    """One file of a directory. `version` is a text that differs after every write of the file."""

    name: str
    size: int
    modified_seconds: float
    version: str


@dataclass(frozen=True)
class Unreadable:
    """A file that exists and cannot be read: no permission, not a plain file, a bad sector. Others may be readable."""

    reason: str


class FileTree(Protocol):
    """One directory without subdirectories. All methods may be called from any thread.

    Names are ASCII, at most 143 bytes, without slashes, and differ in more than case. Errors of the file system are
    translated: MetadataStoreUnavailable where the directory cannot be reached, and then nothing was written.
    OutcomeUnknown where a write, a deletion or a sync may have been done or not.

    A tree on Hadoop's local file system uses the raw one (`getRawFileSystem`). The other one keeps a checksum file
    beside each file, and refuses files that a client has written through `LocalFileTree`.
    """

    @property
    def place(self) -> str:
        """The directory, for messages."""

    @property
    def reads_at_once(self) -> int:
        """How many files to read at the same time: one on a local disk, many over a network."""

    def stamp(self) -> object:
        """A value that differs after a file was added, removed or replaced; None where there is no cheap one."""

    def list(self) -> list[FileEntry]:
        """Every plain file of the directory; empty where the directory does not exist."""

    def read(self, name: str, limit: int) -> bytes | Unreadable | None:
        """The whole file; None where there is none; Unreadable also for a file of more than `limit` bytes."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a new file, of which no reader sees a part. False, and nothing is done, where the file exists.

        Of several calls at the same time one succeeds. A missing directory is made.
        """

    def write_atomic(self, name: str, data: bytes) -> None:
        """Write a file, in place of the one before it. No reader sees a part of it. A missing directory is made."""

    def delete(self, name: str) -> None:
        """Remove a file; a missing one is fine."""

    def sync(self) -> None:
        """Return when all writes survive a power cut, as far as the storage promises that."""
