"""Two submissions of one job with a shared store: one leads, the other waits, and takes over."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from mooring.cli.records import CommandRecords
from mooring.client import MooringClient
from mooring.placement import StatusCode
from mooring.testing.cluster import SparkCluster
from mooring.testing.kafka import KafkaBroker
from mooring.testing.probes import wait_until
from mooring.testing.submission import Submission
from mooring.testing.zookeeper import ZooKeeperEnsemble
from tests.integration.support.file_fed_job import PARTITIONS, Load
from tests.integration.support.restarted_job import said

SILENCE = "6s"
CONF = {
    # A driver that sleeps keeps its executors: there must be room for two applications.
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
}
ROOM_FOR_TWO = {"hosts": 2, "cores_per_host": 2, "executor_memory": "768m", "host_memory": "2g"}


@dataclass
class Job:
    """A job whose drivers share a store."""

    load: Load
    conf: Mapping[str, str]

    def submit(self, cluster: SparkCluster) -> Submission:
        return self.load.submit(cluster, {**CONF, **self.conf})


@pytest.fixture(params=["zookeeper", "kafka"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    if request.param == "zookeeper":
        with ZooKeeperEnsemble(work_dir=tmp_path / "zookeeper") as ensemble:
            yield Job(Load(tmp_path, f"zk://{ensemble.hosts}/jobs"), {"spark.mooring.metadata.timeout": SILENCE})
    else:
        with KafkaBroker(tmp_path / "kafka") as broker:
            conf = {"spark.mooring.metadata.leader.timeout": SILENCE}
            yield Job(Load(tmp_path, f"kafka://{broker.servers}/job"), conf)


def start_both(job: Job, cluster: SparkCluster) -> tuple[Submission, Submission]:
    """A driver that has committed two batches, and one that waits for its end."""
    load = job.load
    load.offer(2)
    first = job.submit(cluster)
    first.wait_until(lambda: load.committed() >= 2, "two batches", 180)
    first.wait_until(lambda: load.sizes() == [4, 4], "an even plan", 60)
    second = job.submit(cluster)
    second.wait_until(lambda: said(second.log, "this driver is a standby") == 1, "the standby to wait", 120)
    committed = load.committed()
    load.offer(1)
    first.wait_until(lambda: load.committed() > committed, "a batch beside the standby", 60)
    assert {executor.application for executor in cluster.executors()} == {first.application}
    return first, second


@pytest.mark.heavy
def test_a_standby_takes_over_when_the_driver_dies(tmp_path: Path, job: Job) -> None:
    load = job.load
    with SparkCluster(**ROOM_FOR_TWO, work_dir=tmp_path / "cluster") as cluster:
        first, second = start_both(job, cluster)
        first.kill()
        died, committed = time.monotonic(), load.committed()
        load.offer(1)
        second.wait_until(lambda: said(second.log, "this driver takes over") == 1, "the standby to lead", 60)
        leads = time.monotonic()
        assert second.application
        context = time.monotonic()
        second.wait_for_executors(2)
        executors = time.monotonic()
        second.wait_until(lambda: load.committed() > committed, "the standby's first commit", 180)
        done = time.monotonic()
        print(
            f"first commit {done - died:.1f} s after the kill: detection {leads - died:.1f}, context"
            f" {context - leads:.1f}, executors {executors - context:.1f}, first batch {done - executors:.1f}"
        )
        load.offer_the_rest_and_finish(second)
        assert load.counter("local-opens") >= PARTITIONS and load.counter("remote-opens") == 0
    load.assert_right()


@pytest.mark.heavy
def test_what_was_asked_of_a_driver_that_died_is_not_done_by_the_next_one_which_answers_anew(
    tmp_path: Path, job: Job
) -> None:
    load = job.load
    with SparkCluster(**ROOM_FOR_TWO, work_dir=tmp_path / "cluster") as cluster:
        first, second = start_both(job, cluster)
        there, here = sorted(cluster.hosts)
        with CommandRecords(load.metadata).client() as client:
            uuid = client.place_container("0", "10.9.8.7", first.application, 600_000)
            first.wait_until(lambda: status_of(client, uuid) is StatusCode.IN_PROGRESS, "the request to begin", 60)
            waits = client.place_container("0", here, first.application)
        first.kill()
        committed = load.committed()
        load.offer(1)
        second.wait_until(lambda: load.committed() > committed, "the standby's first commit", 240)
        second.wait_until(lambda: load.sizes() == [4, 4], "an even plan", 60)
        with CommandRecords(load.metadata).client() as client:
            second.wait_until(lambda: status_of(client, uuid) is status_of(client, waits) is None, "them to go", 60)
            load.feed(second)
            assert load.sizes() == [4, 4]
            at = next(one for one in load.status()["processors"] if one["location"] == there)
            asked = client.place_container(str(at["id"]), here, second.application)
            second.wait_until(lambda: status_of(client, asked) is StatusCode.SUCCEEDED, "the move", 120)
        load.offer_the_rest_and_finish(second)
    load.assert_right()


def status_of(client: MooringClient, uuid: UUID) -> StatusCode | None:
    """None for a request that is not there."""
    answer = client.container_status(uuid)
    return None if answer is None else answer.status_code


@pytest.mark.heavy
def test_a_driver_that_slept_writes_no_second_answer(tmp_path: Path, job: Job) -> None:
    load = job.load
    with SparkCluster(**ROOM_FOR_TWO, work_dir=tmp_path / "cluster") as cluster:
        first, second = start_both(job, cluster)
        first.process.pause()
        committed = load.committed()
        load.offer(1)
        second.wait_until(lambda: load.committed() > committed, "the standby's first commit", 180)
        first.process.resume()
        load.offer(1)
        wait_until(lambda: said(first.log, "this one stops its queries") == 1, "the sleeper to stop", 60)
        load.offer_the_rest_and_finish(second)
        wait_until(lambda: not first.is_running, "the sleeper's application to end", 60)
    load.assert_right()
