"""The ZooKeeper store when its session ends, when a writer dies half-way, and when strangers ask."""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

import mooring
from mooring.errors import MetadataStoreUnavailable, OutcomeUnknown
from mooring.metadata import ZkMetadataStore, open_metadata_store
from mooring.metadata.zookeeper import commit, settings_from
from mooring.metadata.zookeeper.connection import NoAnswer
from mooring.testing.probes import wait_until
from mooring.testing.zookeeper import ZooKeeperEnsemble
from tests.integration.support.zookeeper_sessions import expire

LARGE = 3_000_000
SESSION_SECONDS = 2

WRITER_OF_LARGE_VALUES = """
import sys
from mooring.metadata import open_metadata_store

store = open_metadata_store(sys.argv[1], timeout=sys.argv[2] + "s", **{"retry.deadline": "30s"})
number = 0
while True:
    number += 1
    store.put("key", b"%07d " % number * 375_000)
    print(number, flush=True)
"""


@pytest.fixture
def place(ensemble):
    return f"zk://{ensemble.hosts}/test-{uuid.uuid4().hex}"


@pytest.fixture
def direct(ensemble):
    """ZooKeeper itself, to see what is there."""
    client = KazooClient(ensemble.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def generations(direct, place):
    try:
        return set(direct.get_children(f"{root(place)}/metadata/=generations"))
    except Exception:  # nothing large was written yet
        return set()


def root(place):
    return "/" + place.rpartition("/")[2]


@contextmanager
def writer_of_large_values(place):
    environment = os.environ | {"PYTHONPATH": str(Path(mooring.__file__).parents[1])}
    command = [sys.executable, "-c", WRITER_OF_LARGE_VALUES, place, str(SESSION_SECONDS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# Sessions


def test_an_expired_session_is_begun_anew_and_nobody_notices(ensemble, place):
    with open_metadata_store(place) as store:
        store.put("key", b"1")
        first = store._connection.session  # type: ignore[attr-defined]
        expire(ensemble.hosts, store._connection._client.client_id)  # type: ignore[attr-defined]
        store.put("key", b"2")
        assert store.get("key") == b"2"
        assert store._connection.session != first  # type: ignore[attr-defined]


def test_a_watch_survives_the_end_of_its_session(ensemble, place):
    heard, news = set(), threading.Event()

    def watcher(keys):
        heard.update(keys)
        news.set()

    with open_metadata_store(place) as store, open_metadata_store(place) as other:
        other.put("before", b"1")
        store.watch(watcher)
        for round_number in range(3):
            expire(ensemble.hosts, store._connection._client.client_id)  # type: ignore[attr-defined]
            other.put(f"meanwhile {round_number}", b"1")
            wait_until(lambda: f"meanwhile {round_number}" in heard, "the watcher to hear", timeout=20)  # noqa: B023
            other.put(f"after {round_number}", b"1")
            wait_until(lambda: f"after {round_number}" in heard, "the watcher to hear", timeout=20)  # noqa: B023
    assert "before" not in heard


def test_a_watcher_hears_what_happened_while_its_server_was_down(ensemble, place, tmp_path):
    heard = set()
    with ZooKeeperEnsemble(work_dir=tmp_path) as own:
        (node,) = own.nodes
        at = f"zk://{own.hosts}/mooring"
        with open_metadata_store(at, **{"retry.deadline": "2s"}) as store, open_metadata_store(at) as other:
            store.watch(heard.update)
            node.kill()
            time.sleep(3)
            node.revive()
            other.put("key", b"1")
            wait_until(lambda: "key" in heard, "the watcher to hear", timeout=20)


def test_a_watcher_that_fell_far_behind_is_told_every_key(ensemble, place):
    heard = set()
    with open_metadata_store(place) as store, open_metadata_store(place) as other:
        other.put_all({"deleted": b"1", "stays": b"1"})
        store.watch(heard.update)
        with store._watch._looking:  # type: ignore[attr-defined]  # as if it were paused
            other.delete("deleted")
            for number in range(700):
                other.put("busy", b"%d" % number)
        wait_until(lambda: heard >= {"deleted", "stays", "busy"}, "the watcher to hear of all", timeout=20)


def test_the_log_of_writes_stays_short(place, direct):
    with open_metadata_store(place) as store:
        for number in range(700):
            store.put("key", b"%d" % number)
    assert 500 <= len(direct.get_children(f"{root(place)}/metadata/=writes")) <= 560


def test_ten_thousand_keys_cost_the_servers_one_watch_for_each_client(ensemble, place, direct):
    def watches():
        return int(re.search(r"zk_watch_count\t(\d+)", direct.command(b"mntr"))[1])

    before, heard = watches(), set()
    values = {f"localityData/clicks/Partition {number}": b"10.0.0.7" for number in range(10_000)}
    with open_metadata_store(place) as store, open_metadata_store(place) as other:
        store.watch(heard.update)
        other.watch(lambda keys: None)
        began = time.monotonic()
        other.put_all(values)
        written = time.monotonic()
        wait_until(lambda: len(heard) == 10_000, "the watcher to hear", timeout=60)
        wait_until(lambda: watches() - before == 2, "one watch for each client, the writer's set anew", timeout=20)
        asked = time.monotonic()
        assert store.all("localityData/") == values
        read = time.monotonic()
    print(f"10,000 keys: {written - began:.2f} s to write, {read - asked:.2f} s to read")


# Writes whose answer does not come


def lose_once(store, monkeypatch, before=False, then=lambda: None):
    """The next transaction is done and its answer lost; or, `before`, it is lost on its way."""
    attempt = store._connection.attempt

    def losing(requests, deadline, *window):
        monkeypatch.setattr(store._connection, "attempt", attempt)
        if not before:
            attempt(requests, deadline, *window)
        then()
        raise NoAnswer("the answer was lost")

    def until_the_transaction(requests, deadline, *window):
        is_transaction = getattr(requests[0], "func", None) is commit._commit
        return (losing if is_transaction else attempt)(requests, deadline, *window)

    monkeypatch.setattr(store._connection, "attempt", until_the_transaction)


@pytest.mark.parametrize("before", [False, True], ids=["done", "not done"])
def test_a_write_whose_answer_was_lost_is_made_once(place, direct, monkeypatch, before):
    with open_metadata_store(place) as store:
        store.put_all({"small": b"1", "large": b"1"})
        lose_once(store, monkeypatch, before)
        store.put_all({"small": b"2", "large": bytes(LARGE)})
        assert store.all() == {"small": b"2", "large": bytes(LARGE)}
        assert direct.exists(f"{root(place)}/metadata/=none/small").version == 1
        assert len(generations(direct, place)) == 1
        lose_once(store, monkeypatch, before)
        store.delete("small")
        assert store.all() == {"large": bytes(LARGE)}


def test_a_lost_write_that_somebody_has_replaced_is_not_made_again(place, monkeypatch):
    with open_metadata_store(place) as store, open_metadata_store(place) as other:
        store.put("key", b"0")
        lose_once(store, monkeypatch, then=lambda: other.put("key", b"later"))
        store.put("key", b"earlier")
        assert store.get("key") == b"later"


def test_a_write_whose_fate_cannot_be_found_out_is_unknown(place, monkeypatch):
    def unavailable(*_):
        raise MetadataStoreUnavailable("gone")

    with open_metadata_store(place) as store, open_metadata_store(place) as other:
        store.put("key", b"1")
        connection = store._connection  # type: ignore[attr-defined]
        lose_once(store, monkeypatch, then=lambda: monkeypatch.setattr(connection, "ask", unavailable))
        with pytest.raises(OutcomeUnknown, match="read it back"):
            store.put("key", bytes(LARGE))
        assert other.get("key") == bytes(LARGE)


# Writers that die half-way


def test_what_a_killed_writer_left_is_removed_when_its_session_has_ended(place, direct):
    with open_metadata_store(place) as store:
        store.put("key", bytes(LARGE))
        with writer_of_large_values(place) as writer:
            writer.stdout.readline()
            seen = generations(direct, place)
            wait_until(lambda: len(generations(direct, place) - seen) > 0, "a new generation", interval=0.001)
            writer.kill()
        wait_until(
            lambda: store.put("other", bytes(LARGE)) is None and len(generations(direct, place)) == 2,
            "its parts to be removed",
            timeout=20,
        )
        value = store.get("key")
        assert value == value[:8] * 375_000


def test_a_small_value_and_a_deletion_remove_the_parts(place, direct):
    with open_metadata_store(place) as store:
        store.put_all({"shrinks": bytes(LARGE), "goes": bytes(LARGE), "stays": bytes(LARGE)})
        assert len(generations(direct, place)) == 3
        store.put("shrinks", b"1")
        store.delete("goes")
        assert len(generations(direct, place)) == 1
        assert store.all() == {"shrinks": b"1", "stays": bytes(LARGE)}


def test_parts_that_a_live_writer_is_writing_are_not_removed(place, direct):
    with open_metadata_store(place) as slow, open_metadata_store(place) as other:
        slow.put("key", b"1")
        deadline = slow._connection.new_deadline()  # type: ignore[attr-defined]
        split = slow._values._generations.stage("=none/key", bytes(LARGE), deadline)  # type: ignore[attr-defined]
        other.put("key", bytes(LARGE))
        other._values._generations.sweep()  # type: ignore[attr-defined]
        assert split.generation in generations(direct, place)
        assert slow._values._generations.read(split, deadline) == bytes(LARGE)  # type: ignore[attr-defined]


def test_a_writer_that_slept_past_its_session_writes_its_parts_again(place, direct):
    with open_metadata_store(place) as store, writer_of_large_values(place) as writer:
        writer.stdout.readline()
        for _ in range(2):
            seen = generations(direct, place)
            wait_until(lambda: len(generations(direct, place) - seen) > 0, "a generation", interval=0.001)  # noqa: B023
            os.kill(writer.pid, signal.SIGSTOP)
            time.sleep(2 * SESSION_SECONDS)
            store.put("sweeps", bytes(LARGE))
            os.kill(writer.pid, signal.SIGCONT)
            written = int(writer.stdout.readline())
            value = store.get("key")
            assert value == value[:8] * 375_000
            assert int(value.split()[0]) >= written


def test_a_damaged_value_is_left_out_and_reported_once(place, direct):
    reports = []
    with ZkMetadataStore(settings_from(place, {}), report=reports.append) as store:
        store.put_all({"a part": bytes(LARGE), "first line": b"1", "fine": b"1"})
        (generation,) = generations(direct, place)
        direct.delete(f"{root(place)}/metadata/=generations/{generation}/3")
        direct.set(f"{root(place)}/metadata/=none/first=20line", b"mooring-zk/1 what")
        for _ in range(2):
            assert store.all() == {"fine": b"1"}
            assert store.get("a part") is None
        assert sorted(reports) == [
            f"=none/a=20part in {place} is ignored: a part of its value is missing",
            f"=none/first=20line in {place} is ignored: it does not fit its first line",
        ]
        store.put_all({"a part": b"2", "first line": b"2"})
        assert store.all() == {"a part": b"2", "first line": b"2", "fine": b"1"}


def test_other_tools_read_and_write_small_values(place, direct):
    at = f"{root(place)}/metadata/samza-drain-v1/uuid-1"
    with open_metadata_store(place) as store:
        store.put("samza-drain-v1/uuid-1", b'{"drainMode": "DEFAULT"}')
        assert direct.get(at)[0] == b'{"drainMode": "DEFAULT"}'
        direct.set(at, b"{}")
        assert store.get("samza-drain-v1/uuid-1") == b"{}"


# Who may


def test_the_right_password_opens_and_a_wrong_one_is_refused(place, caplog):
    caplog.set_level(logging.DEBUG)
    mine = {"auth": "digest:mooring", "auth.password": "hunter2"}
    with open_metadata_store(place, **mine) as store, open_metadata_store(place, **mine) as other:
        store.put("key", bytes(LARGE))
        assert other.get("key") == bytes(LARGE)
    for options in ({"auth": "digest:mooring:hunter3"}, {}):
        with open_metadata_store(place, **options) as stranger:
            for refused in (lambda: stranger.get("key"), lambda: stranger.put("key", b"2"), stranger.all):
                with pytest.raises(
                    MetadataStoreUnavailable, match=r"no permission.*spark\.mooring\.metadata\.auth"
                ) as raised:
                    refused()
                assert "hunter" not in str(raised.value)
    with open_metadata_store(place, **mine) as store:
        assert store.get("key") == bytes(LARGE)
    assert "hunter" not in caplog.text


def test_an_acl_that_the_servers_refuse_is_named(place):
    with (
        open_metadata_store(place, acl="digest:nobody:cdrwa") as store,
        pytest.raises(MetadataStoreUnavailable, match=r"metadata\.acl"),
    ):
        store.put("key", b"1")


def test_the_parents_of_a_root_may_be_somebody_elses(place, direct):
    direct.create(root(place), acl=[make_acl("world", "anyone", all=True)])
    direct.create(f"{root(place)}/ours", acl=[make_acl("world", "anyone", all=True)])
    direct.set_acls(root(place), [make_acl("world", "anyone", read=True)])
    with open_metadata_store(f"{place}/ours/prices") as store:
        store.put("key", b"1")
        assert store.get("key") == b"1"


def test_readers_may_be_allowed_to_read_only(place):
    acl = "auth::cdrwa,world:anyone:r"
    with (
        open_metadata_store(place, auth="digest:mooring:hunter2", acl=acl) as store,
        open_metadata_store(place) as reader,
    ):
        store.put("key", b"1")
        assert reader.get("key") == b"1"
        heard = set()
        reader.watch(heard.update)
        store.put("key", b"2")
        wait_until(lambda: heard == {"key"}, "the reader to hear", timeout=10)
        with pytest.raises(MetadataStoreUnavailable, match="no permission"):
            reader.put("key", b"3")
