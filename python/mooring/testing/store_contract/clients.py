"""The clients that the tests of a store work with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mooring.metadata import MetadataStore

StoreFactory = Callable[[], MetadataStore]


class StoreClients:
    """What a test is given. A subclass gives `store_factory`."""

    watch_seconds = 30.0
    """How long a change may take to be told."""

    clients = 8
    """How many clients work at once in the concurrent tests."""

    @pytest.fixture
    def store_factory(self) -> StoreFactory:
        """Opens one more client of one store, which is empty before the test. Override it."""
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
