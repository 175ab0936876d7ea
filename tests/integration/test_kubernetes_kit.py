"""The kit for tests on Kubernetes, with pods that run a shell script. No Spark, so each takes a second or two."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from mooring.errors import ClusterError
from mooring.testing.kubernetes import DRIVER_ACCOUNT, NAMESPACE, KubernetesCluster
from mooring.testing.kubernetes_api import ApiRefused
from mooring.testing.probes import wait_until
from tests.integration.support.kubernetes_pods import FOREVER, Pods, claim, on_node, rather_on, volume

pytestmark = pytest.mark.heavy

NODES = ("node-1", "node-2", "node-3")
ASKS_THE_API = """
import os, ssl, sys, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount/"
token, namespace = (open(place + name).read() for name in ("token", "namespace"))
address = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
request = urllib.request.Request(
    address + "/api/v1/namespaces/" + namespace + "/pods", headers={"Authorization": "Bearer " + token})
with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=place + "ca.crt")) as answer:
    print(answer.status)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    with KubernetesCluster(
        len(NODES), work_dir=tmp_path_factory.mktemp("kubernetes"), zones=("east", "west"), lost_after_s=1.0
    ) as cluster:
        yield cluster


@pytest.fixture
def pods(cluster: KubernetesCluster) -> Iterator[Pods]:
    pods = Pods(cluster)
    yield pods
    pods.remove_all()


def test_a_pod_ends_as_its_process_does(pods: Pods) -> None:
    pods.run("good", "echo done")
    pods.run("bad", "exit 3")
    pods.run("killed", "kill -9 $$")
    assert pods.output("good") == "done\n"
    assert pods.exit_code("bad") == 3
    assert pods.exit_code("killed") == 137


