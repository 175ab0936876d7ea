"""The ZooKeeper store with SASL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mooring.errors import MetadataStoreError
from mooring.metadata import open_metadata_store
from mooring.testing.zookeeper import ZooKeeperEnsemble

SASL = {"sasl.mechanism": "DIGEST-MD5", "sasl.username": "mooring", "sasl.password": "a password of a test"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that knows one user."""
    work = tmp_path_factory.mktemp("sasl")
    (work / "jaas.conf").write_text(
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required"
        f' user_{SASL["sasl.username"]}="{SASL["sasl.password"]}"; }};\n'
    )
    java_options = (
        f"-Djava.security.auth.login.config={work / 'jaas.conf'}",
        "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    )
    with ZooKeeperEnsemble(work_dir=work, java_options=java_options) as ensemble:
        yield f"zk://{ensemble.hosts}/mooring"


def test_what_a_user_writes_is_its_own(place: str) -> None:
    with open_metadata_store(place, **SASL) as store:
        store.put("key", bytes(1_000_000))
    with open_metadata_store(place, **SASL) as store:
        assert store.get("key") == bytes(1_000_000)
    with open_metadata_store(place, **{"retry.deadline": "3s"}) as stranger, pytest.raises(MetadataStoreError):
        stranger.put("key", b"another value")
    with open_metadata_store(place, **SASL) as store:
        assert store.get("key") == bytes(1_000_000)


def test_a_wrong_password_is_refused_and_not_repeated(place: str) -> None:
    wrong = {**SASL, "sasl.password": "hunter2", "retry.deadline": "3s"}
    with open_metadata_store(place, **wrong) as store, pytest.raises(MetadataStoreError) as refusal:
        store.get("key")
    print(refusal.value)
    assert "hunter2" not in str(refusal.value) + repr(store)
