"""A store that only the leader writes."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.coordination.kafka.leader import KafkaLeaderLock
from mooring.metadata.kafka.store import KafkaMetadataStore
from mooring.metadata.store import Cancel, MetadataStore, Watcher


class LedStore(MetadataStore):
    """A view of a store: reads go to the store, and each write is one transaction of the lock's term.

    A write raises LeadershipLost when the lock does not lead. `close` does nothing: the owner closes lock and store.
    """

    def __init__(self, store: KafkaMetadataStore, lock: KafkaLeaderLock) -> None:
        self._store, self._lock = store, lock

    def get(self, key: str) -> bytes | None:
        """The value of a key, or None when there is none."""
        return self._store.get(key)

    def all(self, prefix: str = "") -> dict[str, bytes]:
        """Every key that starts with `prefix`, with its value."""
        return self._store.all(prefix)

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Write all values in one transaction."""
        if values:
            self._lock.write(values, self._lock.leadership)

    def delete(self, key: str) -> None:
        """Remove a key; a missing one is fine."""
        self._lock.write({key: None}, self._lock.leadership)

    def watch(self, watcher: Watcher) -> Cancel:
        """Call `watcher` with the keys that any client writes or deletes."""
        return self._store.watch(watcher)

    def flush(self) -> None:
        """Wait until all clients can read the writes of this client."""
        self._store.flush()

    def close(self) -> None:
        """Do nothing: the view has opened nothing."""
