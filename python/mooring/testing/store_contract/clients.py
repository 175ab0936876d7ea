"""The clients in the tests of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mooring.metadata import MetadataStore

StoreFactory = Callable[[], MetadataStore]


class StoreClients:
    """Fixtures with clients of one store. A subclass must define the fixture `store_factory`."""

    watch_seconds = 30.0
    """The longest time from a change to the call of a watcher."""

    clients = 8
    """The number of clients that work at the same time in the concurrent tests."""

    @pytest.fixture
    def store_factory(self) -> StoreFactory:
        """A function that opens one more client of the same store, which is empty before the test. Override this."""
        raise pytest.UsageError("a subclass of MetadataStoreContract has a fixture store_factory")

    @pytest.fixture
    def store(self, store_factory: StoreFactory) -> Iterator[MetadataStore]:
        """A client that is closed after the test."""
        with store_factory() as store:
            yield store

    @pytest.fixture
    def other(self, store_factory: StoreFactory) -> Iterator[MetadataStore]:
        """A second client of the same store."""
        with store_factory() as other:
            yield other
