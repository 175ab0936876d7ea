"""Which text names which store."""

import os

import pytest

from mooring.errors import InvalidSettingError, MetadataStoreError
from mooring.metadata import FileMetadataStore, MemoryMetadataStore, open_metadata_store


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "FILE:{}"])
def test_a_directory_in_any_form(tmp_path, form):
    directory = tmp_path / "a b%20#c?d"
    with open_metadata_store(form.format(directory)) as store:
        assert isinstance(store, FileMetadataStore)
        store.put("key", b"1")
    assert os.listdir(directory) == ["k-key.v1"]


def test_a_relative_directory_and_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with open_metadata_store("here") as store:
        store.put("key", b"1")
    with open_metadata_store("~/there") as store:
        store.put("key", b"1")
    assert (tmp_path / "here" / "k-key.v1").exists()
    assert (tmp_path / "home" / "there" / "k-key.v1").exists()


def test_memory_is_shared_by_name():
    with open_metadata_store("memory://test-open") as one, open_metadata_store("memory://test-open/") as same:
        assert isinstance(one, MemoryMetadataStore)
        one.put("key", b"1")
        assert same.get("key") == b"1"
    with open_metadata_store("memory://test-open-other") as other:
        assert other.get("key") is None


def test_memory_without_a_name_is_its_own():
    MemoryMetadataStore().put("key", b"1")
    assert MemoryMetadataStore().get("key") is None


@pytest.mark.parametrize("uri", ["zookeeper://host:2181/root"])
def test_a_scheme_that_is_nearly_right_is_met_with_the_right_one(uri):
    with pytest.raises(MetadataStoreError, match="zk://host:port"):
        open_metadata_store(uri)


@pytest.mark.parametrize("uri", ["s3a://bucket/path", "hdfs://name/path", "abfss://c@a/path", "dbfs:/path", "gs://b"])
def test_other_schemes_say_which_store_to_use_instead(uri):
    with pytest.raises(MetadataStoreError, match="directory that is mounted here") as raised:
        open_metadata_store(uri)
    assert uri in str(raised.value)


@pytest.mark.parametrize("uri", ["", "  ", "file://host/path", "file:relative", "file://"])
def test_a_text_that_names_nothing_is_refused(uri):
    with pytest.raises(MetadataStoreError):
        open_metadata_store(uri)


@pytest.mark.parametrize("uri", ["memory://test-open", "/tmp/never-made"])
def test_an_option_that_the_store_does_not_have_is_refused(uri):
    with pytest.raises(InvalidSettingError, match=r"spark\.mooring\.metadata\.sasl\.mechanism"):
        open_metadata_store(uri, **{"sasl.mechanism": "PLAIN"})


def test_an_interval_that_is_none_is_refused():
    with pytest.raises(InvalidSettingError, match=r"poll\.interval=soon"):
        open_metadata_store("/tmp/never-made", **{"poll.interval": "soon"})
