"""A `FileTree` in a directory of this machine, or of a file system that is mounted on it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
import uuid
from collections.abc import Iterator

from mooring.errors import MetadataStoreUnavailable, OutcomeUnknown
from mooring.metadata.tree import TEMPORARY_PREFIX, FileEntry, Unreadable

# Errors of a network file system that lost the server's reply: the server may have done the operation.
_REPLY_LOST = frozenset({errno.EIO, errno.ESTALE, errno.ETIMEDOUT})
_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})

_TICK_NS = 2_000_000_000


class LocalFileTree:
    """Files that only their owner can read: the directory is made with mode 0700, files with 0600.

    A directory that exists keeps its mode. Missing parent directories are made with the default mode, because other
    users may need them.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.abspath(os.path.expanduser(directory))

    @property
    def place(self) -> str:
        """The directory."""
        return self._directory

    @property
    def reads_at_once(self) -> int:
        """One: on a local disk several threads take longer than one."""
        return 1

    def stamp(self) -> object:
        """The directory's modification time; None where it is so recent that another change could get the same time."""
        try:
            changed = os.stat(self._directory).st_mtime_ns
        except OSError:  # a listing raises the error
            return None
        return changed if time.time_ns() - changed > _TICK_NS else None

    def list(self) -> list[FileEntry]:
        """Every plain file of the directory; none when the directory does not exist."""
        with self._translated("list"):
            try:
                with os.scandir(self._directory) as entries:
                    return [found for entry in entries if (found := _entry(entry)) is not None]
            except FileNotFoundError:
                return []

    def read(self, name: str, limit: int) -> bytes | Unreadable | None:
        """The whole file. A link or a pipe is Unreadable."""
        try:
            # O_NONBLOCK: without it, opening a pipe that has no writer never returns.
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                return _read_plain(descriptor, limit)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._refuse_unreadable_directory(error)
            return Unreadable(error.strerror or repr(error))

    def create(self, name: str, data: bytes) -> bool:
        """Write and sync a temporary file, and link it to the name. The link fails where the name exists."""
        temporary = self._path(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
        with self._translated("write to", outcome_may_be_unknown=True):
            try:
                self._write_new(temporary, data)
                try:
                    os.link(temporary, self._path(name))
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                    self._write_new(self._path(name), data)  # without links: a reader may see a part of the file
            except FileExistsError:
                return False
            finally:
                _remove_quietly(temporary)
        return True

    def write_atomic(self, name: str, data: bytes) -> None:
        """Write and sync a temporary file, and rename it to the name. A file of that name is replaced."""
        temporary = self._path(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
        with self._translated("write to"):
            try:
                self._write_new(temporary, data)
            except OSError:
                _remove_quietly(temporary)
                raise
        with self._translated("write to", outcome_may_be_unknown=True):
            try:
                os.replace(temporary, self._path(name))
            except OSError:
                _remove_quietly(temporary)
                raise

    def delete(self, name: str) -> None:
        """Remove a file; a missing one is fine."""
        with self._translated("delete from", outcome_may_be_unknown=True), contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def sync(self) -> None:
        """Sync the directory, so that the names survive a power cut. Each write has already synced its content."""
        try:
            descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise OutcomeUnknown(f"cannot sync {self._directory}: {error.strerror}") from error

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _write_new(self, path: str, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._make_directory()
            descriptor = os.open(path, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)

    def _make_directory(self) -> None:
        os.makedirs(os.path.dirname(self._directory), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._directory, 0o700)

    def _refuse_unreadable_directory(self, error: OSError) -> None:
        """MetadataStoreUnavailable where the directory itself cannot be read, not only one of its files."""
        try:
            os.stat(self._path(os.curdir))
        except OSError:
            raise MetadataStoreUnavailable(f"cannot read {self._directory}: {error.strerror}") from error

    @contextlib.contextmanager
    def _translated(self, action: str, outcome_may_be_unknown: bool = False) -> Iterator[None]:
        """Translate errors of the operating system into Mooring's. No other code of this class does."""
        try:
            yield
        except OSError as error:
            message = f"cannot {action} {self._directory}: {error.strerror}"
            if outcome_may_be_unknown and error.errno in _REPLY_LOST:
                raise OutcomeUnknown(message) from error
            raise MetadataStoreUnavailable(message) from error


def _read_plain(descriptor: int, limit: int) -> bytes | Unreadable:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return Unreadable("it is not a plain file")
    if status.st_size > limit:
        return Unreadable(f"it has {status.st_size} bytes, more than any record")
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(limit + 1)


def _entry(entry: os.DirEntry[str]) -> FileEntry | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # removed while the directory was listed
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    # Each write makes a new file. So the inode distinguishes two writes that have the same modification time.
    version = f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"
    return FileEntry(entry.name, status.st_size, status.st_mtime, version)


def _remove_quietly(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
