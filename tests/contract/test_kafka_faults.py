"""The store in Kafka when its broker dies, hangs or is away: a broker of its own for each test."""

import threading
import time
import uuid

import pytest

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable, OutcomeUnknown
from mooring.metadata import open_metadata_store
from mooring.testing.kafka import KafkaBroker
from mooring.testing.probes import wait_until

WRITERS = [{}, {"exclusive.writer": "agent"}]


@pytest.fixture
def broker(tmp_path):
    with KafkaBroker(tmp_path / "kafka") as broker:
        yield broker


class Stream:
    """Writes 1, 2, 3, … to one key and each to a key of its own as well, and keeps account of what it was told."""

    def __init__(self, address, options):
        self.address, self.options = address, options
        self.acknowledged, self.unknown, self.refused = [], [], []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def wait_for_more(self, seconds=60.0):
        before = len(self.acknowledged)
        wait_until(lambda: len(self.acknowledged) > before + 20, "twenty more writes", seconds)

    def wait_for_a_failure(self, seconds=60.0):
        before = self.failures
        wait_until(lambda: self.failures > before, "a write to fail", seconds)

    @property
    def failures(self):
        return len(self.refused) + len(self.unknown)

    def _run(self):
        with open_metadata_store(self.address, **self.options) as store:
            number = 0
            while not self._end.is_set():
                number += 1
                value = b"%d " % number * 2_000
                try:
                    store.put_all({f"stream/{number}": value, "last": value})
                    self.acknowledged.append(number)
                except OutcomeUnknown:
                    self.unknown.append(number)
                except MetadataStoreUnavailable:
                    self.refused.append(number)


def check(address, stream):
    """What a client that comes afterwards finds."""
    with open_metadata_store(address) as late:
        found = late.all()
    last = found.pop("last")
    numbers = {int(key.partition("/")[2]) for key in found}
    assert all(value == b"%s " % key.partition("/")[2].encode() * 2_000 for key, value in found.items())
    assert set(stream.acknowledged) <= numbers <= set(stream.acknowledged) | set(stream.unknown)
    assert last == b"%d " % max(numbers) * 2_000
    assert numbers.isdisjoint(stream.refused)


@pytest.mark.heavy
@pytest.mark.parametrize("writer", WRITERS, ids=["plain", "exclusive"])
def test_a_broker_that_is_killed_amid_writes_loses_none_that_was_acknowledged(broker, writer):
    address = f"kafka://{broker.servers}/killed"
    reports = []
    with (
        open_metadata_store(address, report=reports.append) as reader,
        Stream(address, {"timeout": "3s", **writer}) as stream,
    ):
        reader.watch(lambda keys: None)
        for _ in range(2):
            stream.wait_for_more()
            broker.kill()
            with pytest.raises(MetadataStoreUnavailable):
                open_metadata_store(address, timeout="1s").get("last")
            stream.wait_for_a_failure()
            broker.start()
            stream.wait_for_more()
            assert reader.get("last") is not None
    print(len(stream.acknowledged), "acknowledged,", stream.unknown, "unknown,", stream.refused, "refused")
    assert stream.refused or stream.unknown
    assert len(reports) == 2 and "changes in the metadata store are not seen for now" in reports[0]
    check(address, stream)


@pytest.mark.heavy
@pytest.mark.parametrize("writer", WRITERS, ids=["plain", "exclusive"])
def test_a_broker_that_hangs_for_half_a_minute_amid_writes_loses_none_that_was_acknowledged(broker, writer):
    address = f"kafka://{broker.servers}/paused"
    reports = []
    with (
        open_metadata_store(address, report=reports.append, timeout="3s") as reader,
        Stream(address, {"timeout": "3s", **writer}) as stream,
    ):
        heard = threading.Event()
        stream.wait_for_more()
        reader.watch(lambda keys: heard.set())
        broker.pause()
        wait_until(lambda: not answers(reader), "the last answer that was on its way", 20)
        begin = time.monotonic()
        with pytest.raises(MetadataStoreUnavailable):
            reader.get("last")
        assert 2 < time.monotonic() - begin < 6
        time.sleep(30)
        broker.resume()
        heard.clear()
        stream.wait_for_more()
        assert heard.wait(30)
        assert reader.get("last") is not None
    print(len(stream.acknowledged), "acknowledged,", stream.unknown, "unknown,", stream.refused, "refused", reports)
    check(address, stream)


