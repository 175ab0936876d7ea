"""Warm copies on other hosts: who is killed is replaced where its state already is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.testing.cluster import SparkCluster
from mooring.testing.submission import Submission
from tests.integration.load import PARTITIONS, Load

STANDBY = {
    "spark.mooring.standby.replication.factor": "2",
    "spark.mooring.processor.rebind.timeout": "60s",
    "spark.locality.wait": "3s",
}
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def standbys(load: Load) -> list[dict[str, Any]]:
    return [task for task in load.status().get("tasks", []) if task["mode"] == "Standby"]


def caught_up(load: Load) -> bool:
    copies = standbys(load)
    return len(copies) == PARTITIONS and all(copy["lag-versions"] == 0 and copy["local-bytes"] for copy in copies)


def tasks_on(load: Load, host: str) -> int:
    return sum(task["mode"] == "Active" and task["location"] == host for task in load.status()["tasks"])


def feed(load: Load, job: Submission) -> None:
    committed = load.counter("batches")
    load.offer(1)
    job.wait_until(lambda: load.counter("batches") > committed, "a batch", 120)


@pytest.mark.parametrize("changelog", ["false", "true"])
def test_a_killed_executors_tasks_go_to_their_copies(tmp_path: Path, changelog: str) -> None:
    load = Load(tmp_path)
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        load.offer(2)
        job = load.submit(cluster, {**STANDBY, CHANGELOG: changelog})
        job.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan", 120)
        feed(load, job)
        job.wait_until(lambda: caught_up(load), "the copies to be warm", 60)
        remote, lost = load.counter("restore-bytes-remote"), tasks_on(load, "127.0.0.3")

        cluster.kill_executor("127.0.0.3")
        feed(load, job)
        assert load.counter("failovers-to-standby") == lost
        assert load.counter("failovers-to-any-host") == 0
        assert load.counter("restore-bytes-remote") == remote, "who takes over has every file"
        job.wait_until(lambda: caught_up(load), "new copies elsewhere", 120)
        load.offer_the_rest_and_finish(job)
    load.assert_right()