def test_required_and_preferred_affinity_are_obeyed(pods: Pods) -> None:
    pods.run("must", FOREVER, **on_node("node-3"))
    pods.run("may", FOREVER, **rather_on((1, "node-1"), (2, "node-3")))
    pods.run("nowhere", FOREVER, **on_node("node-9"))
    assert pods.node_of("must") == pods.node_of("may") == "node-3"
    pods.why_pending("nowhere", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.")


def test_a_cordoned_node_gets_no_pod_until_it_is_uncordoned(cluster: KubernetesCluster, pods: Pods) -> None:
    cluster.cordon("node-2")
    pods.run("waits", FOREVER, **on_node("node-2"))
    pods.run("elsewhere", FOREVER, **rather_on((100, "node-2")))
    assert pods.node_of("elsewhere") != "node-2"
    pods.why_pending("waits", "unschedulable")
    cluster.uncordon("node-2")
    assert pods.node_of("waits") == "node-2"


def test_taints_are_obeyed_and_end_pods(cluster: KubernetesCluster, pods: Pods) -> None:
    tolerant = {"tolerations": [{"key": "service", "operator": "Exists"}]}
    pods.run("there", FOREVER, **on_node("node-1"))
    pods.run("stays", FOREVER, **on_node("node-1"), **tolerant)
    assert pods.node_of("there") == pods.node_of("stays") == "node-1"
    cluster.taint("node-1", "service", "NoSchedule")
    pods.run("refused", FOREVER, **on_node("node-1"))
    pods.why_pending("refused", "untolerated taint")
    cluster.taint("node-1", "service", "NoExecute")
    pods.wait("there", "gone")
    cluster.untaint("node-1", "service")
    assert pods.node_of("refused") == "node-1"
    assert pods.phase("stays") == "Running"


def test_a_node_is_not_given_more_than_it_has(pods: Pods) -> None:
    for name in ("first", "second"):
        pods.run(name, FOREVER, **on_node("node-1"))
    greedy = {"name": "main", "image": "none", "args": ["true"], "resources": {"requests": {"memory": "3Gi"}}}
    pods.run("greedy", "", containers=[greedy])
    pods.why_pending("greedy", "0/3 nodes are available: 3 Insufficient memory.")


def test_a_host_path_is_the_nodes_and_stays(cluster: KubernetesCluster, pods: Pods) -> None:
    data = volume("/data/here", hostPath={"path": "/var/lib/state"})
    pods.run("writes", "echo kept > /data/here/file", **data, **on_node("node-1"))
    assert pods.output("writes") == ""
    pods.remove_all()
    pods.run("reads", "cat /data/here/file", **data, **on_node("node-1"))
    pods.run("other", "ls /data/here", **data, **on_node("node-2"))
    assert pods.output("reads") == "kept\n"
    assert pods.output("other") == ""
    assert (cluster.host("node-1").disk / "var/lib/state/file").read_text() == "kept\n"


def test_an_empty_directory_is_gone_with_its_pod(cluster: KubernetesCluster, pods: Pods) -> None:
    pods.run("caches", "ls /cache; echo x > /cache/file; ls /cache", **volume("/cache", emptyDir={}))
    assert pods.output("caches") == "file\n"
    assert list(cluster.work_dir.glob("pods/caches-*/volumes/*/file"))
    pods.remove_all()
    wait_until(lambda: not list(cluster.work_dir.glob("pods/caches-*/volumes/*/file")), "the directory to go", 10)


def test_a_claim_follows_its_pod_to_another_node(cluster: KubernetesCluster, pods: Pods) -> None:
    cluster.create_claim("state")
    script = f"echo mine > /state/file; echo written; {FOREVER}"
    pods.run("first", script, **claim("/state", "state"), **on_node("node-1"))
    pods.wait_until_said("first", "written")
    pods.run("second", "cat /state/file", **claim("/state", "state"), **on_node("node-2"))
    pods.run("beside", "cat /state/file", **claim("/state", "state"), **on_node("node-1"))
    assert pods.output("beside") == "mine\n", "another pod of the same node may have it"
    pods.why_pending("second", "Multi-Attach error")
    cluster.delete_pod("first")
    assert pods.output("second") == "mine\n"


def test_a_claim_of_one_pod_is_for_one_pod(cluster: KubernetesCluster, pods: Pods) -> None:
    cluster.create_claim("single", access_mode="ReadWriteOncePod")
    pods.run("first", FOREVER, **claim("/state", "single"))
    pods.wait("first", "Running")
    pods.run("second", "true", **claim("/state", "single"))
    pods.why_pending("second", "ReadWriteOncePod")
    cluster.delete_pod("first")
    pods.wait("second", "Succeeded")


def test_a_deleted_claim_waits_for_its_pod_and_loses_its_directory(cluster: KubernetesCluster, pods: Pods) -> None:
    cluster.create_claim("short")
    directory = cluster.claim_directory("short")
    pods.run("user", FOREVER, **claim("/state", "short"))
    pods.wait("user", "Running")
    cluster.api.admin.delete(NAMESPACE, "persistentvolumeclaims", "short")
    pods.run("late", FOREVER, **claim("/state", "short"))
    pods.why_pending("late", "is being deleted")
    assert directory.is_dir()
    cluster.delete_pod("user")
    wait_until(lambda: not directory.exists(), "the claim's directory to go", 30)
    assert "short" not in [each["metadata"]["name"] for each in cluster.claims()]


def test_config_maps_secrets_and_the_downward_api_come_as_files_and_variables(
    cluster: KubernetesCluster, pods: Pods
) -> None:
    admin = cluster.api.admin
    secret = base64.b64encode(b"hidden").decode()
    admin.create(NAMESPACE, "configmaps", {"metadata": {"name": "settings"}, "data": {"a": "1", "b": "2"}})
    admin.create(NAMESPACE, "secrets", {"metadata": {"name": "key"}, "data": {"k": secret}})
    labels = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    sources = [volume("/etc/settings", configMap={"name": "settings", "items": [{"key": "b", "path": "deep/b"}]})]
    sources += [volume("/etc/podinfo", downwardAPI={"items": labels}), volume("/etc/key", secret={"secretName": "key"})]
    mounts = {what: [each for source in sources for each in source[what]] for what in ("volumes", "mounts")}
    node = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    key = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}
    script = "cat /etc/settings/deep/b /etc/key/k; echo; cat /etc/podinfo/labels; echo $NODE $KEY; hostname"
    pods.run("told", script, env=[node, key], meta={"labels": {"app": "x"}}, **mounts, **on_node("node-2"))
    expected = '2hidden\napp="x"\ntopology.kubernetes.io/zone="west"\nnode-2 hidden\ntold\n'
    assert pods.output("told") == expected


def test_a_pod_that_needs_a_missing_config_map_waits_for_it(cluster: KubernetesCluster, pods: Pods) -> None:
    pods.run("early", "cat /conf/a", **volume("/conf", configMap={"name": "later"}))
    wait_until(lambda: any('"later" not found' in told for told in cluster.events("early")), "the event", 30)
    cluster.api.admin.create(NAMESPACE, "configmaps", {"metadata": {"name": "later"}, "data": {"a": "1"}})
    assert pods.output("early") == "1"


def test_a_pod_finds_a_service_by_its_name(cluster: KubernetesCluster, pods: Pods) -> None:
    pods.run("server", FOREVER, meta={"labels": {"app": "server"}})
    address = pods.wait("server", "Running")["status"]["podIP"]
    service = {"clusterIP": "None", "selector": {"app": "server"}}
    pods.run("client", f"until getent hosts svc.{NAMESPACE}.svc; do sleep 0.1; done")
    cluster.api.admin.create(NAMESPACE, "services", {"metadata": {"name": "svc"}, "spec": service})
    assert pods.output("client").split()[0] == address


