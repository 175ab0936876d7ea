"""The contract of metadata stores over Kafka, with a real broker."""

import itertools
import uuid

import pytest

from mooring.metadata import open_metadata_store
from mooring.testing import MetadataStoreContract


@pytest.fixture
def address(kafka_broker):
    """A topic of the test's own, which the store makes."""
    return f"kafka://{kafka_broker.servers}/contract-{uuid.uuid4().hex}"


class TestKafka(MetadataStoreContract):
    @pytest.fixture
    def store_factory(self, address):
        return lambda: open_metadata_store(address)


@pytest.mark.heavy
class TestKafkaWithExclusiveWriters(MetadataStoreContract):
    """Each client is the only writer of a role of its own, so each write is a transaction."""

    @pytest.fixture
    def store_factory(self, address):
        roles = map(str, itertools.count())
        return lambda: open_metadata_store(address, **{"exclusive.writer": next(roles)})


@pytest.mark.heavy
class TestNamespaceOfAKafkaStore(MetadataStoreContract):
    @pytest.fixture
    def store_factory(self, address, namespaced):
        return namespaced(lambda: open_metadata_store(address))
