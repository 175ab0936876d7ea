"""Servers that start once for all contract tests."""

import uuid

import pytest

from mooring.metadata import NamespacedMetadataStore
from mooring.testing.kafka import KafkaBroker


@pytest.fixture
def namespaced():
    """Makes the factory of a namespace's stores from that of the stores under it, which are closed at the end."""
    opened = []

    def factory_over(open_store):
        def make():
            opened.append(open_store())
            return NamespacedMetadataStore(opened[-1], "ours")

        return make

    yield factory_over
    for under in opened:
        under.close()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory):
    from mooring.testing.zookeeper import ZooKeeperEnsemble

    with ZooKeeperEnsemble(work_dir=tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture
def zookeeper_root(zookeeper):
    """The address of a root that nobody has used."""
    return f"zk://{zookeeper.hosts}/test-{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory):
    """Started once; no test stops it."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