def test_what_is_owned_goes_with_its_owner(cluster: KubernetesCluster, pods: Pods) -> None:
    uid = pods.run("owner", FOREVER)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": uid}
    owned = {"ownerReferences": [owner]}
    pods.run("owned", FOREVER, meta=owned)
    admin = cluster.api.admin
    admin.create(NAMESPACE, "configmaps", {"metadata": {"name": "owned", **owned}})
    pods.wait("owned", "Running")
    cluster.delete_pod("owner")
    pods.wait("owned", "gone")
    wait_until(
        lambda: "owned" not in [each["metadata"]["name"] for each in admin.list(NAMESPACE, "configmaps")],
        "it to go",
        10,
    )


def test_a_deleted_pod_has_its_time_of_grace(cluster: KubernetesCluster, pods: Pods) -> None:
    pods.run("polite", "trap 'sleep 1; echo bye; exit 0' TERM; echo up; sleep 1000 & wait")
    pods.run("deaf", "trap '' TERM; echo up; while true; do sleep 0.1; done", terminationGracePeriodSeconds=1)
    for name in ("polite", "deaf"):
        pods.wait_until_said(name, "up")
        cluster.delete_pod(name)
        pods.wait(name, "gone")
    assert pods.said("polite") == "up\nbye\n"


def test_a_node_loses_power_and_comes_back_with_its_disk(cluster: KubernetesCluster, pods: Pods) -> None:
    data = volume("/data", hostPath={"path": "/data"})
    pods.run("there", f"echo x > /data/file; echo written; {FOREVER}", **data, **on_node("node-3"))
    pods.run("elsewhere", FOREVER, **on_node("node-1"))
    pods.wait_until_said("there", "written")
    pods.wait("elsewhere", "Running")
    cluster.kill_host("node-3")
    assert not any(container.runs for container in cluster.host("node-3").containers)
    wait_until(lambda: not cluster.node_is_ready("node-3"), "the node to be missed", 20)
    pods.wait("there", "gone")
    pods.run("late", "cat /data/file", **data, **on_node("node-3"))
    pods.why_pending("late", "untolerated taint")
    cluster.revive_host("node-3")
    assert pods.output("late") == "x\n"
    assert pods.phase("elsewhere") == "Running"


def test_a_node_that_is_back_at_once_says_what_became_of_its_pods(cluster: KubernetesCluster, pods: Pods) -> None:
    pods.run("there", FOREVER, **on_node("node-2"))
    pods.wait("there", "Running")
    cluster.kill_host("node-2")
    cluster.revive_host("node-2")
    assert pods.exit_code("there") == 137


def test_what_is_not_known_is_refused_and_said(cluster: KubernetesCluster, pods: Pods) -> None:
    pods.run("odd", FOREVER, hostNetwork=True)
    pods.why_pending("odd", "does not know spec.hostNetwork")
    assert cluster.refused()["odd"] == ["spec.hostNetwork"]


def test_a_pod_has_the_rights_of_its_account(cluster: KubernetesCluster, pods: Pods) -> None:
    script = f"exec $PYSPARK_PYTHON -c '{ASKS_THE_API}'"
    pods.run("driver", script, serviceAccountName=DRIVER_ACCOUNT)
    assert pods.output("driver") == "200\n"
    pods.run("nobody", script)
    assert pods.exit_code("nobody") == 1
    assert "403" in pods.said("nobody")


def test_one_right_can_be_taken_away(cluster: KubernetesCluster) -> None:
    driver = cluster.api.client(cluster.api.account_token(NAMESPACE, DRIVER_ACCOUNT))
    assert driver.list(NAMESPACE, "pods") == []
    cluster.set_rights(without=[("pods", "list")])
    try:
        wait_until(lambda: _is_forbidden(lambda: driver.list(NAMESPACE, "pods")), "the right to be gone", 10)
        assert driver.list(NAMESPACE, "services")
    finally:
        cluster.set_rights()
    with pytest.raises(ApiRefused, match="nodes is forbidden"):
        driver.list("", "nodes")


def _is_forbidden(request) -> bool:
    try:
        request()
    except ApiRefused as refused:
        return refused.code == 403
    return False


def test_pods_live_on_while_the_api_server_does_not_answer(cluster: KubernetesCluster, pods: Pods) -> None:
    pods.run("steady", FOREVER)
    pods.wait("steady", "Running")
    cluster.api.server.pause()
    cluster.api.server.resume()
    pods.run("after", "true")
    pods.wait("after", "Succeeded")
    assert pods.phase("steady") == "Running"


def test_a_fault_of_the_stand_ins_fails_the_test(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="ZeroDivisionError"), KubernetesCluster(1, work_dir=tmp_path) as cluster:
        monkeypatch.setattr(cluster._stand_ins.scheduler, "sync", lambda *seen: 1 / 0)
        wait_until(lambda: cluster.pods() is None, "the fault", 10)


def test_pods_that_were_refused_fail_the_test_unless_it_asks(tmp_path) -> None:
    with (
        pytest.raises(ClusterError, match=r"refused.*spec.hostNetwork"),
        KubernetesCluster(1, work_dir=tmp_path) as one,
    ):
        pods = Pods(one)
        pods.run("odd", FOREVER, hostNetwork=True)
        pods.why_pending("odd", "spec.hostNetwork")
