"""What is particular to Kafka: the topic's shape, its records, its one writer for a role, its compaction, its login."""

import logging
import time
import traceback
import uuid

import pytest

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable, WriterReplaced
from mooring.metadata import KafkaMetadataStore, open_metadata_store
from mooring.metadata.kafka.records import Author, author_headers, value_key
from mooring.testing.kafka import KafkaBroker
from mooring.testing.probes import wait_until


@pytest.fixture
def topic():
    return f"topic-{uuid.uuid4().hex}"


@pytest.fixture
def address(kafka_broker, topic):
    return f"kafka://{kafka_broker.servers}/{topic}"


@pytest.fixture
def admin(kafka_broker):
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": kafka_broker.servers})


@pytest.fixture
def foreign(kafka_broker, topic):
    """Writes records as any program might."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka_broker.servers, "linger.ms": 0})

    def produce(*records):
        for key, value, headers in records:
            producer.produce(topic, key=key, value=value, partition=0, headers=headers)
        assert producer.flush(30) == 0

    return produce


def make_topic(admin, topic, partitions=1, **configuration):
    from confluent_kafka.admin import NewTopic

    settings = {name.replace("_", "."): value for name, value in configuration.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()


def settings_of(admin, topic):
    from confluent_kafka.admin import ConfigResource

    (found,) = admin.describe_configs([ConfigResource("topic", topic)]).values()
    return {name: entry.value for name, entry in found.result().items()}


# Its shape


def test_a_missing_topic_is_made_at_the_first_use_and_not_before(address, topic, admin):
    with open_metadata_store(address) as store:
        assert topic not in admin.list_topics(timeout=10).topics
        assert store.get("key") is None
    found = admin.list_topics(timeout=10).topics[topic]
    assert [len(partition.replicas) for partition in found.partitions.values()] == [1]
    assert settings_of(admin, topic)["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        ({"partitions": 3, "cleanup_policy": "compact"}, "has 3 partitions"),
        ({"cleanup_policy": "delete"}, "cleanup.policy=delete"),
        ({"cleanup_policy": "compact,delete"}, "cleanup.policy=compact,delete"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_topic_of_another_shape_is_refused(address, topic, admin, shape, complaint):
    make_topic(admin, topic, **shape)
    with open_metadata_store(address) as store:
        for refused in [lambda: store.get("key"), lambda: store.put("key", b"1")]:
            with pytest.raises(MetadataStoreError, match=complaint):
                refused()


def test_more_copies_than_brokers_are_refused(address):
    with (
        open_metadata_store(address, **{"replication.factor": "2"}) as store,
        pytest.raises(MetadataStoreError, match=r"(?i)replication"),
    ):
        store.get("key")


@pytest.mark.parametrize("writer", [{}, {"exclusive.writer": "agent"}], ids=["plain", "exclusive"])
def test_a_value_above_the_limit_of_an_existing_topic_is_refused_before_anything_is_written(
    address, topic, admin, writer
):
    make_topic(admin, topic, cleanup_policy="compact", max_message_bytes="100000")
    with open_metadata_store(address, **writer) as store:
        store.put("fits", bytes(98_000))
        with pytest.raises(MetadataStoreError, match=r"10\d{4} bytes.*ns.*max\.message\.bytes.*100000"):
            store.put_all({"first": b"1", "ns/large": bytes(100_000)})
        assert store.all() == {"fits": bytes(98_000)}


# Its records


def test_records_are_as_the_contract_says(address, topic, kafka_broker):
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    with open_metadata_store(address) as store, open_metadata_store(address, **{"exclusive.writer": "agent"}) as agent:
        store.put("samza-drain-v1/88b0", b"\0")
        store.put("empty", b"")
        agent.put("by/agent", b"1")
        store.delete("samza-drain-v1/88b0")
    consumer = Consumer({"bootstrap.servers": kafka_broker.servers, "group.id": uuid.uuid4().hex})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    records = [consumer.consume(1, 30)[0] for _ in range(5)]
    consumer.close()
    assert [(record.key(), record.value(), dict(record.headers() or ())) for record in records] == [
        (b'[1,"samza-drain-v1","88b0"]', b"\0", {}),
        (b'[1,"","empty"]', b"", {}),
        (b'["mooring.writer","agent"]', b"1", {}),
        (b'[1,"by","agent"]', b"1", {"mooring.writer": b"agent", "mooring.generation": b"1"}),
        (b'[1,"samza-drain-v1","88b0"]', None, {}),
    ]


def test_foreign_records_are_left_out_and_each_is_reported_once(address, foreign):
    reports = []
    with open_metadata_store(address, report=reports.append) as store:
        store.put("ours", b"1")
        for _ in range(2):
            foreign(
                (b"not json", b"", None),
                (b'[2,"","later version"]', b"2", None),
                (b'[1, "", "with spaces"]', b"3", None),
                (value_key("ours"), b"no generation", [("mooring.writer", b"agent")]),
            )
        assert store.all() == {"ours": b"1"}
    assert len(reports) == 4
    assert all("offset" in report for report in reports)
    assert any("version '2'" in report for report in reports)


def test_a_record_of_a_replaced_generation_that_slipped_in_is_ignored_by_everybody(address, foreign):
    reports = []
    with open_metadata_store(address, report=reports.append) as before:
        for _ in range(2):
            with open_metadata_store(address, **{"exclusive.writer": "agent"}) as agent:
                agent.put("key", b"good")
        foreign((value_key("key"), b"stale", author_headers(Author("agent", 1))))
        with open_metadata_store(address) as after:
            assert before.get("key") == after.get("key") == b"good"
    assert len(reports) == 1 and "generation 2 has replaced" in reports[0]


@pytest.mark.parametrize("writer", [{}, {"exclusive.writer": "agent"}], ids=["plain", "exclusive"])
def test_more_values_than_the_clients_queue_holds_are_written_in_order(address, foreign, writer):
    values = {f"key {number}": b"%d" % number for number in range(100)}
    with open_metadata_store(address, **{"queue.buffering.max.messages": "7"}, **writer) as store:
        store.put_all(values)
        assert list(store.all().items()) == list(values.items())


# One writer for a role


def test_a_replaced_writer_is_told_and_its_writes_are_not_seen(address):
    first = open_metadata_store(address, **{"exclusive.writer": "agent"})
    with first, open_metadata_store(address) as plain:
        first.put("key", b"first")
        with open_metadata_store(address, **{"exclusive.writer": "agent"}) as second:
            assert second.get("key") == b"first"  # its first use: from here on the role is its own
            for refused in [lambda: first.put("key", b"late"), lambda: first.delete("key")] * 2:
                with pytest.raises(WriterReplaced, match=r"generation 1.*replaced by generation 2"):
                    refused()
            assert first.get("key") == plain.get("key") == second.get("key") == b"first"
            second.put("key", b"second")
            plain.put("request", b"anybody may")
            assert first.all() == second.all() == {"key": b"second", "request": b"anybody may"}


def test_writers_of_different_roles_do_not_disturb_each_other(address):
    with (
        open_metadata_store(address, **{"exclusive.writer": "one"}) as one,
        open_metadata_store(address, **{"exclusive.writer": "two"}) as two,
    ):
        for number in range(5):
            one.put("one", b"%d" % number)
            two.put("two", b"%d" % number)
        assert one.all() == two.all() == {"one": b"4", "two": b"4"}


def test_of_two_writers_that_fight_for_a_role_the_later_one_has_it_in_the_end(address):
    """Each takeover is by a new client; whoever was replaced stays so."""
    stores, role = [], {"exclusive.writer": "agent"}
    for number in range(4):
        stores.append(open_metadata_store(address, **role))
        stores[-1].put("key", b"%d" % number)
        for replaced in stores[:-1]:
            with pytest.raises(WriterReplaced):
                replaced.put("key", b"late")
    assert {store.get("key") for store in stores} == {b"3"}
    for store in stores:
        store.close()


def test_what_is_written_at_once_by_an_exclusive_writer_is_seen_at_once(address):
    seen = []
    with open_metadata_store(address, **{"exclusive.writer": "agent"}) as agent, open_metadata_store(address) as reader:
        reader.watch(lambda keys: seen.append(frozenset(reader.all().values())))
        for number in range(20):
            agent.put_all({f"key {index}": b"%d" % number for index in range(5)})
            seen.append(frozenset(reader.all().values()))
    assert {len(values) for values in seen} == {1}


# Compaction


@pytest.mark.heavy
def test_after_compaction_a_new_reader_sees_the_same(address, topic, admin):
    make_topic(
        admin,
        topic,
        cleanup_policy="compact",
        segment_ms="1000",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="1000",
        max_message_bytes="2000000",
    )
    role = {"exclusive.writer": "agent"}
    with open_metadata_store(address) as plain, open_metadata_store(address, **role) as agent:
        written = 0

        def most_is_gone():
            """A segment is closed by a write only, so keep writing."""
            nonlocal written
            for key in range(10):
                plain.put(f"plain/{key}", b"%d" % written)
                agent.put(f"agent/{key}", b"%d" % written)
                written += 2
            plain.delete("plain/3")
            agent.delete("agent/3")
            return records_met(address) < written / 2

        wait_until(most_is_gone, "compaction", 120, interval=1)
        with open_metadata_store(address) as late, open_metadata_store(address, **role) as next_agent:
            assert late.all() == plain.all() == agent.all()
            assert sorted(late.all()) == [f"{by}/{key}" for by in ("agent", "plain") for key in range(10) if key != 3]
            next_agent.put("agent/0", b"next")
            with pytest.raises(WriterReplaced, match=r"generation 1.*replaced by generation 2"):
                agent.put("agent/0", b"late")
            assert late.get("agent/0") == b"next"


def records_met(address):
    """How many records a reader meets from the beginning to the end."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    servers, _, topic = address.removeprefix("kafka://").partition("/")
    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    met = 0
    while (message := consumer.poll(10)) is not None and message.error() is None:
        met += 1
    consumer.close()
    return met


