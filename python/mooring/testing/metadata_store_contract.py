"""The contract of a metadata store as tests. Subclass `MetadataStoreContract` to test a store, also one of your own.

    class TestMyStore(MetadataStoreContract):
        @pytest.fixture
        def store_factory(self, tmp_path):
            return lambda: MyStore(tmp_path)

Needs pytest and hypothesis (`pip install "mooring[test]"`).
"""

from __future__ import annotations

from mooring.testing.store_contract.clients import StoreFactory
from mooring.testing.store_contract.sharing import SharingContract
from mooring.testing.store_contract.twin import TwinContract
from mooring.testing.store_contract.values import ODD_KEYS, ValuesContract
from mooring.testing.store_contract.watching import WatchingContract

__all__ = ["ODD_KEYS", "MetadataStoreContract", "StoreFactory"]


class MetadataStoreContract(ValuesContract, WatchingContract, SharingContract, TwinContract):
    """The promises of `MetadataStore`, one test each. A subclass gives `store_factory`."""
