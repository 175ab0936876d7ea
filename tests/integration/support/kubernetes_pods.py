"""Pods without Spark, for tests of the Kubernetes kit: a shell script for a container."""

from __future__ import annotations

from typing import Any

from mooring.testing.kubernetes import NAMESPACE, KubernetesCluster
from mooring.testing.probes import wait_until

Json = dict[str, Any]
FOREVER = "sleep 1000"


def on_node(name: str) -> Json:
    """Affinity that allows one node only."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def rather_on(*weighted: tuple[int, str]) -> Json:
    """Affinity that prefers nodes, by weight."""
    terms = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]},
        }
        for weight, name in weighted
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def volume(path: str, **source: Any) -> Json:
    """One volume, mounted at a path; `more` of `run` takes it."""
    name = path.strip("/").replace("/", "-").replace(".", "-").lower()
    return {"volumes": [{"name": name, **source}], "mounts": [{"name": name, "mountPath": path}]}


def claim(path: str, name: str) -> Json:
    """A claim, mounted at a path."""
    return volume(path, persistentVolumeClaim={"claimName": name})


class Pods:
    """Makes pods in a cluster, and looks at them."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self.cluster = cluster
        self._api = cluster.api.admin

    def run(
        self, name: str, script: str, *, meta: Json | None = None, env: list[Json] | None = None, **more: Any
    ) -> Json:
        mounts = more.pop("mounts", [])
        container = {
            "name": "main",
            "image": "none",
            "args": ["sh", "-c", script],
            "env": env or [],
            "volumeMounts": mounts,
        }
        spec = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 5, **more}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(meta or {})}, "spec": spec}
        return self._api.create(NAMESPACE, "pods", body)

    def find(self, name: str) -> Json | None:
        return next((pod for pod in self.cluster.pods() if pod["metadata"]["name"] == name), None)

    def phase(self, name: str) -> str:
        pod = self.find(name)
        return pod["status"]["phase"] if pod else "gone"

    def wait(self, name: str, phase: str, timeout: float = 30.0) -> Json:
        """Wait for a phase, or for `gone`; returns the pod."""
        wait_until(
            lambda: self.phase(name) == phase, f"{name} to be {phase}", timeout, story=lambda: str(self.find(name))
        )
        return self.find(name) or {}

    def output(self, name: str) -> str:
        """What a pod has written, after it has succeeded."""
        self.wait(name, "Succeeded")
        return self.said(name)

    def said(self, name: str) -> str:
        """What a pod has written so far."""
        logs = self.cluster.logs_of(name)
        return logs[-1].read_text() if logs else ""

    def wait_until_said(self, name: str, words: str) -> None:
        wait_until(lambda: words in self.said(name), f"{name} to say {words!r}", 30)

    def node_of(self, name: str) -> str:
        return self.wait(name, "Running")["spec"]["nodeName"]

    def why_pending(self, name: str, words: str) -> None:
        """Wait until an event about a pod has these words; the pod must be Pending."""
        wait_until(lambda: any(words in told for told in self.cluster.events(name)), f"{name}: {words}", 30)
        assert self.phase(name) == "Pending"

    def exit_code(self, name: str) -> int:
        (status,) = self.wait(name, "Failed")["status"]["containerStatuses"]
        return status["state"]["terminated"]["exitCode"]

    def remove_all(self) -> None:
        for pod in self.cluster.pods():
            self.cluster.delete_pod(pod["metadata"]["name"], 0)
        wait_until(lambda: not self.cluster.pods(), "all pods to be gone", 30)
