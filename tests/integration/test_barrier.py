"""A new placement version is obeyed once the executors know it; one that is silent is waited for, and not for ever."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mooring.testing.cluster import SparkCluster
from tests.integration.support.file_fed_job import Load
from tests.integration.support.restarted_job import said


@pytest.mark.heavy
def test_a_version_waits_for_a_silent_executor_and_is_then_replaced(tmp_path: Path) -> None:
    load = Load(tmp_path)
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        load.offer(2)
        job = load.submit(cluster)
        job.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan", 180)
        job.wait_until(lambda: load.counter("batches") >= 2, "two batches", 120)
        status = load.status()
        assert status["barrier"] == {"version": status["version"], "state": "DONE", "waiting-for": []}
        silent, lost = sorted(cluster.executors(), key=lambda executor: executor.host)[:2]
        os.kill(silent.pid, signal.SIGSTOP)
        cluster.kill_host(lost.host)
        job.wait_until(lambda: said(job.log, "did not take up placement version") == 1, "a version to be replaced", 60)
        os.kill(silent.pid, signal.SIGCONT)
        job.wait_until(lambda: load.sizes() == [4, 4], "an even plan for two", 60)
        job.wait_until(load.is_in_force, "the version to be obeyed", 60)
        changed = [task["name"] for task in load.status()["tasks"] if task["changed"]]
        assert len(changed) <= 3, "those of the host that is gone"
        load.offer_the_rest_and_finish(job)
    load.assert_right()
