"""An application whose placement knowledge is in a real ZooKeeper, which goes away and comes back under load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.testing.cluster import SparkCluster
from mooring.testing.zookeeper import ZooKeeperEnsemble
from tests.integration.support.file_fed_job import PARTITIONS, Load
from tests.integration.support.job_with_operator import HOSTS, operated
from tests.integration.support.restarted_job import said

SESSION_SECONDS = 10
"""The default of spark.mooring.metadata.timeout."""


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(nodes=3, work_dir=tmp_path / "zookeeper") as ensemble:
        yield ensemble


@pytest.mark.heavy
@pytest.mark.parametrize("away", [60.0])
def test_a_query_goes_on_without_a_quorum(tmp_path: Path, ensemble: ZooKeeperEnsemble, away: float) -> None:
    load = Load(tmp_path, f"zk://{ensemble.hosts}/job")
    with SparkCluster(hosts=2, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        load.offer(2)
        job = load.submit(cluster)
        job.wait_until(lambda: load.sizes() == [4, 4], "an even plan", 180)
        job.wait_until(lambda: load.counter("batches") >= 2, "two batches", 120)
        ensemble.nodes[0].kill()
        load.offer(1)
        job.wait_until(lambda: load.counter("batches") >= 3, "a batch beside a dead node", 120)
        ensemble.nodes[1].kill()
        gone = time.monotonic()
        while time.monotonic() - gone < away:
            committed = load.committed()
            load.offer(1)
            job.wait_until(lambda before=committed: load.committed() > before, "a batch without a quorum", 60)
            pause = time.monotonic() + away / 5
            job.wait_until(lambda until=pause: time.monotonic() > until, "the time for the next file", away)
        ensemble.nodes[0].revive()
        ensemble.nodes[1].revive()
        ensemble.wait_until_served()
        returned, committed = time.time(), load.committed()
        load.offer(1)  # what it keeps tells when it leads
        job.wait_until(lambda: load.status()["at"] / 1000 > returned, "the agent to lead again", SESSION_SECONDS)
        print(f"leads again after {time.time() - returned:.1f} s")
        job.wait_until(lambda: load.committed() > committed, "a batch with the quorum", 60)
        assert load.counter("moves") == 0
        assert said(job.log, "Lost task") == 0
        job.terminate()
        job = load.submit(cluster)
        load.offer_the_rest_and_finish(job)
        assert load.counter("local-opens") >= PARTITIONS and load.counter("remote-opens") == 0
    load.assert_right()


@pytest.mark.heavy
def test_a_move_goes_on_when_the_quorum_is_back(tmp_path: Path, ensemble: ZooKeeperEnsemble) -> None:
    with operated(tmp_path, "false", files=24, metadata=f"zk://{ensemble.hosts}/job") as here:
        processor = here.processor_at(HOSTS[1])
        tasks = here.tasks_of(processor)
        uuid = here.begins_what_is_held_up(processor)
        for node in ensemble.nodes[:2]:
            node.kill()
        here.cluster.resume_host(HOSTS[2])
        for _ in range(3):
            here.load.feed(here.job)
        for node in ensemble.nodes[:2]:
            node.revive()
        ensemble.wait_until_served()
        here.succeeds(uuid)
        here.waits_for(processor, HOSTS[2])
        assert here.tasks_of(processor) == tasks
