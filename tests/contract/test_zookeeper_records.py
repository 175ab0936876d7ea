"""The agent's records in ZooKeeper's tree, written in terms only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from mooring.agent.election.zookeeper import ZkElection
from mooring.cli.main import main
from mooring.client import MooringClient
from mooring.coordination import KEPT_VERSIONS
from mooring.errors import InvalidSettingError, LeadershipLost, RecordError
from mooring.metadata import open_metadata_store
from mooring.model import ContainerModel, JobModel, LocationId, TaskModel, TaskName
from mooring.model.standing import LEADING
from mooring.placement import ContainerPlacementRequestMessage, StatusCode
from mooring.records.open import open_records
from mooring.records.operator_overrides import OperatorOverrides
from mooring.records.zookeeper import ZkRecords
from mooring.testing.probes import wait_until
from mooring.testing.zookeeper import ZooKeeperEnsemble

TASK = "clicks and views/Partition 0"
STATUS: dict[str, Any] = {
    "processors": [
        {"id": "0", "location": "10.0.0.7", "state": "bound"},
        {"id": "1", "location": "10.0.0.8", "state": "unbound"},
    ],
    "tasks": [],
}


def model(version: int) -> JobModel:
    return JobModel.of([ContainerModel.of("0", [TaskModel(TaskName(TASK), frozenset(), 0)], LocationId("a"))], version)


@pytest.fixture
def place(zookeeper_root: str) -> str:
    return zookeeper_root


@pytest.fixture
def nodes(zookeeper: ZooKeeperEnsemble) -> Iterator[KazooClient]:
    client = KazooClient(hosts=zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@contextmanager
def candidate(place: str, application: str) -> Iterator[ZkElection]:
    """One that leads."""
    election = ZkElection(place, {}, application, "the agent", "", print)
    wait_until(lambda: election.standing().state == LEADING, "the agent to lead", 30)
    yield election
    election.close()


@pytest.fixture
def election(place: str) -> Iterator[ZkElection]:
    with candidate(place, "prices") as election:
        yield election


@pytest.fixture
def records(election: ZkElection, place: str) -> Iterator[ZkRecords]:
    records = election.records(print)
    yield records
    records.close()


def test_each_record_has_its_node(records: ZkRecords, nodes: KazooClient, place: str) -> None:
    records.write_job_model(model(3))
    records.write_barriers({3: "DONE", 4: "NEW"})
    records.write_task_locality({TASK: "10.0.0.7"})
    records.write_status(STATUS)
    root = "/" + place.partition("//")[2].partition("/")[2] + "/prices-1"
    assert (
        b'"version": 3' in nodes.get(f"{root}/jobModels/3")[0] or b'"version":3' in nodes.get(f"{root}/jobModels/3")[0]
    )
    assert nodes.get(f"{root}/barriers/3")[0] == b"DONE" and nodes.get(f"{root}/barriers/4")[0] == b"NEW"
    (name,) = (name for name in nodes.get_children(f"{root}/localityData") if not name.startswith("="))
    assert nodes.get(f"{root}/localityData/{name}")[0] == b"10.0.0.7"
    location, stat = nodes.get(f"{root}/processors/processor.0")
    assert location == b"10.0.0.7" and stat.ephemeralOwner
    assert nodes.exists(f"{root}/processors/processor.1") is None


def test_a_client_reads_what_the_agent_has_written(records: ZkRecords, place: str) -> None:
    records.write_job_model(model(1))
    records.write_task_locality({TASK: "b", "x": "c"})
    records.write_status(STATUS)
    client = open_records(place, {}, print)
    found = client.read()
    assert found.model == model(1) and found.task_locality == {TASK: "b", "x": "c"}
    assert client.status() is not None
    client.close()


def test_a_program_reads_status_and_forecast(records: ZkRecords, place: str) -> None:
    with pytest.raises(RecordError, match="there is no status"), MooringClient.open(f"{place}/prices-1") as client:
        client.status()
    records.write_job_model(model(1))
    records.write_task_locality({TASK: "a"})
    records.write_status(STATUS)
    for named in (place, f"{place}/prices-1"):
        with MooringClient.open(named) as client:
            assert client.status() == {**STATUS, "life": "alive"}
            (move,) = client.plan(["b"], ["a"])["moves"]
            assert (move["task"], move["to"]["location"]) == (TASK, "b")
    with pytest.raises(RecordError, match="there is no application"):
        MooringClient.open(f"{place}/nobody")


def test_a_client_that_came_first_finds_the_only_application(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    client = open_records(place, {}, print)
    assert client.status() is None and client.read().model is None
    with open_metadata_store(place) as of_somebody:
        of_somebody.put("samza-drain-v1/one", b"{}")
    with candidate(place, "prices") as prices:
        with closing(prices.records(print)) as records:
            records.write_status(STATUS)
        assert client.status() is not None
        with candidate(place, "clicks"):
            late = open_records(place, {}, print)
            with pytest.raises(InvalidSettingError, match=r"by 2 applications: name one of .*/clicks-1, .*/prices-1"):
                late.status()
            late.close()
            assert main(["apps", place, "--json"]) == 0
            both = {one["place"]: one["fault"] for one in json.loads(capsys.readouterr().out)}
            assert both[f"{place}/prices-1"] is None and "there is no status" in both[f"{place}/clicks-1"]
            named = open_records(f"{place}/prices-1", {}, print)
            assert named.status() == client.status()
            named.close()
    client.close()


def test_the_newest_ten_stay(records: ZkRecords) -> None:
    for version in range(1, KEPT_VERSIONS + 4):
        records.write_job_model(model(version))
        records.write_barriers({version: "TIMED_OUT"})
    assert sorted(records.job_models()) == list(range(4, KEPT_VERSIONS + 4))


def test_a_version_that_is_there_may_come_again_but_not_another_one(records: ZkRecords) -> None:
    records.write_job_model(model(7))
    records.write_job_model(model(7))
    with pytest.raises(Exception, match="7 is there already"):
        records.write_job_model(model(6))


def test_what_was_decided_in_a_term_is_not_written_after_it(place: str) -> None:
    """Of an agent that slept between asking whether it leads and its write, while another one has given the answer."""
    asked = ContainerPlacementRequestMessage(uuid4(), "prices", "4", "10.0.0.7", 1)
    with candidate(place, "prices") as first:
        slept, term = first.records(print), first._lock.leadership
    first._lock = SimpleNamespace(leadership=term)  # it does not know yet
    writes = (
        lambda: slept.write_overrides(OperatorOverrides("prices")),
        lambda: slept.write_response(asked.answered(StatusCode.IN_PROGRESS, "it moves", 3)),
        lambda: slept.remove_messages(asked.uuid, response_too=True),
        lambda: slept.remove_notifications([asked.uuid]),
        lambda: slept.write_status(STATUS),
    )
    with candidate(place, "prices") as second, closing(second.records(print)) as records:
        records.write_response(asked.answered(StatusCode.SUCCEEDED, "it is there", 2))
        for write in writes:
            with pytest.raises(LeadershipLost):
                write()
        assert records.messages().responses[asked.uuid].status_code is StatusCode.SUCCEEDED
        assert records.status() is None
    slept.store().close()


def test_outside_of_a_term_nothing_is_written(records: ZkRecords, election: ZkElection, place: str) -> None:
    asked = ContainerPlacementRequestMessage(uuid4(), "prices", "4", "10.0.0.7", 1)
    election.close()
    writes = (
        lambda: records.write_job_model(model(1)),
        lambda: records.write_barriers({1: "NEW"}),
        lambda: records.write_task_locality({TASK: "b"}),
        lambda: records.write_status(STATUS),
        lambda: records.write_overrides(OperatorOverrides("prices")),
        lambda: records.write_response(asked.answered(StatusCode.ACCEPTED, "yes", 2)),
        lambda: records.remove_messages(asked.uuid, response_too=True),
        lambda: records.remove_notifications([asked.uuid]),
    )
    for write in writes:
        with pytest.raises(LeadershipLost):
            write()
    client = open_records(place, {}, print)
    assert client.read().model is None and client.status() is None and not client.task_locality()
    client.close()
