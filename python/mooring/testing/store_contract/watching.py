"""Tests of watchers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mooring.metadata import MetadataStore
from mooring.testing.store_contract.clients import StoreClients, StoreFactory
from mooring.testing.store_contract.values import ODD_KEYS


class WatchingContract(StoreClients):
    """Watchers are called for every change."""

    def test_a_watcher_hears_of_every_kind_of_change(self, store: MetadataStore, other: MetadataStore) -> None:
        """A watcher is called for new, changed and deleted keys, of this client and of another one."""
        store.put_all({"changes": b"1", "goes": b"1"})
        store.flush()
        calls = _SeenKeys()
        store.watch(calls)
        other.put("comes", b"1")
        other.put("changes", b"2")
        other.flush()
        store.delete("goes")
        store.put("own", b"1")
        store.flush()
        calls.wait_for({"comes", "changes", "goes", "own"}, self.watch_seconds)

    def test_what_a_watcher_hears_can_be_read(self, store: MetadataStore, other: MetadataStore) -> None:
        """When a watcher is called, the new value can be read, also for odd and long keys."""
        seen: dict[str, bytes | None] = {}
        calls = _SeenKeys(then=lambda keys: seen.update({key: store.get(key) for key in keys}))
        store.watch(calls)
        other.put_all({key: b"1" for key in ODD_KEYS})
        other.flush()
        calls.wait_for(set(ODD_KEYS), self.watch_seconds)
        assert {seen[key] for key in ODD_KEYS} == {b"1"}

    def test_a_cancelled_watcher_hears_nothing_more(self, store: MetadataStore) -> None:
        """Other watchers are still called. A watcher may be cancelled twice."""
        cancelled, goes_on = _SeenKeys(), _SeenKeys()
        cancel = store.watch(cancelled)
        store.watch(goes_on)
        cancel()
        cancel()
        store.put("key", b"1")
        store.flush()
        goes_on.wait_for({"key"}, self.watch_seconds)
        assert cancelled.keys == set()

    def test_a_failing_watcher_disturbs_nobody(self, store: MetadataStore) -> None:
        """An error of a watcher affects neither the writer, nor other watchers, nor later calls."""
        calls = _SeenKeys()

        def fails(keys: frozenset[str]) -> None:
            raise ZeroDivisionError("a mistake in the watcher")

        store.watch(fails)
        store.watch(calls)
        store.put("first", b"1")
        store.flush()
        calls.wait_for({"first"}, self.watch_seconds)
        store.put("second", b"1")
        store.flush()
        calls.wait_for({"first", "second"}, self.watch_seconds)

    def test_a_closed_client_tells_nothing(self, store_factory: StoreFactory, other: MetadataStore) -> None:
        """After `close` has returned, the client's watchers are not called."""
        calls, goes_on = _SeenKeys(), _SeenKeys()
        other.watch(goes_on)
        closing = store_factory()
        closing.watch(calls)
        closing.close()
        other.put("key", b"1")
        other.flush()
        goes_on.wait_for({"key"}, self.watch_seconds)
        assert calls.keys == set()


class _SeenKeys:
    """A watcher that keeps the keys of its calls; a test can wait for keys."""

    def __init__(self, then: Callable[[frozenset[str]], None] = lambda keys: None) -> None:
        self.keys: set[str] = set()
        self._then = then
        self._changed = threading.Condition()

    def __call__(self, keys: frozenset[str]) -> None:
        self._then(keys)
        with self._changed:
            self.keys |= keys
            self._changed.notify_all()

    def wait_for(self, keys: set[str], seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self.keys >= keys, max(0.0, end - time.monotonic()))
            assert self.keys >= keys, f"no call for these keys within {seconds} s: {sorted(keys - self.keys)}"
