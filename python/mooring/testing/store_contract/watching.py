"""Watchers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mooring.metadata import MetadataStore
from mooring.testing.store_contract.clients import StoreClients, StoreFactory
from mooring.testing.store_contract.values import ODD_KEYS


class WatchingContract(StoreClients):
    """Every change is told."""

    def test_a_watcher_hears_of_every_kind_of_change(self, store: MetadataStore, other: MetadataStore) -> None:
        """New, changed and deleted keys, by this client and by another."""
        store.put_all({"changes": b"1", "goes": b"1"})
        store.flush()
        heard = _Heard()
        store.watch(heard)
        other.put("comes", b"1")
        other.put("changes", b"2")
        other.flush()
        store.delete("goes")
        store.put("own", b"1")
        store.flush()
        heard.wait_for({"comes", "changes", "goes", "own"}, self.watch_seconds)

    def test_what_a_watcher_hears_can_be_read(self, store: MetadataStore, other: MetadataStore) -> None:
        """When a change is told, its value is there already, for odd and long keys too."""
        seen: dict[str, bytes | None] = {}
        heard = _Heard(then=lambda keys: seen.update({key: store.get(key) for key in keys}))
        store.watch(heard)
        other.put_all({key: b"1" for key in ODD_KEYS})
        other.flush()
        heard.wait_for(set(ODD_KEYS), self.watch_seconds)
        assert {seen[key] for key in ODD_KEYS} == {b"1"}

    def test_a_cancelled_watcher_hears_nothing_more(self, store: MetadataStore) -> None:
        """The others do; cancelling twice is fine."""
        cancelled, goes_on = _Heard(), _Heard()
        cancel = store.watch(cancelled)
        store.watch(goes_on)
        cancel()
        cancel()
        store.put("key", b"1")
        store.flush()
        goes_on.wait_for({"key"}, self.watch_seconds)
        assert cancelled.keys == set()

    def test_a_failing_watcher_disturbs_nobody(self, store: MetadataStore) -> None:
        """Neither the writer nor the other watchers, nor what is told later."""
        heard = _Heard()

        def fails(keys: frozenset[str]) -> None:
            raise ZeroDivisionError("a mistake in the watcher")

        store.watch(fails)
        store.watch(heard)
        store.put("first", b"1")
        store.flush()
        heard.wait_for({"first"}, self.watch_seconds)
        store.put("second", b"1")
        store.flush()
        heard.wait_for({"first", "second"}, self.watch_seconds)

    def test_a_closed_client_tells_nothing(self, store_factory: StoreFactory, other: MetadataStore) -> None:
        """Once `close` has returned, its watchers are not called."""
        heard, goes_on = _Heard(), _Heard()
        other.watch(goes_on)
        closing = store_factory()
        closing.watch(heard)
        closing.close()
        other.put("key", b"1")
        other.flush()
        goes_on.wait_for({"key"}, self.watch_seconds)
        assert heard.keys == set()


class _Heard:
    """A watcher that remembers, and can be waited for."""

    def __init__(self, then: Callable[[frozenset[str]], None] = lambda keys: None) -> None:
        self.keys: set[str] = set()
        self._then = then
        self._news = threading.Condition()

    def __call__(self, keys: frozenset[str]) -> None:
        self._then(keys)
        with self._news:
            self.keys |= keys
            self._news.notify_all()

    def wait_for(self, keys: set[str], seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._news:
            self._news.wait_for(lambda: self.keys >= keys, max(0.0, end - time.monotonic()))
            assert self.keys >= keys, f"not heard of within {seconds} s: {sorted(keys - self.keys)}"
