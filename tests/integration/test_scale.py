"""Executors come and go, under load: only what evenness asks for moves, and the answer stays right."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.testing.cluster import SparkCluster
from tests.integration.support.file_fed_job import PARTITIONS, Load


@pytest.mark.heavy
def test_two_hosts_three_hosts_two_hosts(tmp_path: Path) -> None:
    load = Load(tmp_path)
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        cluster.kill_host("127.0.0.4")
        (load.events / "bids").mkdir(parents=True)
        job = load.submit(cluster)
        job.wait_for_executors(2, 120)  # the first plan is for both
        load.offer(2)

        def feed() -> None:
            committed = load.counter("batches")
            load.offer(1)
            job.wait_until(lambda: load.counter("batches") > committed, "a batch", 120)

        job.wait_until(lambda: load.sizes() == [4, 4], "an even plan on two hosts", 120)
        job.wait_until(lambda: load.counter("batches") >= 2, "two batches", 120)
        assert load.counter("moves") == 0

        cluster.revive_host("127.0.0.4")
        job.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan on three hosts", 120)
        assert load.counter("moves") == 2, "the third host takes two tasks, and no other task moves"
        feed()
        feed()

        cluster.kill_host("127.0.0.4")
        job.wait_until(lambda: load.sizes() == [4, 4], "an even plan on two hosts again", 120)
        assert load.counter("moves") == 4, "its two tasks go back, and no other task moves"
        load.offer_the_rest_and_finish(job)
        assert load.counter("placed-as-planned") <= load.counter("preferred-host-requests")
    load.assert_right()


@pytest.mark.heavy
def test_dynamic_allocation_adds_executors_and_removes_them(tmp_path: Path) -> None:
    load = Load(tmp_path, files=24)
    dynamic = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.timeout": "3s",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.executorIdleTimeout": "3s",
        "spark.executor.cores": "1",
    }
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        last = load.offer(3)
        job = load.submit(cluster, dynamic)

        def are_three_at_work() -> bool:
            """Looked at while there is a backlog: Spark takes away at once who has nothing to do for three seconds."""
            nonlocal last
            if load.is_answered(last - 1) and last < 20:
                last = load.offer(1)
            return load.sizes() == [2, 3, 3]

        job.wait_until(are_three_at_work, "the backlog to bring three executors", 180)
        job.wait_until(lambda: load.sizes() == [8], "idle executors to go", 180)
        load.offer_the_rest_and_finish(job)
    load.assert_right()


@pytest.mark.heavy
def test_two_executors_on_each_host_share_its_store(tmp_path: Path) -> None:
    load = Load(tmp_path)
    two_each = {"spark.executor.cores": "1"}
    with SparkCluster(hosts=2, cores_per_host=2, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        load.offer(3)
        job = load.submit(cluster, two_each)
        job.wait_until(lambda: load.sizes() == [2, 2, 2, 2], "an even plan on four executors", 180)
        job.wait_until(lambda: load.counter("batches") >= 3, "three batches", 180)
        job.terminate()
        job = load.submit(cluster, two_each)
        load.offer_the_rest_and_finish(job)
        assert load.counter("local-opens") >= PARTITIONS
        assert load.counter("remote-opens") == load.counter("restore-bytes-remote") == 0
    load.assert_right()