@pytest.mark.heavy
@pytest.mark.parametrize("writer", WRITERS, ids=["plain", "exclusive"])
def test_a_write_that_was_sent_and_not_answered_is_of_unknown_fate(broker, monkeypatch, writer):
    """The broker hangs at the worst moment: after the last question before the write, or just before the commit."""
    with (
        open_metadata_store(f"kafka://{broker.servers}/unknown", timeout="3s", **writer) as store,
        open_metadata_store(f"kafka://{broker.servers}/unknown") as other,
    ):
        store.put("key", b"before")
        with monkeypatch.context() as worst_moment:
            part, step = (store._opened.writer, "_commit") if writer else (store._client, "end_offset")  # type: ignore[attr-defined]
            done = getattr(part, step)

            def pause_there(*arguments):
                answer = None if writer else done(*arguments)
                broker.pause()
                return done(*arguments) if writer else answer

            worst_moment.setattr(part, step, pause_there)
            with pytest.raises(OutcomeUnknown):
                store.put("key", b"unknown")
        broker.resume()
        assert other.get("key") in (b"before", b"unknown")
        store.put("key", b"after")
        for _ in range(20):
            assert store.get("key") == other.get("key") == b"after"
            time.sleep(0.2)


@pytest.mark.heavy
def test_a_writer_that_dies_within_a_transaction_hides_the_writes_of_others_for_seconds_only(broker):
    address = f"kafka://{broker.servers}/died"
    with open_metadata_store(address) as plain, open_metadata_store(address, **{"exclusive.writer": "agent"}) as agent:
        agent.put("key", b"1")
        writer = agent._opened.writer  # type: ignore[attr-defined]
        writer._producer.begin_transaction()
        writer._producer.produce("died", key=b'[1,"","key"]', value=b"never seen", partition=0)
        writer._producer.flush(10)
        writer._producer = None  # as good as dead: nobody ends the transaction
        plain.put("other", b"2")
        begin = time.monotonic()
        plain.flush()
        print(f"hidden for {time.monotonic() - begin:.1f} s")
        assert plain.all() == {"key": b"1", "other": b"2"}


@pytest.mark.heavy
@pytest.mark.parametrize("writer", WRITERS, ids=["plain", "exclusive"])
def test_a_store_that_was_opened_before_its_broker_works_as_soon_as_it_is_there(tmp_path, writer):
    broker = KafkaBroker(tmp_path / "kafka")
    with open_metadata_store(f"kafka://{broker.servers}/early", timeout="1s", **writer) as store:
        for refused in [lambda: store.get("key"), lambda: store.put("key", b"1"), store.flush]:
            with pytest.raises(MetadataStoreUnavailable):
                refused()
        with broker:
            wait_until(lambda: answers(store), "the store to answer", 30)
            store.put("key", b"1")
            assert store.get("key") == b"1"


def answers(store):
    try:
        return store.get("key") is None
    except MetadataStoreUnavailable:
        return False


@pytest.mark.heavy
@pytest.mark.parametrize("writer", WRITERS, ids=["plain", "exclusive"])
@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_closing_takes_seconds_also_without_a_broker(broker, fault, writer):
    store = open_metadata_store(f"kafka://{broker.servers}/closing", timeout="20s", **writer)
    store.watch(lambda keys: None)
    store.put("key", b"1")
    getattr(broker, fault)()
    errors = []

    def write():
        try:
            store.put("key", b"2")
        except MetadataStoreError as error:
            errors.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    wait_until(store._writing.locked, "the write to be under way", 10)  # type: ignore[attr-defined]
    before = time.monotonic()
    store.close()
    assert time.monotonic() - before < 15
    writing.join(60)
    assert errors
    wait_until(lambda: not mooring_threads(), "the store's threads to end", 10)


def mooring_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mooring-kafka")]


@pytest.mark.heavy
def test_a_topic_that_was_made_anew_is_read_anew(broker):
    from confluent_kafka.admin import AdminClient

    topic, reports = f"anew-{uuid.uuid4().hex}", []
    address = f"kafka://{broker.servers}/{topic}"
    with open_metadata_store(address, timeout="10s", report=reports.append) as store:
        store.put_all({f"old/{number}": b"1" for number in range(50)})
        assert len(store.all()) == 50
        admin = AdminClient({"bootstrap.servers": broker.servers})
        admin.delete_topics([topic])[topic].result()
        wait_until(lambda: reopened(address), "the topic to be made anew", 30)
        wait_until(lambda: list_of(store) == ["new"], "the old keys to be gone", 60, story=lambda: f"{reports}")


def reopened(address):
    with open_metadata_store(address, timeout="2s") as other:
        try:
            other.put("new", b"1")
            return other.all() == {"new": b"1"}
        except MetadataStoreError:
            return False


def list_of(store):
    try:
        return list(store.all())
    except MetadataStoreError:
        return None
