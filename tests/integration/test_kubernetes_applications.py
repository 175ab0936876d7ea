"""Applications of stock Spark on the Kubernetes kit. No Mooring: what Spark itself does, and what the kit gives it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.errors import ClusterError
from mooring.testing.kubernetes import KubernetesCluster
from mooring.testing.probes import wait_until
from tests.integration.support.kubernetes_pods import Pods, rather_on
from tests.integration.support.short_lived_settings import SHORT_LIVED

pytestmark = pytest.mark.heavy

JOB = Path(__file__).parent / "jobs" / "where_tasks_ran.py"
IN_POD = {"spark.submit.deployMode": "cluster"}
ON_NODE = (
    "spark.kubernetes.executor.volumes.hostPath.spark-local-dir-1"  # Spark takes volumes of this name for its files
)
ON_CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim.state"
EXECUTORS = "spark-role=executor"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    conf = {**SHORT_LIVED, "spark.executor.instances": "2"}
    with KubernetesCluster(
        3, work_dir=tmp_path_factory.mktemp("kubernetes"), conf=conf, zones=("east", "west"), node_memory_mb=4000
    ) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: KubernetesCluster) -> Iterator[None]:
    yield
    cluster.end_applications()
    Pods(cluster).remove_all()


def template(file: Path, **spec) -> dict[str, str]:
    """The setting that gives executors a template: the variable NODE_NAME, and what `spec` has."""
    node = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    container = {"name": "spark-kubernetes-executor", "env": [node]}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], **spec}}))
    return {"spark.kubernetes.executor.podTemplateFile": str(file)}


def places(out: Path) -> dict[str, str]:
    """Executor to node, of a job that has written its answer."""
    *lines, total = out.read_text().splitlines()
    assert total == "4950"
    return dict(line.split() for line in lines)


def test_in_client_mode_executors_come_to_preferred_nodes_and_have_their_disks(cluster, tmp_path) -> None:
    conf = template(tmp_path / "pod.yaml", **rather_on((10, "node-3")))
    conf |= {f"{ON_NODE}.mount.path": "/var/lib/state", f"{ON_NODE}.options.path": "/disk"}
    job = cluster.submit(JOB, [tmp_path / "out", "60"], conf)
    wait_until((tmp_path / "out").exists, "the answer", 90, story=job.process.story)
    assert places(tmp_path / "out") == {"1": "node-3", "2": "node-3"}
    assert {cluster.node_of(executor) for executor in cluster.executors(job.application)} == {"node-3"}
    assert list((cluster.host("node-3").disk / "disk").glob("blockmgr-*"))

    (lost,) = [executor for executor in cluster.executors() if executor.id == "1"]
    cluster.kill_executor("1")
    job.wait_until(lambda: {"2", "3"} == set(job.executors()), "another executor", 90)
    assert lost.host not in job.executors().values(), "a new pod has a new address"
    job.terminate()
    wait_until(lambda: not cluster.pods(EXECUTORS), "the executors' pods to be gone", 30)


def test_executors_of_a_lost_node_come_back_elsewhere(cluster, tmp_path) -> None:
    cluster.cordon("node-3")
    job = cluster.submit(JOB, [tmp_path / "out", "60"], template(tmp_path / "pod.yaml"))
    try:
        wait_until((tmp_path / "out").exists, "the answer", 90, story=job.process.story)
        nodes = places(tmp_path / "out")
        assert set(nodes.values()) == {"node-1", "node-2"}, "executors spread"
        cluster.uncordon("node-3")
        cluster.kill_host("node-1")
        job.wait_until(lambda: len(cluster.executors(job.application)) == 2, "another executor", 90)
        assert {cluster.node_of(executor) for executor in cluster.executors()} == {"node-2", "node-3"}
    finally:
        cluster.uncordon("node-3")
        cluster.revive_host("node-1")


def test_in_cluster_mode_the_driver_runs_in_a_pod_and_owns_what_it_makes(cluster, tmp_path) -> None:
    conf = {**IN_POD, **template(tmp_path / "pod.yaml"), f"{ON_CLAIM}.mount.path": "/state"}
    conf |= {f"{ON_CLAIM}.options.claimName": "OnDemand", f"{ON_CLAIM}.options.storageClass": "stand-in"}
    conf |= {f"{ON_CLAIM}.options.sizeLimit": "1Gi"}
    job = cluster.submit(JOB, [tmp_path / "out", "60"], conf)
    wait_until((tmp_path / "out").exists, "the answer", 120, story=lambda: f"{job.process.story()}\n{job.log}")
    assert len(places(tmp_path / "out")) == 2
    assert set(job.executors()) == {"1", "2"}
    assert job.driver() is not None
    assert len(cluster.claims()) == 2
    assert len(cluster.pods(EXECUTORS)) == 2
    job.kill()
    wait_until(lambda: not cluster.pods() and not cluster.claims(), "what the driver owned to be gone", 60)
    assert not cluster.api.admin.list("default", "services", "spark-app-selector")


def test_in_cluster_mode_an_application_succeeds_or_fails_as_its_driver_does(cluster, tmp_path) -> None:
    good = cluster.submit(JOB, [tmp_path / "out"], {**IN_POD, "spark.executor.instances": "1"})
    good.finish(150)
    assert (tmp_path / "out").exists()
    bad = cluster.submit(JOB, [tmp_path / "no" / "such" / "directory"], {**IN_POD, "spark.executor.instances": "1"})
    with pytest.raises(ClusterError, match="driver-"):
        bad.finish(150)


def test_without_a_right_the_driver_says_so(cluster, tmp_path) -> None:
    cluster.set_rights(without=[("pods", "create")])
    try:
        job = cluster.submit(JOB, [tmp_path / "out"])
        job.wait_until(lambda: 'cannot create resource "pods"' in job.log, "Spark's error", 90)
        assert not cluster.pods(EXECUTORS)
    finally:
        cluster.set_rights()


def test_an_executor_that_is_decommissioned_ends_within_its_time(cluster, tmp_path) -> None:
    conf = {"spark.decommission.enabled": "true", "spark.storage.decommission.enabled": "false"}
    job = cluster.submit(JOB, [tmp_path / "out", "60"], {**conf, **template(tmp_path / "pod.yaml")})
    wait_until((tmp_path / "out").exists, "the answer", 90, story=job.process.story)
    first = next(p["metadata"]["name"] for p in cluster.pods(EXECUTORS) if p["metadata"]["name"].endswith("-exec-1"))
    cluster.delete_pod(first)
    job.wait_until(lambda: "3" in job.executors() and "1" not in job.executors(), "another executor", 90)
    assert "decommission" in cluster.logs_of(first)[-1].read_text().lower()
