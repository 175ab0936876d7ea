"""A directory of this machine, or one mounted on it."""

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

# What a network file system answers when it lost the reply: the server may have done what was asked.
_REPLY_LOST = frozenset({errno.EIO, errno.ESTALE, errno.ETIMEDOUT})
_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})

_TICK_NS = 2_000_000_000


class LocalFileTree:
    """Files of one directory, readable by their owner only: the directory is made with mode 0700, files with 0600.

    A directory that is there keeps its mode. Parents that are missing are made with the usual mode, as others may need
    them.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.abspath(os.path.expanduser(directory))

    @property
    def place(self) -> str:
        """The directory."""
        return self._directory

    @property
    def reads_at_once(self) -> int:
        """A disk is not quicker for several readers, and they cost more than they read."""
        return 1

    def stamp(self) -> object:
        """When the directory changed last, unless that is so short ago that another change could bear the same time."""
        try:
            changed = os.stat(self._directory).st_mtime_ns
        except OSError:  # a listing says what is wrong
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
        """The whole file. Links and pipes are not followed or waited for: they are Unreadable."""
        try:
            # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
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
        """Write and sync a temporary file, and link it to the name, which fails where there is one already."""
        temporary = self._path(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
        with self._translated("write to", outcome_may_be_unknown=True):
            try:
                self._write_new(temporary, data)
                try:
                    os.link(temporary, self._path(name))
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                    self._write_new(self._path(name), data)  # of such a file a reader may see a part
            except FileExistsError:
                return False
            finally:
                _remove_quietly(temporary)
        return True

    def write_atomic(self, name: str, data: bytes) -> None:
        """Write a temporary file, sync it, and rename it over what was there."""
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
        """Make the names survive a power cut; the contents were synced when they were written."""
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
        """Raise when it is the directory that cannot be read, and not one of its files."""
        try:
            os.stat(self._path(os.curdir))
        except OSError:
            raise MetadataStoreUnavailable(f"cannot read {self._directory}: {error.strerror}") from error

    @contextlib.contextmanager
    def _translated(self, action: str, outcome_may_be_unknown: bool = False) -> Iterator[None]:
        """The one place where errors of the operating system become ours."""
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
    # A record is always a new file, so the inode tells two writes within one tick of the clock apart.
    version = f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"
    return FileEntry(entry.name, status.st_size, status.st_mtime, version)


def _remove_quietly(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
