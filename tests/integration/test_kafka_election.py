"""Leadership over a topic of a real Kafka."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from mooring.coordination.campaign import clock
from mooring.coordination.kafka import KafkaLeaderLock
from mooring.coordination.kafka.lease import CANDIDATE, PREFIX
from mooring.coordination.kafka.led_store import LedStore
from mooring.errors import LeadershipLost
from mooring.metadata import KafkaMetadataStore
from mooring.testing.kafka import KafkaBroker
from mooring.testing.probes import wait_until
from tests.integration.support.election_candidates import candidate, lines_until

SILENCE = 3.0

Candidate = Callable[..., KafkaLeaderLock]

CHILD = """
import json, os, sys, time
from mooring.coordination.campaign import clock
from mooring.coordination.kafka import KafkaLeaderLock
from mooring.coordination.kafka.led_store import LedStore
from mooring.errors import LeadershipLost
from mooring.metadata import KafkaMetadataStore

store = KafkaMetadataStore(sys.argv[1], sys.argv[2], timeout_seconds=2)
lock = KafkaLeaderLock(store, "child", 3.0)
lock.campaign()
number = 0
held = None
while True:
    asked = clock()
    term = lock.leadership
    held = term or held
    outcome = None
    if held is not None and len(sys.argv) > 3:  # acts on its stale view, as nobody should
        number += 1
        try:
            outcome = "written" if lock._role else "let go"
            if lock._role:
                lock._role.write({"acts": b"%d" % number}, 2)
        except Exception as error:
            outcome = type(error).__name__
    os.write(1, json.dumps({"asked": asked, "leads": term and term.generation, "outcome": outcome}).encode() + b"\\n")
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def stand(broker: KafkaBroker, topic: str) -> Iterator[Candidate]:
    """Makes candidates that take part, each with a store of its own."""
    with ExitStack() as opened:

        def make(name: str, **more: object) -> KafkaLeaderLock:
            store = KafkaMetadataStore(broker.servers, topic, timeout_seconds=2)
            opened.callback(store.close)
            lock = KafkaLeaderLock(store, name, SILENCE, **more)  # type: ignore[arg-type]
            opened.callback(lock.resign)
            lock.campaign()
            return lock

        yield make


def led(lock: KafkaLeaderLock) -> int:
    """The generation, as soon as it leads."""
    term = lock.wait(20)
    assert term is not None
    return term.generation


def wait_until_known(leading: KafkaLeaderLock, others: list[KafkaLeaderLock]) -> None:
    wait_until(lambda: all(other.leader() == leading.leader() for other in others), "all to know who leads", timeout=20)
    wait_until(lambda: leading.is_contested == bool(others), "the leader to know who waits", timeout=20)


def test_one_of_many_leads_and_the_next_one_has_a_greater_generation(stand: Candidate) -> None:
    locks = [stand(f"lock {number}") for number in range(4)]
    generations = []
    while locks:
        wait_until(lambda: any(lock.is_leader for lock in locks), "a leader", timeout=20)
        (leading,) = (lock for lock in locks if lock.is_leader)
        wait_until_known(leading, [lock for lock in locks if lock is not leading])
        term = leading.wait(20)
        assert term is not None
        leading.confirm(term)
        generations.append(term.generation)
        leading.resign()
        assert not leading.is_leader
        locks.remove(leading)
    assert generations == sorted(set(generations))


def test_when_all_try_at_once_one_leads(stand: Candidate) -> None:
    locks = [stand(f"lock {number}") for number in range(5)]
    seen = set()
    while len(locks) > 1:
        wait_until(lambda: any(lock.is_leader for lock in locks), "a leader", timeout=20)
        leading = next(lock for lock in locks if lock.is_leader)
        wait_until_known(leading, [lock for lock in locks if lock is not leading])
        leading.resign()  # wakes all the others
        locks.remove(leading)
        end = time.monotonic() + SILENCE
        while time.monotonic() < end:
            seen.add(sum(lock.is_leader for lock in locks))
            time.sleep(0.001)
    assert seen == {0, 1}


def test_a_killed_leader_is_replaced(broker: KafkaBroker, topic: str, stand: Candidate) -> None:
    with candidate(CHILD, broker.servers, topic) as child:
        first = lines_until(child, lambda line: line.get("leads"))[-1]["leads"]
        lock = stand("second")
        wait_until(lambda: lock.leader() == "child", "the second to know the first", timeout=20)
        assert not lock.is_leader
        child.kill()
        assert led(lock) > first


