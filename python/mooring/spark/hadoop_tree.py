"""A directory on any of Hadoop's file systems, reached through the driver with the application's credentials."""

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
    """The directory as the driver understands it: its own disk is read directly, everything else through Hadoop."""
    tree = HadoopFileTree(jvm, directory)
    local = tree.local_path
    return LocalFileTree(local) if local else tree


class HadoopFileTree:
    """A `FileTree` for `FileMetadataStore`, over the shim's `DriverFiles`."""

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
        """An object store takes 30 ms for each."""
        return 16

    def stamp(self) -> object:
        """Object stores have nothing of the kind."""
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
        """Write a file that is not there; False when it is.

        As safe as Spark's own logs of offsets and commits on that storage, which are written so.
        """
        with self._translated(f"create {name}", may_have_happened=True):
            return bool(self._files.create(name, data))

    def write_atomic(self, name: str, data: bytes) -> None:
        """Write a file over what was there; no reader sees a part of it.

        Makes the directory when it is missing.
        """
        with self._translated(f"write {name}", may_have_happened=True):
            self._files.writeAtomic(name, data)

    def delete(self, name: str) -> None:
        """Remove a file; a missing one is fine."""
        with self._translated(f"delete {name}", may_have_happened=True):
            self._files.delete(name)

    def sync(self) -> None:
        """What was closed is kept, as it is for Spark's own checkpoints; there is nothing more to ask for."""

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
    """Whether other files may still be read: no permission, a bad checksum.

    Anything else may be the whole storage.
    """
    kind = str(error.java_exception.getClass().getName())
    return kind.endswith(("AccessControlException", "ChecksumException", "AccessDeniedException"))


def _reason(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString())
