"""Leadership, processors, job models and barriers in a real ZooKeeper."""

import os
import signal
import time
import uuid
from contextlib import ExitStack

import pytest

from mooring.coordination import BarrierState
from mooring.coordination.campaign import clock
from mooring.coordination.zookeeper import ZkBarriers, ZkJobModels, ZkLeaderLock, ZkProcessors
from mooring.errors import LeadershipLost, MetadataStoreError
from mooring.metadata.zookeeper import ZkConnection, settings_from
from mooring.model import ContainerModel, JobModel, TaskModel, TaskName
from mooring.testing.probes import wait_until
from mooring.testing.zookeeper import ZooKeeperEnsemble
from tests.integration.support.election_candidates import candidate, lines_until
from tests.integration.support.zookeeper_sessions import expire

SESSION = 2.0
OPTIONS = {"timeout": "2s", "retry.deadline": "10s"}
CALM = {"timeout": "10s", "retry.deadline": "10s"}
"""Of who is to lead until it is told to go, also on a machine that stands still for a second."""

CANDIDATE = """
import json, os, sys, time
from mooring.coordination.zookeeper import ZkJobModels, ZkLeaderLock
from mooring.coordination.campaign import clock
from mooring.errors import LeadershipLost
from mooring.metadata.zookeeper import ZkConnection, settings_from
from mooring.model import JobModel

settings = settings_from(sys.argv[1], {"timeout": "2s", "retry.deadline": "10s"})
connection = ZkConnection(settings)
lock, models = ZkLeaderLock(connection, settings.root, "child"), ZkJobModels(connection, settings.root)


def say(**words):  # two threads speak
    os.write(1, json.dumps(words).encode() + b"\\n")


lock.on_change(lambda term: say(told=term and term.generation))
lock.campaign()
held = None
while True:
    asked = clock()
    term = lock.leadership
    held = term or held
    outcome = None
    if held is not None and len(sys.argv) > 2:  # acts on its stale view, as nobody should
        try:
            models.publish(JobModel.of([], version=max([0, *models.versions()]) + 1), held)
            outcome = "published"
        except LeadershipLost:
            outcome = "refused"
    say(asked=asked, leads=term and term.generation, outcome=outcome)
    time.sleep(0.01)
"""


@pytest.fixture
def place(ensemble):
    return f"zk://{ensemble.hosts}/test-{uuid.uuid4().hex}/app-run"


@pytest.fixture
def client(place):
    """Makes objects of a class, each with a session of its own unless one is given."""
    with ExitStack() as opened:

        def make(kind, *names, connection=None, options=OPTIONS):
            settings = settings_from(place, options)
            if connection is None:
                connection = ZkConnection(settings)
                opened.callback(connection.close)
            made = kind(connection, settings.root, *names)
            opened.callback(made.resign if kind is ZkLeaderLock else made.close)
            return made

        yield make


@pytest.fixture
def leader(client):
    """A lock that leads."""
    lock = client(ZkLeaderLock, "leader", options=CALM)
    lock.campaign()
    assert lock.wait(10) is not None
    return lock


def model(version, tasks=1):
    names = [TaskName(f"clicks/Partition {number}") for number in range(tasks)]
    return JobModel.of([ContainerModel("0", {name: TaskModel(name) for name in names})], version=version)


# Leadership


def test_one_of_many_leads_and_the_next_one_has_a_greater_generation(client):
    locks = [client(ZkLeaderLock, f"lock {number}", options=CALM) for number in range(5)]
    for lock in locks:
        lock.campaign()
    generations = []
    while locks:
        wait_until(lambda: any(lock.is_leader for lock in locks), "a leader", timeout=10)
        (leading,) = (lock for lock in locks if lock.is_leader)
        assert leading.leader() == leading.leadership.leader
        leading.confirm(leading.leadership)
        generations.append(leading.leadership.generation)
        leading.resign()
        assert not leading.is_leader
        locks.remove(leading)
    assert generations == sorted(set(generations))


def test_when_the_leader_is_killed_another_leads_within_the_session_timeout(client, place):
    with candidate(CANDIDATE, place) as child:
        lines_until(child, lambda line: line.get("leads"))
        lock = client(ZkLeaderLock, "second")
        lock.campaign()
        assert lock.wait(1) is None
        killed = time.monotonic()
        child.kill()
        assert lock.wait(10) is not None
        assert time.monotonic() - killed < SESSION + 1.5  # servers look at sessions every tick, this machine is slow


