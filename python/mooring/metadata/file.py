"""The default metadata store: one small file for each key, in a directory beside the checkpoint."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable
from mooring.metadata.envelope import MAX_RECORD_BYTES, DamagedRecord, pack, unpack
from mooring.metadata.filename import file_name, is_record_name, key_of
from mooring.metadata.local_tree import LocalFileTree
from mooring.metadata.polling import PollingWatch
from mooring.metadata.store import Cancel, MetadataStore, Report, Watcher, check_key, check_values, report_to_log
from mooring.metadata.tree import TEMPORARY_PREFIX, FileTree, Unreadable

_LEFTOVER_AGE_SECONDS = 3600.0


class FileMetadataStore(MetadataStore):
    """One file for each record. Any number of processes may share the directory; a later write wins.

    A write makes a temporary file and renames it. So a crash leaves the old record, or the new one, and perhaps a
    temporary file. Temporary files are never read. Each store removes those older than an hour at its first write.

    A file that is damaged or not from Mooring counts as missing. It is reported once and stays where it is, until a
    write of its key replaces it. A store with watchers lists the directory every `poll_seconds`.
    """

    def __init__(
        self,
        tree: FileTree | str,
        *,
        poll_seconds: float = 1.0,
        report: Report = report_to_log,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tree: FileTree = LocalFileTree(tree) if isinstance(tree, str) else tree
        self._report = report
        self._now = now
        self._watch = PollingWatch(self._versions, poll_seconds, report, self._tree.stamp)
        self._lock = threading.Lock()
        self._reported: set[str] = set()
        self._hashed_keys: dict[str, str] = {}
        self._leftovers_removed = False
        self._unsynced = False
        self._closed = False

    def get(self, key: str) -> bytes | None:
        """The value of a key; None where there is none or it is damaged.

        MetadataStoreUnavailable where its file exists and cannot be read.
        """
        name = file_name(check_key(key))
        found = self._open_tree().read(name, MAX_RECORD_BYTES)
        if isinstance(found, Unreadable):
            raise MetadataStoreUnavailable(f"{name} in {self._tree.place} cannot be read: {found.reason}")
        record = None if found is None else self._record_in(name, found)
        return None if record is None else record[1]

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Write one file after the other, in the order of the mapping."""
        tree, checked = self._open_tree(), check_values(values)
        self._remove_leftovers()
        for key, value in checked.items():
            self._unsynced = True
            tree.write_atomic(file_name(key), pack(key, value))

    def delete(self, key: str) -> None:
        """Remove a key's file, also a damaged one; a missing one is fine."""
        tree = self._open_tree()
        self._unsynced = True
        tree.delete(file_name(check_key(key)))

    def all(self, prefix: str = "") -> dict[str, bytes]:
        """Every key that starts with `prefix`, with its value. Damaged and unreadable files are left out, reported."""
        tree = self._open_tree()
        found: dict[str, bytes] = {}
        spelt = {name: key_of(name) for name in self._record_names()}
        names = [name for name, key in spelt.items() if key is None or key.startswith(prefix)]
        for name, data in _read_all(tree, names):
            record = self._record_in(name, data)
            if record is not None and record[0].startswith(prefix):
                found[record[0]] = record[1]
        return found

    def watch(self, watcher: Watcher) -> Cancel:
        """Call `watcher`, on a thread of this store, with the keys whose files appeared, changed or disappeared."""
        self._open_tree()
        return self._watch.add(watcher)

    def flush(self) -> None:
        """Return when all writes survive a power cut. Other readers see a write as soon as it returns."""
        tree = self._open_tree()
        if self._unsynced:
            self._unsynced = False
            try:
                tree.sync()
            except MetadataStoreError:
                self._unsynced = True
                raise

    def close(self) -> None:
        """End the watching thread. Calling it again does nothing."""
        self._closed = True
        self._watch.stop()

    def _open_tree(self) -> FileTree:
        if self._closed:
            raise MetadataStoreError(f"this metadata store ({self._tree.place}) is closed")
        return self._tree

    def _record_names(self) -> list[str]:
        names = sorted(entry.name for entry in self._tree.list() if not entry.name.startswith("."))
        foreign = [name for name in names if not is_record_name(name)]
        if foreign:
            self._report_once(
                "", f"{foreign[0]} in {self._tree.place} is not a record of Mooring; such files are ignored"
            )
        return [name for name in names if is_record_name(name)]

    def _record_in(self, name: str, data: bytes | Unreadable | None) -> tuple[str, bytes] | None:
        """Key and value of a file; None where it is missing, or where it is damaged, which is reported once."""
        if data is None:
            return None
        try:
            if isinstance(data, Unreadable):
                raise DamagedRecord(data.reason)
            key, value = unpack(data)
            if file_name(key) != name:
                raise DamagedRecord(f"it holds the record of another key, {key!r}")
        except DamagedRecord as damage:
            self._report_once(name, f"{name} in {self._tree.place} is ignored: {damage}")
            return None
        with self._lock:
            self._reported.discard(name)
        return key, value

    def _report_once(self, subject: str, message: str) -> None:
        with self._lock:
            if subject in self._reported:
                return
            self._reported.add(subject)
        self._report(message)

    def _versions(self) -> dict[str, str]:
        versions: dict[str, str] = {}
        for entry in self._tree.list():
            key = self._key_of_file(entry.name) if is_record_name(entry.name) else None
            if key is not None:
                versions[key] = entry.version
        return versions

    def _key_of_file(self, name: str) -> str | None:
        spelt = key_of(name)
        if spelt is not None:
            return spelt
        if name not in self._hashed_keys:
            record = self._record_in(name, self._tree.read(name, MAX_RECORD_BYTES))
            if record is None:
                return None
            self._hashed_keys[name] = record[0]
        return self._hashed_keys[name]

    def _remove_leftovers(self) -> None:
        with self._lock:
            if self._leftovers_removed:
                return
            self._leftovers_removed = True
        with contextlib.suppress(MetadataStoreError):  # the write that follows raises the same error
            for entry in self._tree.list():
                if (
                    entry.name.startswith(TEMPORARY_PREFIX)
                    and self._now() - entry.modified_seconds > _LEFTOVER_AGE_SECONDS
                ):
                    self._tree.delete(entry.name)


def _read_all(tree: FileTree, names: Sequence[str]) -> Iterator[tuple[str, bytes | Unreadable | None]]:
    """Each name with the content of its file. Several files are read at the same time where the tree asks for that."""
    if len(names) < 2 or tree.reads_at_once < 2:
        for name in names:
            yield name, tree.read(name, MAX_RECORD_BYTES)
        return
    with ThreadPoolExecutor(tree.reads_at_once, "mooring-file-store") as readers:
        yield from zip(names, readers.map(lambda name: tree.read(name, MAX_RECORD_BYTES), names), strict=True)