# Its login


SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "user"}


@pytest.fixture
def broker_with_login(tmp_path):
    from mooring.testing.probes import free_port

    port = free_port()
    plain, controller = free_port(), free_port()
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},SASL://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{login} user_user="richtig";',
    }
    with KafkaBroker(tmp_path / "kafka", settings, port=plain):
        yield f"127.0.0.1:{port}"


@pytest.mark.heavy
def test_login_works_and_a_wrong_password_is_refused_at_once_and_shown_nowhere(broker_with_login, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    reports = []
    address = f"kafka://{broker_with_login}/login"
    with open_metadata_store(address, **SASL, **{"sasl.password": "richtig"}) as store:
        store.put("key", b"1")
        assert store.get("key") == b"1"
    begin = time.monotonic()
    wrong = open_metadata_store(address, report=reports.append, **SASL, **{"sasl.password": "geheim"})
    with wrong, pytest.raises(MetadataStoreUnavailable, match="Authentication failed") as raised:
        wrong.get("key")
    assert time.monotonic() - begin < 15
    told = "".join(traceback.format_exception(raised.value)) + caplog.text + "".join(capfd.readouterr()) + str(reports)
    assert "geheim" not in told + repr(wrong)
    assert "richtig" not in told


def test_the_store_can_be_made_without_an_address(kafka_broker, topic):
    with KafkaMetadataStore(kafka_broker.servers, topic, timeout_seconds=20, replication_factor=1) as store:
        store.put("key", b"1")
        assert store.get("key") == b"1"