def test_a_leader_that_was_stopped_finds_its_term_over_before_it_acts(client, place):
    with candidate(CANDIDATE, place) as child:
        first = lines_until(child, lambda line: line.get("leads"))[-1]["leads"]
        lock = client(ZkLeaderLock, "second")
        lock.campaign()
        time.sleep(1)
        os.kill(child.pid, signal.SIGSTOP)
        assert lock.wait(15) is not None
        taken_over = clock()
        assert lock.leadership.generation > first
        time.sleep(SESSION)
        os.kill(child.pid, signal.SIGCONT)
        seen = lines_until(child, lambda line: line == {"told": None})
        seen += lines_until(child, lambda line: line.get("asked", 0) > taken_over + SESSION)
        assert [line for line in seen if line.get("leads") and line["asked"] > taken_over] == []


def test_a_term_is_over_by_the_clock_alone(place):
    slept = [0.0]
    settings = settings_from(place, OPTIONS)
    connection = ZkConnection(settings)
    lock = ZkLeaderLock(connection, settings.root, "sleeper", now=lambda: clock() + slept[0])
    lock.campaign()
    first = lock.wait(10)
    slept[0] += SESSION
    assert not lock.is_leader
    assert lock.wait(10).generation > first.generation
    lock.resign()
    connection.close()


def test_what_a_leader_does_on_a_stale_view_is_refused(client, place):
    with candidate(CANDIDATE, place, "acts") as child:
        lines_until(child, lambda line: line.get("outcome") == "published")
        lock = client(ZkLeaderLock, "second")
        models = client(ZkJobModels, connection=lock._connection)
        lock.campaign()
        time.sleep(0.5)
        os.kill(child.pid, signal.SIGSTOP)
        term = lock.wait(15)
        newest = models.versions()[-1]
        models.publish(model(newest + 1000), term)
        os.kill(child.pid, signal.SIGCONT)
        lines_until(child, lambda line: line.get("outcome") == "refused")
        assert models.versions()[-1] == newest + 1000


def test_who_leads_no_more_is_told_that_first_also_when_its_successor_has_published(client):
    first, second = client(ZkLeaderLock, "first"), client(ZkLeaderLock, "second")
    models = client(ZkJobModels, connection=first._connection)
    first.campaign()
    over = first.wait(10)
    models.publish(model(1), over)
    first.resign()
    second.campaign()
    term = second.wait(10)
    client(ZkJobModels, connection=second._connection).publish(model(7), term)
    for stale in (model(2), model(7)):
        with pytest.raises(LeadershipLost):
            models.publish(stale, over)
    with pytest.raises(MetadataStoreError, match="7 is there already"):
        models.publish(model(7), term)


def test_a_lost_session_ends_the_term_at_once_and_a_new_one_begins(client, ensemble, leader):
    told = []
    leader.on_change(told.append)
    before = leader.leadership
    expire(ensemble.hosts, leader._connection._client.client_id)
    wait_until(lambda: told and told[-1] not in (None, before), "the listener to hear", timeout=10)
    assert told[-2] is None
    assert told[-1].generation > before.generation
    with pytest.raises(LeadershipLost):
        leader.confirm(before)
    leader.confirm(told[-1])


def test_a_leader_without_servers_does_not_lead_and_leads_again_when_they_are_back(place, tmp_path):
    told = []
    with ZooKeeperEnsemble(work_dir=tmp_path) as own:
        settings = settings_from(f"zk://{own.hosts}/app-run", OPTIONS)
        connection = ZkConnection(settings)
        lock = ZkLeaderLock(connection, settings.root, "only")
        lock.on_change(told.append)
        lock.campaign()
        first = lock.wait(10)
        (node,) = own.nodes
        node.pause()
        paused = time.monotonic()
        wait_until(lambda: not lock.is_leader, "the term to end", timeout=10)
        assert time.monotonic() - paused < SESSION
        node.resume()
        second = lock.wait(20)
        assert second.generation > first.generation
        wait_until(lambda: told == [first, None, second], "the news", timeout=5)
        lock.resign()
        connection.close()


# Processors


def test_processors_are_there_as_long_as_their_session(client):
    one, other = client(ZkProcessors), client(ZkProcessors)
    changes = []
    other.watch(lambda: changes.append(other.all()))
    one.announce("0", "10.0.0.7")
    one.announce("slice/4 é", "slice-4/2")
    other.announce("1", "10.0.0.8")
    expected = {"0": "10.0.0.7", "slice/4 é": "slice-4/2", "1": "10.0.0.8"}
    assert one.all() == other.all() == expected
    wait_until(lambda: changes and changes[-1] == expected, "the watcher to hear", timeout=10)
    other.withdraw("0")  # not its own
    one.withdraw("slice/4 é")
    assert other.all() == {"0": "10.0.0.7", "1": "10.0.0.8"}
    one._connection.close()
    wait_until(lambda: changes[-1] == {"1": "10.0.0.8"}, "the watcher to hear", timeout=10)


