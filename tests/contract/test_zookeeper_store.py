"""The contract of metadata stores, over a real ZooKeeper."""

import pytest

from mooring.metadata import ZkMetadataStore, open_metadata_store
from mooring.testing import MetadataStoreContract


class TestZooKeeper(MetadataStoreContract):
    @pytest.fixture
    def store_factory(self, zookeeper_root):
        return lambda: open_metadata_store(zookeeper_root)


class TestZooKeeperInSmallParts(MetadataStoreContract):
    """So that ordinary values are split as well."""

    @pytest.fixture
    def store_factory(self, zookeeper_root):
        return lambda: ZkMetadataStore(zookeeper_root, part_bytes=20_000)

    test_the_largest_value_comes_back = None


class TestNamespaceOfAZooKeeperStore(MetadataStoreContract):
    @pytest.fixture
    def store_factory(self, zookeeper_root, namespaced):
        return namespaced(lambda: open_metadata_store(zookeeper_root))
