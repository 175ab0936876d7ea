"""The contract of metadata stores, over every store there is."""

import uuid

import pytest

from mooring.metadata import (
    FileMetadataStore,
    LocalFileTree,
    MemoryMetadataStore,
    NamespacedMetadataStore,
    open_metadata_store,
)
from mooring.testing import MetadataStoreContract


class TestMemory(MetadataStoreContract):
    @pytest.fixture
    def store_factory(self):
        name = uuid.uuid4().hex
        return lambda: MemoryMetadataStore(name)


class TestFile(MetadataStoreContract):
    @pytest.fixture
    def store_factory(self, tmp_path):
        return lambda: FileMetadataStore(LocalFileTree(str(tmp_path / "metadata")), poll_seconds=0.02)


class TestFileByItsName(MetadataStoreContract):
    """As the agent and clients open it."""

    @pytest.fixture
    def store_factory(self, tmp_path):
        return lambda: open_metadata_store(f"file://{tmp_path}/a b%20c/metadata", **{"poll.interval": "20ms"})


class TestNamespaceOfAMemoryStore(MetadataStoreContract):
    @pytest.fixture
    def store_factory(self):
        name = uuid.uuid4().hex
        neighbour = NamespacedMetadataStore(MemoryMetadataStore(name), "neighbour")
        neighbour.put("key", b"not ours")
        return lambda: NamespacedMetadataStore(MemoryMetadataStore(name), "ours")


class TestNamespaceOfAFileStore(MetadataStoreContract):
    @pytest.fixture
    def store_factory(self, tmp_path, namespaced):
        return namespaced(lambda: FileMetadataStore(LocalFileTree(str(tmp_path)), poll_seconds=0.02))
