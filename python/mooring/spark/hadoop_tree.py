"""A directory on any Hadoop file system, which the driver reads and writes with the application's credentials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from mooring.errors import MetadataStoreUnavailable, OutcomeUnknown
from mooring.metadata.local_tree import LocalFileTree
from mooring.metadata.tree import FileEntry, FileTree, Unreadable


def open_tree(jvm: Any, directory: str) -> FileTree:
    """The directory at a path or URI. A directory on the driver's disk is read directly, others through Hadoop."""
    tree = HadoopFileTree(jvm, directory)
    local = tree.local_path
    return LocalFileTree(local) if local else tree


class HadoopFileTree:
    """A `FileTree` over the driver's `DriverFiles`: for records, and for the logs and notes of a checkpoint."""

    def __init__(self, jvm: Any, directory: str) -> None:
        """`jvm` is Py4J's view of the driver; `directory` any path or URI that Hadoop understands."""
        self._directory = directory
        with self._translated("open the directory"):
            self._files = jvm.io.mooring.agent.Bridge.instance().files(directory)

    @property
    def place(self) -> str:
        """The directory, for messages."""
        return self._directory

    @property
    def local_path(self) -> str:
        """The plain path when the directory is on the driver's own disk, else empty."""
        with self._translated("look at the directory"):
            return str(self._files.localPath())

    @property
    def reads_at_once(self) -> int:
        """How many files are read at the same time: an object store takes about 30 ms for each."""
        return 16

    def stamp(self) -> object:
        """None: object stores have no stamp of a directory."""
        return None

    def list(self) -> list[FileEntry]:
        """Every plain file of the directory; none when the directory does not exist."""
        with self._translated("list"):
            forms = json.loads(self._files.list())
        return [_entry(form["name"], form["size"], form["modified"]) for form in forms]

    def read(self, name: str, limit: int) -> bytes | Unreadable | None:
        """The whole file; None when there is none; Unreadable also for one of more than `limit` bytes."""
        try:
            data = self._files.read(name, limit + 1)
        except Py4JJavaError as error:
            if _is_about_this_file(error):
                return Unreadable(_reason(error))
            raise MetadataStoreUnavailable(f"{self._directory}: can not read {name}: {_reason(error)}") from error
        except (Py4JError, OSError) as error:
            raise MetadataStoreUnavailable(f"the driver did not answer: {error}") from error
        if data is not None and len(data) > limit:
            return Unreadable(f"it has more than {limit} bytes")
        return None if data is None else bytes(data)

    def create(self, name: str, data: bytes) -> bool:
        """Write a new file; False when the file exists.

        Spark writes its logs of offsets and commits in the same way, so this is as safe as those on that storage.
        """
        with self._translated(f"create {name}", may_have_happened=True):
            return bool(self._files.create(name, data))

    def write_atomic(self, name: str, data: bytes) -> None:
        """Write or replace a file; no reader sees a part of it. Makes the directory when it is missing."""
        with self._translated(f"write {name}", may_have_happened=True):
            self._files.writeAtomic(name, data)

    def delete(self, name: str) -> None:
        """Remove a file; a missing one is fine."""
        with self._translated(f"delete {name}", may_have_happened=True):
            self._files.delete(name)

    def sync(self) -> None:
        """Do nothing: a closed file is as safe as the files of Spark's own checkpoints."""

    @contextmanager
    def _translated(self, action: str, may_have_happened: bool = False) -> Iterator[None]:
        kind = OutcomeUnknown if may_have_happened else MetadataStoreUnavailable
        try:
            yield
        except Py4JJavaError as error:
            raise kind(f"{self._directory}: can not {action}: {_reason(error)}") from error
        except (Py4JError, OSError) as error:
            raise kind(f"{self._directory}: the driver did not answer when asked to {action}: {error}") from error


def _entry(name: str, size: int, modified_ms: int) -> FileEntry:
    return FileEntry(name, size, modified_ms / 1000, f"{size}-{modified_ms}")


def _is_about_this_file(error: Py4JJavaError) -> bool:
    """Whether the error concerns this file alone: no permission, or a bad checksum. Else the storage may be away."""
    kind = str(error.java_exception.getClass().getName())
    return kind.endswith(("AccessControlException", "ChecksumException", "AccessDeniedException"))


def _reason(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString())
