"""How a store in Kafka is named and set up: what is wrong is said before any broker is asked, and without secrets."""

import logging
import sys
import traceback

import pytest

from mooring.errors import InvalidSettingError, MetadataStoreError
from mooring.metadata import open_metadata_store

pytest.importorskip("confluent_kafka")

ADDRESS = "kafka://127.0.0.1:9/topic"


@pytest.mark.parametrize(
    "uri",
    [
        "kafka:",
        "kafka:host:9092/topic",
        "kafka:///topic",
        "kafka://host:9092",
        "kafka://host:9092/",
        "kafka://host:9092,/topic",
        "kafka://host:9092/a/b",
        "kafka://host:9092/..",
        "kafka://host:9092/top ic",
        "kafka://host:9092/" + "t" * 250,
    ],
)
def test_an_address_without_servers_or_a_topic_is_refused(uri):
    with pytest.raises(MetadataStoreError, match="expected kafka://host:port"):
        open_metadata_store(uri)


def test_a_password_in_the_address_is_refused_and_not_repeated():
    with pytest.raises(MetadataStoreError, match=r"sasl\.password") as raised:
        open_metadata_store("kafka://user:geheim@host:9092/topic")
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize("address", [ADDRESS, "KAFKA://127.0.0.1:9,127.0.0.2:9/a.b_c-1"])
def test_opening_reads_and_writes_nothing(address):
    open_metadata_store(address, **{"exclusive.writer": "agent"}).close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.mechnism", "PLAIN"),
        ("security.protocol", "geheim"),
        ("message.max.bytes", "many"),
        ("timeout", "soon"),
        ("timeout", "0s"),
        ("leader.timeout", "2s"),
        ("leader.timeout", "11m"),
        ("leader.timeout", "soon"),
        ("make.topic", "maybe"),
        ("replication.factor", "0"),
        ("replication.factor", "all"),
        ("exclusive.writer", "a b"),
        ("transactional.id", "mine"),
        ("acks", "1"),
        ("request.required.acks", "1"),
        ("enable.idempotence", "false"),
        ("isolation.level", "read_uncommitted"),
        ("bootstrap.servers", "elsewhere:9092"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(InvalidSettingError) as raised:
        open_metadata_store(ADDRESS, **{name: value})
    assert f"spark.mooring.metadata.{name}" in str(raised.value)


def test_options_that_do_not_fit_together_are_refused_at_once():
    with pytest.raises(InvalidSettingError, match=r"fetch\.max\.bytes"):
        open_metadata_store(ADDRESS, **{"receive.message.max.bytes": "2000", "fetch.max.bytes": "100000"})


@pytest.mark.parametrize(
    "options",
    [
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.password": "geheim"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "geheim", "sasl.password": "geheim"},
        {"security.protocol": "SSL", "ssl.key.pem": "geheim"},
        {"sasl.password": "geheim", "sasl.mechnism": "PLAIN"},
        {"sasl.password": "geheim", "security.protocol": "geheim"},
        {"ssl.key.password": "geheim", "security.protocol": "SSL", "ssl.key.location": "/geheim"},
    ],
)
def test_no_secret_is_in_the_error_for_a_wrong_setting(options, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(InvalidSettingError) as raised:
        open_metadata_store(ADDRESS, **options)
    told = "".join(traceback.format_exception(raised.value)) + caplog.text + "".join(capfd.readouterr())
    assert "geheim" not in told


def test_no_secret_is_in_the_text_of_a_store():
    store = open_metadata_store(ADDRESS, **{"sasl.username": "user", "sasl.password": "geheim"})
    assert repr(store) == "KafkaMetadataStore('127.0.0.1:9', 'topic')"
    assert "geheim" not in repr(vars(store)) + repr(vars(store._client))  # type: ignore[attr-defined]
    store.close()


def test_without_the_client_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.setitem(sys.modules, "confluent_kafka.admin", None)
    with pytest.raises(MetadataStoreError, match=r"pip install 'mooring\[kafka\]'"):
        open_metadata_store(ADDRESS)
