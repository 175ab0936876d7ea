"""The address and the options of the ZooKeeper store."""

import sys

import pytest

from mooring.errors import InvalidSettingError, MetadataStoreError
from mooring.metadata import open_metadata_store
from mooring.metadata.zookeeper.options import Acl, settings_from
from mooring.records.open import open_records

PLACE = "zk://one:2181,two:2182/mooring/test"


def test_hosts_and_root():
    settings = settings_from(PLACE, {})
    assert (settings.hosts, settings.root) == ("one:2181,two:2182", "/mooring/test")
    assert settings.place == PLACE


@pytest.mark.parametrize("uri", ["zk://one/a/", "ZK://one//a", "zk://one:2181/a", "zk://[::1]:2181/a", "zk://[::1]/a"])
def test_other_forms_of_an_address(uri):
    assert settings_from(uri, {}).root == "/a"


@pytest.mark.parametrize("uri", ["zk://one/zookeeper/a", "zk://one/a\0b"])
def test_a_root_that_zookeeper_does_not_take_is_refused(uri):
    with pytest.raises(MetadataStoreError, match="no root of its own"):
        settings_from(uri, {})


@pytest.mark.parametrize(
    "uri",
    ["zk://", "zk:///a", "zk://one", "zk://one/", "zk://one,/a", "zk://one:x/a", "zk://o ne/a", "zk://one/../a"],
)
def test_an_address_that_names_no_root_is_refused(uri):
    with pytest.raises(MetadataStoreError, match=r"no host and port|no root of its own"):
        settings_from(uri, {})


def test_a_password_in_the_address_is_refused_and_not_repeated():
    with pytest.raises(MetadataStoreError, match=r"auth\.password") as raised:
        settings_from("zk://me:hunter2@one:2181/a", {})
    assert "hunter2" not in str(raised.value)


def test_an_unknown_option_is_refused_with_the_nearest_name():
    with pytest.raises(InvalidSettingError, match=r"mooring\.metadata\.retry\.dedline.*nearest: retry\.deadline"):
        open_metadata_store(PLACE, **{"retry.dedline": "1s"})


def test_times_are_durations_above_zero():
    settings = settings_from(PLACE, {"timeout": "4s", "retry.deadline": "500ms"})
    assert (settings.session_timeout_seconds, settings.deadline_seconds) == (4.0, 0.5)
    for text in ("0s", "soon", "-1s"):
        with pytest.raises(InvalidSettingError, match=rf"metadata\.timeout={text}"):
            settings_from(PLACE, {"timeout": text})


@pytest.mark.parametrize(
    "options", [{"auth": "digest:me:hunter2"}, {"auth": "digest:me", "auth.password": "hunter2"}], ids=["one", "two"]
)
def test_credentials_are_kept_and_never_shown(options):
    settings = settings_from(PLACE, options)
    assert settings.auth == (("digest", "me:hunter2"),)
    assert settings.acl == (Acl("auth", "", "cdrwa"),)
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(open_metadata_store(PLACE, **options))


@pytest.mark.parametrize("options", [{"auth": "digest:hunter2"}, {"auth": ":hunter2"}, {"auth.password": "hunter2"}])
def test_half_a_credential_is_refused_and_not_repeated(options):
    with pytest.raises(InvalidSettingError, match=r"metadata\.auth") as raised:
        settings_from(PLACE, options)
    assert "hunter2" not in str(raised.value)


def test_who_may_read_and_write():
    assert settings_from(PLACE, {}).acl == (Acl("world", "anyone", "cdrwa"),)
    assert settings_from(PLACE, {"acl": "digest:me:c2Vj=:cdrwa,world:anyone:r"}).acl == (
        Acl("digest", "me:c2Vj=", "cdrwa"),
        Acl("world", "anyone", "r"),
    )
    with pytest.raises(InvalidSettingError, match=r"creator needs metadata\.auth"):
        settings_from(PLACE, {"acl": "creator"})
    for text in ("", "world", "world:anyone", "world:anyone:", "world:anyone:x"):
        with pytest.raises(InvalidSettingError, match=r"metadata\.acl"):
            settings_from(PLACE, {"acl": text})


def test_tls_has_kazoos_names():
    assert settings_from(PLACE, {"ca": "ca.pem", "check.hostname": "TRUE", "keyfile.password": "hunter2"}).tls == {
        "use_ssl": True,
        "verify_certs": True,
        "check_hostname": True,
        "ca": "ca.pem",
        "keyfile_password": "hunter2",
    }
    assert not settings_from(PLACE, {}).tls["use_ssl"]
    with pytest.raises(InvalidSettingError, match=r"use\.ssl=false"):
        settings_from(PLACE, {"use.ssl": "false", "ca": "ca.pem"})
    with pytest.raises(InvalidSettingError, match="expected true or false"):
        settings_from(PLACE, {"use.ssl": "yes"})


def test_sasl_needs_its_mechanism_and_its_package(monkeypatch):
    with pytest.raises(InvalidSettingError, match=r"sasl\.mechanism is missing"):
        settings_from(PLACE, {"sasl.username": "me"})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MetadataStoreError, match="pure-sasl"):
        settings_from(PLACE, {"sasl.mechanism": "DIGEST-MD5", "sasl.username": "me", "sasl.password": "hunter2"})


def test_without_kazoo_the_extra_is_named(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("mooring.metadata.zookeeper") or name.partition(".")[0] == "kazoo":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    with pytest.raises(MetadataStoreError, match=r"pip install 'mooring\[zookeeper\]'"):
        open_metadata_store(PLACE)
    with pytest.raises(MetadataStoreError, match=r"pip install 'mooring\[zookeeper\]'"):
        open_records(PLACE, {}, print)


def test_each_application_has_its_part_of_the_root():
    settings = settings_from("zk://one/base", {"run.id": "test"})
    assert settings.of_application("prices").root == "/base/prices-test"
    assert settings_from("zk://one/base", {}).of_application("a/b c").root == "/base/a=2fb=20c-1"
    assert settings.of_application("a b").root != settings.of_application("a-b").root


@pytest.mark.parametrize("run_id", ["", "a-b", "a/b", "..", "x" * 51])
def test_a_run_id_is_plain(run_id):
    with pytest.raises(InvalidSettingError, match=r"metadata\.run\.id=.*expected letters and digits"):
        settings_from(PLACE, {"run.id": run_id})
