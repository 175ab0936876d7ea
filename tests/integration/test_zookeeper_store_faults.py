"""The ZooKeeper store while its servers are killed, paused and brought back."""

import time
from contextlib import suppress

import pytest

from mooring.errors import MetadataStoreUnavailable, OutcomeUnknown
from mooring.metadata import open_metadata_store
from mooring.testing.probes import free_port, wait_until
from mooring.testing.zookeeper import ZooKeeperEnsemble
from tests.integration.support.store_writer_and_reader import PutStream

QUICK = {"timeout": "3s", "retry.deadline": "5s"}


@pytest.fixture
def one(tmp_path):
    with ZooKeeperEnsemble(work_dir=tmp_path / "one") as ensemble:
        yield ensemble


@pytest.fixture
def three(tmp_path):
    with ZooKeeperEnsemble(nodes=3, work_dir=tmp_path / "three") as ensemble:
        yield ensemble


def stream(ensemble, **options):
    """A writer and a reader, each with a client of its own."""
    place = f"zk://{ensemble.hosts}/mooring"
    writing, reading = (open_metadata_store(place, **QUICK | options) for _ in range(2))
    return PutStream(writing, reading)


def check(puts):
    """Nothing acknowledged is lost, nothing is half seen: not while it ran, and not at the end."""
    print(puts)
    assert puts.wrong == []
    last = int(puts._reading.get("key").split()[0])
    assert puts.acknowledged <= last <= puts.begun


def test_a_server_that_is_killed_and_comes_back_loses_nothing(one):
    (node,) = one.nodes
    with stream(one, **{"retry.deadline": "20s"}) as puts:
        for _ in range(2):
            puts.wait_for_more()
            node.kill()
            time.sleep(0.5)
            node.revive()
        puts.wait_for_more()
    check(puts)
    assert puts.unavailable == puts.unknown == []  # each was looked up, and made once


@pytest.mark.heavy
def test_a_server_that_is_silent_for_30_seconds_loses_nothing(one):
    (node,) = one.nodes
    with stream(one) as puts:
        puts.wait_for_more()
        node.pause()
        time.sleep(30)
        node.resume()
        puts.wait_for_more()
    check(puts)
    assert puts.unavailable + puts.unknown  # 30 s are more than retry.deadline


def test_a_server_that_is_silent_for_longer_than_the_deadline_is_reported_and_used_again(one):
    (node,) = one.nodes
    with stream(one, timeout="2s", **{"retry.deadline": "2s"}) as puts:
        puts.wait_for_more()
        node.pause()
        wait_until(lambda: bool(puts.unavailable), "a put to be refused", 30, story=lambda: repr(puts))
        node.resume()
        puts.wait_for_more()
    check(puts)
    assert any("does not answer" in error for error in puts.unavailable + puts.unknown)


@pytest.mark.heavy
def test_nothing_happens_when_one_node_of_three_is_killed(three):
    with stream(three) as puts:
        for node in three.nodes:
            puts.wait_for_more()
            node.kill()
            puts.wait_for_more(20)
            node.revive()
            three.wait_until_served()
    check(puts)
    assert puts.unavailable == puts.unknown == []


def test_a_lost_quorum_is_said_and_nothing_is_lost_when_it_is_back(three):
    with stream(three, **{"retry.deadline": "3s"}) as puts:
        puts.wait_for_more()
        first, second, _ = three.nodes
        first.kill()
        second.kill()
        wait_until(lambda: any("no quorum" in error for error in puts.unavailable + puts.unknown), "it to be said", 60)
        first.revive()
        puts.wait_for_more()
    check(puts)


def test_nobody_at_the_address_is_said_within_the_deadline():
    place = f"zk://127.0.0.1:{free_port()}/mooring"
    began = time.monotonic()
    with (
        open_metadata_store(place, **{"retry.deadline": "1s"}) as store,
        pytest.raises(MetadataStoreUnavailable, match=r"no connection within 1 s.*refused"),
    ):
        store.put("key", b"1")
    assert time.monotonic() - began < 5


def test_a_server_that_starts_after_its_clients_is_found(tmp_path):
    ensemble = ZooKeeperEnsemble(work_dir=tmp_path)
    with open_metadata_store(f"zk://{ensemble.hosts}/mooring", **{"retry.deadline": "500ms"}) as store:
        with pytest.raises(MetadataStoreUnavailable):
            store.get("key")
        with ensemble:
            deadline = time.monotonic() + 20
            found = None
            while found is None and time.monotonic() < deadline:
                # A server that has just started may need more than 500 ms, also for a write that it has begun.
                with suppress(MetadataStoreUnavailable, OutcomeUnknown):
                    store.put("key", b"1")
                    found = store.get("key")
            assert found == b"1"
