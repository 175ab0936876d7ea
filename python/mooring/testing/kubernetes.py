"""A Kubernetes cluster of several nodes on one machine, for tests that restart applications and kill things.

    with KubernetesCluster(nodes=3, work_dir=tmp_path) as cluster:
        job = cluster.submit("job.py", ["in", "checkpoint", "out"], conf={"spark.executor.instances": "3"})
        job.wait_for_executors(3)
        cluster.kill_host("node-2")             # kill -9 of all its pods; later the node is not ready
        cluster.revive_host("node-2")           # the same node again, with the same disk
        job.finish()

The API server and its etcd are real, with RBAC; the first use builds them (see `kubernetes_binaries`). Scheduler,
kubelets and controllers are stand-ins that run pods as processes of this machine: `kubelet`, `kubernetes_scheduling`
and `kubernetes_controllers` say what they do and what they refuse. Needs Linux and root, for mount namespaces.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mooring.errors import ClusterError
from mooring.testing.hosts import ClusterOfHosts, ExecutorProcess
from mooring.testing.kubernetes_api import SERVICE_NAMES, ApiServer
from mooring.testing.kubernetes_driver import DriverOnKubernetes
from mooring.testing.kubernetes_node import KubernetesNode, change_taints, is_unreachable
from mooring.testing.kubernetes_rights import (
    account_with_rules,
    objects_of_namespace,
    rules_of_driver,
    rules_of_submitter,
)
from mooring.testing.kubernetes_stand_ins import StandIns, free_network
from mooring.testing.pod_process import check_namespaces
from mooring.testing.probes import free_port, wait_until
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_environment
from mooring.testing.submission import Submission, submit_command

Json = dict[str, Any]

NAMESPACE: Final = "default"
DRIVER_ACCOUNT: Final = "spark"
"""The service account of drivers and executors, with `rules_of_driver`."""

SUBMITTER_ACCOUNT: Final = "submitter"
"""The account of `spark-submit` in cluster mode, with `rules_of_submitter`."""

_ADDRESS = "127.0.0.1"
_FLAGS = {
    "feature-gates": "PodTopologyLabelsAdmission=true",  # pods get their node's zone as a label, as from 1.35 on
    "default-unreachable-toleration-seconds": "2",  # else five minutes
    "default-not-ready-toleration-seconds": "2",
}
_IN_CLUSTER_MODE = "cluster"


class KubernetesCluster(ClusterOfHosts[KubernetesNode]):
    """An API server, nodes, and the submitted applications; a context manager."""

    def __init__(
        self,
        nodes: int = 3,
        work_dir: Path | None = None,
        conf: Mapping[str, str] | None = None,
        node_memory_mb: int = 2600,
        node_cores: int = 8,
        executor_memory: str = "768m",
        zones: Sequence[str] = (),
        lost_after_s: float = 3.0,
    ) -> None:
        """The servers start with the with-block.

        The nodes are `node-1`, `node-2` and so on; `hosts` has them by these names. An executor of 768 MB and its
        overhead of 384 MB need 1,152 of `node_memory_mb`. An application gets as many executors as there are nodes,
        unless `spark.executor.instances` says otherwise. `conf` holds for every submission. `zones` are given to the
        nodes in turn. A killed node is not ready after `lost_after_s`; two seconds later its pods are gone, unless
        they tolerate that for longer. Logs and disks are under `work_dir`, or in a temporary directory that is removed
        at the end.
        """
        if not 1 <= nodes <= 250:
            raise ClusterError(f"nodes={nodes}: from 1 to 250")
        self._temporary = work_dir is None
        self.work_dir = Path(work_dir or tempfile.mkdtemp(prefix="mooring-kubernetes-")).resolve()
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self.conf = dict(conf or {})
        self.executor_memory = executor_memory
        self.api = ApiServer(self.work_dir / "api", _FLAGS)
        network = free_network()
        capacity = {"cpu": str(node_cores), "memory": f"{node_memory_mb}Mi"}
        self.hosts = {}
        for number in range(1, nodes + 1):
            name, disk = f"node-{number}", self.work_dir / "nodes" / f"node-{number}"
            labels = {"topology.kubernetes.io/zone": zones[(number - 1) % len(zones)]} if zones else {}
            self.hosts[name] = KubernetesNode(name, f"{network}.255.{number}", disk, capacity, labels)
        self._stand_ins = StandIns(
            self.api, self.hosts, self.work_dir, network, lost_after_s, on_fault=self._kill_everything
        )
        self._submissions: list[Submission] = []
        self._refused_are_known = False

    def start(self, timeout: float = 60.0) -> None:
        """Start the API server and the nodes; return when pods can be made."""
        check_namespaces(self.work_dir / "probe")
        self.api.start(timeout)
        admin = self.api.admin
        for resource, item in [
            *objects_of_namespace(self.api.authority),
            *account_with_rules(NAMESPACE, DRIVER_ACCOUNT, rules_of_driver()),
            *account_with_rules(NAMESPACE, SUBMITTER_ACCOUNT, rules_of_submitter()),
        ]:
            admin.create(NAMESPACE, resource, item)
        for node in self.hosts.values():
            node.register(admin)
        self._stand_ins.start()

    def stop(self) -> None:
        """End all applications, pods and servers; remove the directory if it was a temporary one.

        `ClusterError` when the stand-ins had a fault, and when they have refused a pod and nobody asked for `refused`.
        """
        try:
            self.end_applications()
            self._stand_ins.stop()
        finally:
            self._kill_everything()
            self.api.stop()
            if self._temporary:
                shutil.rmtree(self.work_dir, ignore_errors=True)
        self._stand_ins.check()
        if self._stand_ins.scheduler.refused and not self._refused_are_known:
            raise ClusterError(f"pods were refused, as the stand-ins do not know what they ask for: {self.refused()}")

    def end_applications(self) -> None:
        """Kill -9 of every `spark-submit`. In client mode these are the drivers; pods live on."""
        for submission in self._submissions:
            submission.process.kill()

    def _kill_everything(self) -> None:
        self.end_applications()
        for node in self.hosts.values():
            node.lose_power()

    def submit(
        self,
        job: str | Path,
        args: Sequence[str | Path] = (),
        conf: Mapping[str, str] | None = None,
        jars: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        main_class: str | None = None,
        driver_memory: str = "1g",
    ) -> Submission:
        """spark-submit a job: a Python file, or a jar with its `main_class`.

        Returns when spark-submit is started. It runs in its own directory, `<work_dir>/submissions/<n>`, where
        `driver.log` has its output. `env` adds to its environment. In client mode that is the driver's. The driver
        runs in a pod, `driver-<n>`, where `conf` has `spark.submit.deployMode=cluster`; job and jars must then be
        absolute paths.
        """
        self._stand_ins.check()
        number = len(self._submissions)
        directory = self.work_dir / "submissions" / str(number)
        directory.mkdir(parents=True)
        settings = {**self._own_conf(directory), **self.conf, **(conf or {})}
        in_pod = settings.get("spark.submit.deployMode") == _IN_CLUSTER_MODE
        ui_port, pod = free_port(_ADDRESS), f"driver-{number}"
        settings |= self._conf_of_pod(pod) if in_pod else self._conf_of_client(ui_port)
        if in_pod:
            job, jars = f"local://{job}", [f"local://{jar}" for jar in jars]
        command = submit_command(f"k8s://{self.api.url}", job, args, settings, jars, main_class, driver_memory)
        variables = {"SPARK_LOCAL_IP": _ADDRESS, "SPARK_LOCAL_DIRS": str(directory), **(env or {})}
        name = f"submission {number} ({Path(job).name})"
        process = ChildProcess(name, command, directory / "driver.log", spark_environment(variables), cwd=directory)
        submission = (
            DriverOnKubernetes(process, self.api.admin, NAMESPACE, pod, self.logs_of, self._pid_of)
            if in_pod
            else Submission(process, f"http://{_ADDRESS}:{ui_port}")
        )
        self._submissions.append(submission)
        process.start()
        return submission

    def _own_conf(self, directory: Path) -> dict[str, str]:
        return {
            "spark.executor.instances": str(len(self.hosts)),
            "spark.executor.memory": self.executor_memory,
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.container.image": "spark",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }

    def _conf_of_client(self, ui_port: int) -> dict[str, str]:
        return {
            "spark.ui.port": str(ui_port),
            "spark.driver.host": _ADDRESS,
            "spark.kubernetes.authenticate.oauthTokenFile": self._token_of(DRIVER_ACCOUNT),
            "spark.kubernetes.authenticate.caCertFile": str(self.api.authority),
            "spark.kubernetes.authenticate.executor.serviceAccountName": DRIVER_ACCOUNT,
        }

    def _conf_of_pod(self, pod: str) -> dict[str, str]:
        return {
            "spark.kubernetes.driver.pod.name": pod,
            "spark.kubernetes.driver.master": f"https://{SERVICE_NAMES[0]}:{self.api.port}",
            "spark.kubernetes.authenticate.submission.oauthTokenFile": self._token_of(SUBMITTER_ACCOUNT),
            "spark.kubernetes.authenticate.submission.caCertFile": str(self.api.authority),
            "spark.kubernetes.authenticate.driver.serviceAccountName": DRIVER_ACCOUNT,
        }

    def _token_of(self, account: str) -> str:
        return str(self.api.account_token_file(NAMESPACE, account))

    def pods(self, selector: str = "") -> list[Json]:
        """The pods as the API has them; `selector` is one of labels, such as `spark-role=executor`."""
        self._stand_ins.check()
        return self.api.admin.list(NAMESPACE, "pods", selector)

    def logs_of(self, pod: str) -> list[Path]:
        """The logs of the pods that have had this name, the newest last."""
        return sorted(self.work_dir.glob(f"pods/{pod}-????????/log"), key=lambda log: log.parent.stat().st_ctime)

    def events(self, pod: str) -> list[str]:
        """What the stand-ins have told about a pod, in no order: why it waits, or what is refused."""
        listed = self.api.admin.list(NAMESPACE, "events")
        return [event["message"] for event in listed if event["involvedObject"]["name"] == pod]

    def delete_pod(self, name: str, grace_s: int | None = None) -> None:
        """Delete a pod, as `kubectl delete` does. Returns at once. `grace_s` is in place of the pod's own time."""
        options = None if grace_s is None else {"gracePeriodSeconds": grace_s}
        self.api.admin.delete(NAMESPACE, "pods", name, options)

    def refused(self) -> dict[str, list[str]]:
        """Pods that stay Pending as they ask for what the stand-ins do not know: name to what they ask for."""
        self._refused_are_known = True
        return dict(self._stand_ins.scheduler.refused.values())

    def node_of(self, executor: ExecutorProcess) -> str:
        """The name of the node that an executor is on. `ClusterError` when its pod is gone."""
        for node in self.hosts.values():
            if any(container.address == executor.host for container in node.containers):
                return node.name
        raise ClusterError(f"no pod has the address {executor.host} of executor {executor.id}")

    def _has_name(self, executor: ExecutorProcess, host_or_id: str) -> bool:
        """By its node, its pod's address or its id."""
        return host_or_id in (executor.host, executor.id, self.node_of(executor))

    def _pid_of(self, pod: str) -> int | None:
        for container in (container for node in self.hosts.values() for container in node.containers):
            if container.name == pod and container.process is not None and container.runs:
                return container.process.pid
        return None

    def kill_host(self, host: str) -> None:
        """Kill -9 of all pods on a node at once, as when it loses power. Its disk stays."""
        self._stand_ins.check()
        self.host(host).lose_power()

    def revive_host(self, host: str, timeout: float = 30.0) -> None:
        """Give a node power again, on the same disk. Returns when it is ready."""
        self.host(host).has_power = True
        wait_until(lambda: self.node_is_ready(host), f"{host} to be ready", timeout)

    def node_is_ready(self, host: str) -> bool:
        """Whether the API has a node as ready; a killed node is so for a while too."""
        self._stand_ins.check()
        found = self.api.admin.get("", "nodes", self.host(host).name)
        ready = next(each["status"] for each in found["status"]["conditions"] if each["type"] == "Ready")
        return bool(ready == "True") and not is_unreachable(found)

    def cordon(self, host: str) -> None:
        """Let no new pod come to a node, as `kubectl cordon` does."""
        self.api.admin.patch("", "nodes", self.host(host).name, {"spec": {"unschedulable": True}})

    def uncordon(self, host: str) -> None:
        """Let pods come to a node again."""
        self.api.admin.patch("", "nodes", self.host(host).name, {"spec": {"unschedulable": None}})

    def taint(self, host: str, key: str, effect: str, value: str = "") -> None:
        """Add a taint to a node; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""
        change_taints(self.api.admin, self.host(host).name, [{"key": key, "value": value, "effect": effect}])

    def untaint(self, host: str, key: str) -> None:
        """Remove the taints with this key."""
        change_taints(self.api.admin, self.host(host).name, remove=(key,))

    def create_claim(self, name: str, access_mode: str = "ReadWriteOnce", size: str = "1Gi") -> None:
        """Make a claim. It is bound a moment later, and every node can reach its volume."""
        requests = {"resources": {"requests": {"storage": size}}}
        spec = {"accessModes": [access_mode], "storageClassName": "stand-in", **requests}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        self.api.admin.create(NAMESPACE, "persistentvolumeclaims", claim)

    def claims(self) -> list[Json]:
        """The claims as the API has them."""
        return self.api.admin.list(NAMESPACE, "persistentvolumeclaims")

    def claim_directory(self, name: str) -> Path:
        """The directory of this machine that a claim has; it is gone when the claim is deleted."""
        return self._stand_ins.claims.of(self.api.admin.get(NAMESPACE, "persistentvolumeclaims", name))

    def set_rights(self, without: Sequence[tuple[str, str]] = ()) -> None:
        """Give the drivers' account what it needs, without these pairs of resource and verb: `[("pods", "watch")]`."""
        change = {"rules": rules_of_driver(without)}
        self.api.admin.patch(NAMESPACE, "roles", DRIVER_ACCOUNT, change)
