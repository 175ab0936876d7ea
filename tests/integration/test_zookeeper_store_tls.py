"""The ZooKeeper store over TLS."""

import subprocess

import pytest

from mooring.errors import MetadataStoreUnavailable
from mooring.metadata import open_metadata_store
from mooring.testing.probes import free_port
from mooring.testing.zookeeper import ZooKeeperEnsemble

PASSWORD = "a password of a test"


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """The address of a server that speaks TLS, and the certificate to trust."""
    work, port = tmp_path_factory.mktemp("tls"), free_port()
    store, certificate = work / "server.p12", work / "server.pem"
    keytool = ["keytool", "-alias", "server", "-storetype", "PKCS12", "-keystore", str(store), "-storepass", PASSWORD]
    subject = ["-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1,dns:localhost"]
    subprocess.run([*keytool, "-genkeypair", "-keyalg", "EC", *subject], check=True, capture_output=True)
    subprocess.run([*keytool, "-exportcert", "-rfc", "-file", str(certificate)], check=True, capture_output=True)
    options = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": store,
        "ssl.keyStore.password": PASSWORD,
        "ssl.clientAuth": "none",
    }
    java_options = tuple(f"-Dzookeeper.{name}={value}" for name, value in options.items())
    settings = {"secureClientPort": str(port), "secureClientPortAddress": "127.0.0.1"}
    with ZooKeeperEnsemble(work_dir=work, settings=settings, java_options=java_options) as ensemble:
        yield f"zk://127.0.0.1:{port}/mooring", f"zk://{ensemble.hosts}/mooring", str(certificate)


def test_a_trusted_server_is_spoken_to(secure):
    tls, plain, certificate = secure
    with open_metadata_store(tls, ca=certificate, **{"check.hostname": "true"}) as store:
        store.put("key", bytes(1_000_000))
        assert store.get("key") == bytes(1_000_000)
    with open_metadata_store(plain) as store:
        assert store.get("key") == bytes(1_000_000)


def test_a_server_that_is_not_trusted_is_not_spoken_to(secure):
    tls, _, _ = secure
    options = {"use.ssl": "true", "retry.deadline": "2s"}
    with (
        open_metadata_store(tls, **options) as store,
        pytest.raises(MetadataStoreUnavailable, match="TLS was not agreed upon"),
    ):
        store.get("key")


def test_a_client_without_tls_is_told_what_is_expected(secure):
    tls, _, _ = secure
    with (
        open_metadata_store(tls, **{"retry.deadline": "2s"}) as store,
        pytest.raises(MetadataStoreUnavailable, match="it expects TLS"),
    ):
        store.get("key")