def test_processors_come_back_with_a_new_session(client, ensemble):
    one, other = client(ZkProcessors), client(ZkProcessors)
    one.announce("0", "10.0.0.7")
    session = one._connection.session
    expire(ensemble.hosts, one._connection._client.client_id)
    wait_until(lambda: one._connection.session not in (None, session), "a new session", timeout=10)
    wait_until(lambda: other.all() == {"0": "10.0.0.7"}, "the processor to be back", timeout=10)


def test_an_entry_of_another_client_is_taken_over_when_it_ends(client):
    first, second = client(ZkProcessors), client(ZkProcessors)
    first.announce("0", "10.0.0.7")
    second.announce("0", "10.0.0.8")
    assert second.all() == {"0": "10.0.0.7"}
    first._connection.close()
    wait_until(lambda: second.all() == {"0": "10.0.0.8"}, "the entry to be taken over", timeout=10)


def test_a_thousand_processors(client):
    one, other = client(ZkProcessors), client(ZkProcessors)
    heard = []
    other.watch(lambda: heard.append(1))
    for number in range(1000):
        one.announce(str(number), "10.0.0.7")
    assert len(other.all()) == 1000
    wait_until(lambda: heard, "the watcher to hear", timeout=10)
    assert len(heard) < 500  # many come at once, and are told as one


# Job models


def test_job_models_are_published_read_and_the_newest_ten_kept(client, leader):
    models = client(ZkJobModels, connection=leader._connection)
    reader, heard = client(ZkJobModels), []
    assert reader.newest() is None
    reader.watch(lambda: heard.append(reader.newest()))
    for version in range(1, 13):
        models.publish(model(version), leader.leadership)
    assert reader.versions() == list(range(3, 13))
    assert reader.read(12) == reader.newest() == model(12)
    assert reader.read(2) is None
    wait_until(lambda: heard and heard[-1] == model(12), "the watcher to hear", timeout=10)
    for version in (12, 5):
        with pytest.raises(MetadataStoreError, match="12 is there already"):
            models.publish(model(version), leader.leadership)


def test_a_job_model_of_ten_thousand_tasks(client, leader):
    models, large = client(ZkJobModels, connection=leader._connection), model(1, tasks=10_000)
    began = time.monotonic()
    models.publish(large, leader.leadership)
    published = time.monotonic()
    assert models.newest() == large
    print(f"10,000 tasks: published in {published - began:.2f} s, read in {time.monotonic() - published:.2f} s")


# Barriers


def test_a_barrier_is_joined_and_ended_once(client, leader):
    barriers = client(ZkBarriers, connection=leader._connection)
    other, heard = client(ZkBarriers), []
    assert other.state(1) is None
    assert not other.join(1, "early")
    barriers.open(1, leader.leadership)
    with pytest.raises(MetadataStoreError, match="there already"):
        barriers.open(1, leader.leadership)
    barriers.watch(1, lambda: heard.append(barriers.joined(1)))
    participants = {"0", "executor/1", "é" * 300}
    for participant in participants:
        assert other.join(1, participant)
        assert other.join(1, participant)
    wait_until(lambda: heard and heard[-1] == participants, "the leader to hear", timeout=10)
    assert other.state(1) == BarrierState.NEW
    assert barriers.end(1, BarrierState.DONE, leader.leadership) == BarrierState.DONE
    assert barriers.end(1, BarrierState.TIMED_OUT, leader.leadership) == BarrierState.DONE
    assert other.state(1) == BarrierState.DONE
    assert not other.join(1, "late")


def test_the_newest_ten_barriers_stay(client, leader):
    barriers = client(ZkBarriers, connection=leader._connection)
    for version in range(1, 13):
        barriers.open(version, leader.leadership)
        barriers.join(version, "0")
    assert [version for version in range(1, 13) if barriers.state(version)] == list(range(3, 13))


def test_only_the_leader_opens_and_ends(client, leader):
    barriers = client(ZkBarriers, connection=leader._connection)
    term = leader.leadership
    barriers.open(1, term)
    leader.resign()
    for act in (lambda: barriers.open(2, term), lambda: barriers.end(1, BarrierState.DONE, term)):
        with pytest.raises(LeadershipLost, match="does not lead any more"):
            act()
    assert barriers.state(2) is None
    assert barriers.state(1) == BarrierState.NEW