def test_a_leader_that_was_stopped_neither_leads_nor_writes_when_it_wakes(
    broker: KafkaBroker, topic: str, stand: Candidate
) -> None:
    with candidate(CHILD, broker.servers, topic, "acts") as child:
        first = lines_until(child, lambda line: line.get("outcome") == "written")[-1]["leads"]
        lock = stand("second")
        wait_until(lambda: lock.leader() == "child", "the second to know the first", timeout=20)
        os.kill(child.pid, signal.SIGSTOP)
        generation = led(lock)
        assert generation > first
        taken_over = clock()
        LedStore(lock._store, lock).put("acts", b"of the second")
        os.kill(child.pid, signal.SIGCONT)
        seen = lines_until(child, lambda line: line["outcome"] in ("WriterReplaced", "let go"))
        seen += lines_until(child, lambda line: line["asked"] > taken_over + SILENCE)
        assert not [line for line in seen if line["leads"] and line["asked"] > taken_over]
        assert lock._store.get("acts") == b"of the second"
        wait_until(lambda: lock.is_leader, "the second to lead all the same", timeout=20)
        assert led(lock) == generation


def test_a_term_is_over_by_the_clock_alone(stand: Candidate) -> None:
    slept = [0.0]
    lock = stand("sleeper", now=lambda: clock() + slept[0])
    first, epoch = led(lock), lock.epoch
    slept[0] += SILENCE
    assert not lock.is_leader
    assert led(lock) == first and lock.epoch == epoch  # nobody has led in between


def test_who_comes_with_the_token_takes_the_place_at_once(stand: Candidate) -> None:
    first = stand("an agent", token="driver")
    generation = led(first)
    successor = stand("the next agent", token="driver", epoch=first.epoch)
    assert led(successor) > generation and successor.epoch == first.epoch
    generation = led(successor)
    wait_until(lambda: not first.is_leader and first.leader() == "the next agent", "the first to stop", timeout=20)
    wait_until(lambda: successor.leader() == "the next agent", "the successor to know", timeout=20)
    assert led(successor) == generation and not first.is_leader


def test_another_driver_begins_another_epoch(stand: Candidate) -> None:
    first = stand("first")
    led(first)
    first.resign()
    second = stand("second")
    led(second)
    assert second.epoch != first.epoch


def test_what_is_written_outside_of_the_term_is_refused(stand: Candidate) -> None:
    first = stand("first")
    led(first)
    records = LedStore(first._store, first)
    records.put_all({"a": b"1", "b": b"2"})
    records.delete("b")
    first.resign()
    for write in (lambda: records.put("a", b"3"), lambda: records.delete("a")):
        with pytest.raises(LeadershipLost):
            write()
    assert records.get("a") == b"1" and records.get("b") is None


def test_who_waits_is_forgotten_when_it_is_gone(stand: Candidate) -> None:
    first = stand("first")
    led(first)
    second = stand("second")
    wait_until(lambda: first.is_contested, "the first to know of the second", timeout=20)
    second.resign()
    wait_until(lambda: not first.is_contested, "the first to know that the second is gone", timeout=20)
    assert not [key for key in first._store.all(PREFIX) if key.startswith(CANDIDATE)]


def test_a_broker_that_is_away_ends_the_term_and_brings_the_same_leader_back(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka") as broker:
        store = KafkaMetadataStore(broker.servers, "away", timeout_seconds=2)
        said: list[str] = []
        lock = KafkaLeaderLock(store, "only", SILENCE, said.append)
        lock.campaign()
        generation, epoch = led(lock), lock.epoch
        said.clear()  # a new broker may need more than one try
        broker.kill()
        wait_until(lambda: not lock.is_leader, "the term to end", timeout=20)
        wait_until(lambda: lock.leader() is None, "nothing to be known", timeout=20)
        broker.start()
        assert led(lock) == generation and lock.epoch == epoch
        assert len(said) == 1 and "takes no part in the election for now" in said[0]
        lock.resign()
        store.close()


def test_an_unfinished_transaction_of_another_lets_no_second_lead(
    broker: KafkaBroker, topic: str, stand: Candidate
) -> None:
    """Behind it nobody reads anything: renewals go unseen, and the leader must not be taken for silent."""
    first = stand("first")
    led(first)
    second = stand("second")
    wait_until(lambda: first.is_contested, "the first to know of the second", timeout=20)
    settings = {"bootstrap.servers": broker.servers, "transactional.id": topic, "transaction.timeout.ms": 60_000}
    stray = Producer(settings)
    stray.init_transactions(10)
    stray.begin_transaction()
    stray.produce(topic, key=b"stray", value=b"x", partition=0)
    stray.flush(10)
    end = time.monotonic() + 4 * SILENCE
    while time.monotonic() < end:
        assert not (first.is_leader and second.is_leader)
        time.sleep(0.005)
    stray.abort_transaction(10)
    wait_until(lambda: first.is_leader or second.is_leader, "one to lead again", timeout=30)
    assert not (first.is_leader and second.is_leader)
