"""One Kafka broker for all tests of this folder that ask for one."""

import pytest

from mooring.testing.kafka import KafkaBroker


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory):
    """Started once; no test stops it."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
