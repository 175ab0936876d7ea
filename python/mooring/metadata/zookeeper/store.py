"""The metadata store in ZooKeeper: `<root>/metadata/<namespace>/<key>`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mooring.errors import LeadershipLost, MetadataStoreError
from mooring.metadata.store import (
    Cancel,
    MetadataStore,
    Report,
    Watcher,
    check_key,
    check_values,
    report_to_log,
)
from mooring.metadata.zookeeper.commit import Change, Guard, GuardFailed
from mooring.metadata.zookeeper.connection import ZkConnection
from mooring.metadata.zookeeper.nodes import (
    CHANGES,
    GENERATIONS,
    key_of_path,
    node_name,
    path_of_key,
)
from mooring.metadata.zookeeper.options import ZkSettings, settings_from
from mooring.metadata.zookeeper.parts import PART_BYTES
from mooring.metadata.zookeeper.values import ZkValues
from mooring.metadata.zookeeper.watch import ChangeWatch


class ZkMetadataStore(MetadataStore):
    """Values in ZooKeeper's nodes. Any number of processes may share them.

    When the session expires, the store begins a new one. When a write gets no answer, the store looks whether the write
    was done before it sends the write again; so it is done once or not at all (see `commit`). A read sees all writes
    that were acknowledged to any client before it. A client with watchers has one watch at the servers.
    """

    def __init__(
        self,
        settings: ZkSettings | str,
        *,
        report: Report = report_to_log,
        part_bytes: int = PART_BYTES,
        guards: Callable[[], Sequence[Guard]] = tuple,
    ) -> None:
        """Take settings, or a `zk://` address. Nothing is read or written yet.

        Values of more than `part_bytes` are split. `guards` is called before each write and returns the conditions of
        its transaction. Where one of them does not hold, nothing is written, and the write raises LeadershipLost.
        """
        settings = settings_from(settings, {}) if isinstance(settings, str) else settings
        self._connection = ZkConnection(settings)
        self._values = ZkValues(self._connection, f"{settings.root}/metadata", report, part_bytes)
        self._watch = ChangeWatch(self._connection, self._values.log, self._all_keys, report)
        self._guards = guards
        self._closed = False

    def get(self, key: str) -> bytes | None:
        """The value of a key; None where there is none, or where it is damaged."""
        path = path_of_key(check_key(key))
        found = self._open_values().read([path]).get(path)
        return None if found is None or found[1] not in (None, key) else found[0]

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Write several values, in the order of the mapping, up to fifty in one transaction."""
        self._write(_change(key, value) for key, value in check_values(values).items())

    def delete(self, key: str) -> None:
        """Remove a key; a missing one is fine."""
        self._write([_change(check_key(key), None)])

    def all(self, prefix: str = "") -> dict[str, bytes]:
        """Every key that starts with `prefix`, with its value. Damaged values are left out and reported."""
        values = self._open_values()
        paths = [path for path in self._paths(prefix) if _may_start_with(path, prefix)]
        found = {}
        for path, (value, stored_key) in values.read(paths).items():
            key = key_of_path(path) if stored_key is None else stored_key
            if key is not None and key.startswith(prefix):
                found[key] = value
        return found

    def watch(self, watcher: Watcher) -> Cancel:
        """Call `watcher`, on a thread of this store, with the keys that were written or deleted."""
        self._open_values()
        return self._watch.add(watcher)

    def flush(self) -> None:
        """Return when this client's server has all acknowledged writes; reads of this store do that by themselves."""
        self._open_values()
        self._connection.ask([lambda client: client.sync_async("/")])

    def close(self) -> None:
        """End the session and the watching thread. Calling it again does nothing."""
        self._closed = True
        self._connection.close()
        self._watch.stop()

    def __repr__(self) -> str:
        return f"ZkMetadataStore({self._connection.place!r})"

    def _write(self, changes: Iterable[Change]) -> None:
        try:
            self._open_values().write(changes, self._guards())
        except GuardFailed:
            raise LeadershipLost("another driver leads by now: nothing was written") from None

    def _open_values(self) -> ZkValues:
        if self._closed:
            raise MetadataStoreError(f"this metadata store ({self._connection.place}) is closed")
        return self._values

    def _paths(self, prefix: str = "") -> list[str]:
        """The paths of all nodes in the directories where keys with this prefix are."""
        namespace, slash, _ = prefix.partition("/")
        if slash and namespace:
            directories = [node_name(namespace)]
        else:
            directories = [name for name in self._values.children() if name not in (CHANGES, GENERATIONS)]
        return [f"{directory}/{name}" for directory in directories for name in self._values.children(directory)]

    def _all_keys(self) -> frozenset[str]:
        paths = self._paths()
        spelt = {path: key_of_path(path) for path in paths}
        hashed = self._values.read([path for path, key in spelt.items() if key is None])
        keys = [key for key in (*spelt.values(), *(key for _, key in hashed.values())) if key is not None]
        return frozenset(keys)


def _change(key: str, value: bytes | None) -> Change:
    path = path_of_key(key)
    return Change(path, value, key, spelt=key_of_path(path) == key)


def _may_start_with(path: str, prefix: str) -> bool:
    key = key_of_path(path)
    return key is None or key.startswith(prefix)
