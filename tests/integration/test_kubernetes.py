"""Mooring on Kubernetes: executors come back to the nodes, or to the volumes, that have their state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.jar import jar_path
from mooring.testing.kubernetes import KubernetesCluster
from tests.integration.support.job_on_kubernetes import ON_CLAIMS, ON_NODES, KubernetesJob
from tests.integration.support.job_runs import JOB_CONF
from tests.integration.support.job_with_warm_copies import STANDBY

pytestmark = pytest.mark.heavy

NODES, EXECUTORS, RESTARTS = 6, 3, 3
TASKS = int(JOB_CONF["spark.sql.shuffle.partitions"])
ALLOCATION = "spark.mooring.executor.allocation.enabled"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """Each node has room for two executors. An executor runs all its tasks at once: none waits for a slot."""
    conf = {**JOB_CONF, "spark.executor.instances": str(EXECUTORS), "spark.executor.cores": "2"}
    with KubernetesCluster(NODES, work_dir=tmp_path_factory.mktemp("cluster"), conf=conf) as cluster:
        yield cluster


def test_each_restart_comes_back_to_the_nodes_of_the_last_run(cluster: KubernetesCluster, tmp_path: Path) -> None:
    job = KubernetesJob(cluster, tmp_path, **ON_NODES)
    nodes = job.hosts()
    assert len(nodes) == EXECUTORS
    assert job.locations() == nodes
    for _ in range(RESTARTS):
        assert job.restart() == (nodes, 0)
    assert job.drainable.status()["allocation"] == {"asked": nodes, "not-given": [], "given-instead": []}
    job.drain()


def test_a_driver_in_a_pod_gets_the_nodes_too(cluster: KubernetesCluster, tmp_path: Path) -> None:
    in_pod = {"spark.submit.deployMode": "cluster", "spark.jars": f"local://{jar_path()}"}
    job = KubernetesJob(cluster, tmp_path, **ON_NODES, **in_pod)
    nodes = job.hosts()
    assert job.locations() == nodes
    for _ in range(2):
        assert job.restart() == (nodes, 0)
    job.drain()


def test_without_the_allocation_kubernetes_chooses_the_nodes(cluster: KubernetesCluster, tmp_path: Path) -> None:
    job = KubernetesJob(cluster, tmp_path, **ON_NODES, **{ALLOCATION: "false"})
    runs = [(job.hosts(), 0), *(job.restart() for _ in range(RESTARTS))]
    print("nodes, bytes fetched:", runs)
    assert "allocation" not in job.drainable.status()
    assert any(fetched for _, fetched in runs), "Kubernetes gave the same nodes each time by chance"
    job.drain()


def test_a_killed_pod_is_replaced_on_its_node(cluster: KubernetesCluster, tmp_path: Path) -> None:
    job = KubernetesJob(cluster, tmp_path, **ON_NODES)
    nodes = job.hosts()
    for kill in ("kill -9", "delete"):
        job.commit_more()  # no batch runs at the loss: one that ran would have the tasks elsewhere meanwhile
        before = len(job.openings())
        lost = job.executors()[0]
        if kill == "delete":
            cluster.delete_pod(job.pod_of(lost), grace_s=0)
        else:
            lost.kill()
        job.wait_for_successor(lost, EXECUTORS)
        job.commit_more()
        assert job.hosts() == nodes, kill
        assert sum(opening["remote-bytes"] for opening in job.openings()[before:]) == 0, kill
    job.drain()


def test_tasks_of_a_node_that_is_gone_go_on_at_their_copies(cluster: KubernetesCluster, tmp_path: Path) -> None:
    job = KubernetesJob(cluster, tmp_path, **ON_NODES, **STANDBY)
    job.wait_until_caught_up(TASKS)
    lost = job.hosts()[0]
    shares = len(job.partitions_of(lost))
    assert shares
    cluster.kill_host(lost)
    try:
        job.wait_for_failovers(warm=shares)
        job.commit_more()
        job.wait_for_executors(EXECUTORS)
        assert lost not in job.hosts()
        job.commit_more()
        job.wait_until_caught_up(TASKS)
    finally:
        cluster.revive_host(lost)
    job.drain()


def test_an_eviction_hands_the_tasks_over_first(cluster: KubernetesCluster, tmp_path: Path) -> None:
    job = KubernetesJob(cluster, tmp_path, **ON_NODES, **STANDBY, **{"spark.decommission.enabled": "true"})
    job.wait_until_caught_up(TASKS)
    leaving = job.executors()[0]
    node = cluster.node_of(leaving)
    cluster.cordon(node)
    try:
        cluster.delete_pod(job.pod_of(leaving))
        job.job.wait_until(lambda: not leaving.is_alive, "the executor to end", 120)
        job.commit_more()
        job.wait_for_executors(EXECUTORS)
        job.commit_more()
        assert node not in job.hosts()
        assert job.failovers()[1] == 0
    finally:
        cluster.uncordon(node)
    job.drain()


def test_no_pod_comes_to_a_drained_node(cluster: KubernetesCluster, tmp_path: Path) -> None:
    job = KubernetesJob(cluster, tmp_path, **ON_NODES, **STANDBY)
    job.wait_until_caught_up(TASKS)
    drained = job.hosts()[0]
    assert job.drainable.command("drain-host", drained, "--wait", "--timeout", "120s") == 0
    [executor] = [found for found in job.executors() if cluster.node_of(found) == drained]
    cluster.delete_pod(job.pod_of(executor))
    job.job.wait_until(lambda: not executor.is_alive, "the executor to end", 60)
    job.wait_for_executors(EXECUTORS)
    job.commit_more()
    assert drained not in job.hosts()
    assert job.drainable.counter("failovers-to-any-host") == 0
    job.drain()


def test_tasks_follow_their_claims(cluster: KubernetesCluster, tmp_path: Path) -> None:
    claims = [f"state-{number}" for number in range(1, EXECUTORS + 1)]
    for claim in claims:
        cluster.create_claim(claim)
    job = KubernetesJob(cluster, tmp_path, **ON_CLAIMS)
    assert job.locations() == claims
    before = job.hosts()
    for _ in range(2):
        assert job.restart()[1] == 0
        assert job.locations() == claims
    job.commit_more()
    opened = len(job.openings())
    lost = job.executors()[0]
    lost.kill()
    job.wait_for_successor(lost, EXECUTORS)
    job.commit_more()
    assert job.locations() == claims
    assert sum(opening["remote-bytes"] for opening in job.openings()[opened:]) == 0
    print("nodes at first and at last:", before, job.hosts())
    job.drain()
