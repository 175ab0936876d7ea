"""A YARN cluster with more hosts than the application has executors: a restart gets the hosts that have the state."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.testing.yarn import DriverOnYarn, YarnCluster
from tests.integration.support.job_runs import JOB_CONF, JOBS
from tests.integration.support.job_with_warm_copies import STANDBY
from tests.integration.support.restarted_on_cluster import RestartedJob
from tests.integration.support.yarn_hosts import EXECUTORS, HOSTS, KEEPS_LOCALITY

pytestmark = pytest.mark.heavy

RESTARTS = 5
TASKS = int(JOB_CONF["spark.sql.shuffle.partitions"])
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.executor.instances": "0",
    "spark.dynamicAllocation.maxExecutors": str(EXECUTORS),
    "spark.dynamicAllocation.executorIdleTimeout": "600s",
}
ALLOCATION = "spark.mooring.executor.allocation.enabled"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    """Each host has room for three executors, or for a driver and an executor."""
    conf = {**JOB_CONF, "spark.executor.instances": str(EXECUTORS)}
    directory = tmp_path_factory.mktemp("cluster")
    with YarnCluster(HOSTS, work_dir=directory, conf=conf, host_memory_mb=4000, scheduler=KEEPS_LOCALITY) as cluster:
        yield cluster


def test_each_restart_gets_the_hosts_of_the_last_run(cluster: YarnCluster, tmp_path: Path) -> None:
    job = RestartedJob(cluster, tmp_path)
    hosts = job.hosts()
    assert len(hosts) == EXECUTORS
    restarts = [job.restart() for _ in range(RESTARTS)]
    assert restarts == [(hosts, 0)] * RESTARTS
    assert "allocation" in job.drainable.status()
    job.drain()


def test_without_the_allocation_yarn_chooses_the_hosts(cluster: YarnCluster, tmp_path: Path) -> None:
    job = RestartedJob(cluster, tmp_path, **{ALLOCATION: "false"})
    runs = [(job.hosts(), 0), *(job.restart() for _ in range(RESTARTS))]
    print("hosts, bytes fetched:", runs)
    assert not list(tmp_path.rglob("wanted-hosts*"))
    assert "allocation" not in job.drainable.status()
    fetched = [bytes_of_run for _, bytes_of_run in runs[1:]]
    assert any(fetched), "YARN gave the same hosts each time by chance"
    job.drain()


def test_an_executor_and_an_application_master_that_are_lost_come_back_on_their_hosts(
    cluster: YarnCluster, tmp_path: Path
) -> None:
    job = RestartedJob(cluster, tmp_path)
    hosts = job.hosts()
    assert job.restart() == (hosts, 0)
    for host in hosts[:2]:
        cluster.kill_executor(host, job.job.application)
        job.job.wait_until(lambda: len(job.hosts()) == EXECUTORS, "another executor", 60)
        job.commit_more()
        assert job.hosts() == hosts
    master = cluster.masters(job.job.application)[0]
    os.kill(master.pid, signal.SIGKILL)
    job.job.wait_until(lambda: job.hosts() == [], "the executors to end with the application master", 60)
    job.job.wait_until(lambda: len(job.job.executors()) == EXECUTORS, "the next application master's executors", 120)
    job.commit_more()
    assert job.hosts() == hosts
    job.drain()


def test_a_host_that_is_gone_costs_its_own_share_only(cluster: YarnCluster, tmp_path: Path) -> None:
    job = RestartedJob(cluster, tmp_path)
    hosts = job.hosts()
    job.restart()
    gone = job.partitions_of(hosts[0])
    job.job.terminate()
    cluster.kill_host(hosts[0])
    try:
        cluster.wait_until_lost(hosts[0])
        openings = job.start()
        assert sum(opening["remote-bytes"] > 0 for opening in openings) == len(gone)
        assert set(hosts[1:]) < set(job.hosts())
        assert f"not on {hosts[0]}" in job.job.log
    finally:
        cluster.revive_host(hosts[0])
    job.drain()


def test_a_driver_in_a_container_gets_the_hosts_too(cluster: YarnCluster, tmp_path: Path) -> None:
    modules = {"spark.submit.pyFiles": str(JOBS / "streams.py")}
    job = RestartedJob(cluster, tmp_path, **{"spark.submit.deployMode": "cluster", **modules})
    hosts = job.hosts()
    assert [job.restart() for _ in range(2)] == [(hosts, 0)] * 2
    before = len(job.openings())
    driver = job.job
    assert isinstance(driver, DriverOnYarn)
    driver.kill_driver()
    driver.wait_until(lambda: job.hosts() == [], "the executors to end with their driver", 60)
    driver.wait_until(lambda: len(driver.executors()) == EXECUTORS, "the second attempt's executors", 120)
    job.commit_more()
    assert job.hosts() == hosts
    assert all(opening["remote-bytes"] == 0 for opening in job.openings()[before:])
    job.drain()


def test_no_executor_is_asked_for_at_a_drained_host(cluster: YarnCluster, tmp_path: Path) -> None:
    job = RestartedJob(cluster, tmp_path, **STANDBY)
    job.wait_until_caught_up(TASKS)
    drained = job.hosts()[0]
    assert job.drainable.command("drain-host", drained, "--wait", "--timeout", "120s") == 0
    hosts, _ = job.restart()
    assert drained not in hosts
    job.drain()


def test_dynamic_allocation_prefers_the_hosts_of_the_last_run(cluster: YarnCluster, tmp_path: Path) -> None:
    job = RestartedJob(cluster, tmp_path, **DYNAMIC)
    job.job.wait_until(lambda: job.hosts() and set(job.hosts()) == job.hosts_in_file(), "the file with the hosts", 60)
    for _ in range(3):
        wanted = job.hosts_in_file()
        job.job.terminate()
        job.start()
        assert job.first_host() in wanted
        job.job.wait_until(lambda: set(job.hosts()) == job.hosts_in_file(), "the file with the hosts", 60)
    job.drain()


def test_a_host_that_yarn_decommissions_is_left_and_its_tasks_go_on_at_copies(
    cluster: YarnCluster, tmp_path: Path
) -> None:
    job = RestartedJob(cluster, tmp_path, **{**STANDBY, "spark.decommission.enabled": "true"})
    job.wait_until_caught_up(TASKS)
    leaving = job.hosts()[0]
    cluster.decommission(leaving, graceful_s=120)
    try:
        job.job.wait_until(lambda: leaving not in job.hosts() and len(job.hosts()) == EXECUTORS, "other hosts", 120)
        job.commit_more()
        _, cold = job.failovers()
        assert cold == 0
        hosts, _ = job.restart()
        assert leaving not in hosts
    finally:
        cluster.revive_host(leaving)
    job.drain()


def test_a_processor_is_moved_to_its_copies_and_the_job_is_stopped(cluster: YarnCluster, tmp_path: Path) -> None:
    job = RestartedJob(cluster, tmp_path, **STANDBY)
    job.wait_until_caught_up(TASKS)
    processor = job.drainable.status()["processors"][0]
    place = ["place-container", "--processor-id", processor["id"], "--destination-host"]
    assert job.drainable.command(*place, "LAST_SEEN", "--wait") != 0, "YARN starts the other executor on any host"
    assert job.pids_at(processor["location"])
    assert job.drainable.command(*place, "STANDBY", "--wait") == 0
    job.commit_more()
    after = {found["id"]: found["location"] for found in job.drainable.status()["processors"]}
    assert after[processor["id"]] != processor["location"]
    assert job.drainable.command("stop", "--mode", "after-batch", "--wait", "--timeout", "120s") == 0
    job.job.finish(120)
    openings = job.start()
    assert all(opening["remote-bytes"] == 0 for opening in openings)
    job.drain()
