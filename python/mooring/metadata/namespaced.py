"""One namespace of a metadata store, as a store of its own."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.errors import MetadataStoreError
from mooring.metadata.store import Cancel, MetadataStore, Watcher

SEPARATOR = "/"


class NamespacedMetadataStore(MetadataStore):
    """A view of one namespace of a store: `key` in the view is `<namespace>/<key>` in the store.

    A namespace must not be empty and must not contain a slash, so two namespaces never share a key. Keys may contain
    slashes. `close` ends the view and its watches; the store stays open.
    """

    def __init__(self, store: MetadataStore, namespace: str) -> None:
        if not namespace or SEPARATOR in namespace:
            raise MetadataStoreError(f"{namespace!r} cannot be a namespace: it must not be empty nor have a slash")
        self._store = store
        self._prefix = namespace + SEPARATOR
        self._cancels: list[Cancel] = []
        self._closed = False

    def get(self, key: str) -> bytes | None:
        """The value of a key of this namespace, or None when there is none."""
        return self._open_store().get(self._prefix + key)

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Write several values into this namespace, in the order of the mapping."""
        self._open_store().put_all({self._prefix + key: value for key, value in values.items()})

    def delete(self, key: str) -> None:
        """Remove a key of this namespace; a missing one is fine."""
        self._open_store().delete(self._prefix + key)

    def all(self, prefix: str = "") -> dict[str, bytes]:
        """Every key of this namespace that starts with `prefix`, with its value."""
        found = self._open_store().all(self._prefix + prefix)
        return {self._without_namespace(key): value for key, value in found.items()}

    def watch(self, watcher: Watcher) -> Cancel:
        """Call `watcher` with the changed keys of this namespace. Changes of other namespaces do not call it."""

        def watch_namespace(keys: frozenset[str]) -> None:
            own = frozenset(self._without_namespace(key) for key in keys if key.startswith(self._prefix))
            if own:
                watcher(own)

        cancel = self._open_store().watch(watch_namespace)
        self._cancels.append(cancel)
        return cancel

    def flush(self) -> None:
        """Return when every reader sees all writes made through this view."""
        self._open_store().flush()

    def close(self) -> None:
        """End this view and its watches. The store stays open."""
        self._closed = True
        while self._cancels:
            self._cancels.pop()()

    def _without_namespace(self, key: str) -> str:
        return key[len(self._prefix) :]

    def _open_store(self) -> MetadataStore:
        if self._closed:
            raise MetadataStoreError("this metadata store is closed")
        return self._store
