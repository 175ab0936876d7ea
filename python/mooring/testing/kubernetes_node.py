"""One simulated node of a Kubernetes cluster: its object in the API, its disk, and the containers that run on it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mooring.errors import ClusterError
from mooring.testing.hosts import ExecutorProcess, executors_in_group
from mooring.testing.kubernetes_api import ApiClient, ApiRefused
from mooring.testing.pod_process import PodProcess, condition

Json = dict[str, Any]

_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_TRIES = 20


class KubernetesNode:
    """A node. Its containers can be killed all at once, as when a machine loses power; its disk stays."""

    def __init__(
        self, name: str, address: str, disk: Path, capacity: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Nothing is made in the API. hostPath volumes are directories below `disk`."""
        self.name = name
        self.address = address
        self.disk = disk
        self.lock = threading.RLock()
        """Held while a container is started here, and while the node is killed."""
        self.has_power = True
        self._capacity = {**capacity, "pods": "110"}
        self._labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}
        self._containers: dict[str, PodProcess] = {}

    def register(self, api: ApiClient) -> None:
        """Make the node's object, which is ready."""
        self.disk.mkdir(parents=True, exist_ok=True)
        meta = {"name": self.name, "labels": self._labels}
        api.create("", "nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        self.say_ready(api)

    def say_ready(self, api: ApiClient) -> None:
        """Tell the API that the node is ready."""
        addresses = [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}]
        status = {"capacity": self._capacity, "allocatable": self._capacity, "addresses": addresses}
        conditions = [condition("Ready", True, "KubeletReady", "a stand-in for a kubelet is ready")]
        api.patch("", "nodes", self.name, {"status": {**status, "conditions": conditions}}, "status")
        change_taints(api, self.name, remove=(_UNREACHABLE, _NOT_READY))

    def say_unreachable(self, api: ApiClient) -> None:
        """Tell the API that nothing is heard from the node, as the node controller does."""
        silent = {**condition("Ready", False, "NodeStatusUnknown", "Kubelet stopped posting node status.")}
        silent["status"] = "Unknown"
        api.patch("", "nodes", self.name, {"status": {"conditions": [silent]}}, "status")
        effects = ("NoSchedule", "NoExecute")
        change_taints(api, self.name, add=[{"key": _UNREACHABLE, "effect": effect} for effect in effects])

    def add(self, container: PodProcess) -> None:
        """A container that was started here."""
        self._containers[container.uid] = container

    def forget(self, container: PodProcess) -> None:
        """A container whose pod is gone."""
        self._containers.pop(container.uid, None)

    @property
    def containers(self) -> list[PodProcess]:
        """The containers that were started here and whose pods are not gone, also those that have ended."""
        return list(self._containers.values())

    def executors(self) -> list[ExecutorProcess]:
        """The executors alive on this node, in order of their applications and ids."""
        groups = [each.process.pid for each in self.containers if each.process is not None and each.runs]
        return [executor for group in groups for executor in executors_in_group(group)]

    def lose_power(self) -> None:
        """Kill -9 of every process on the node."""
        with self.lock:
            self.has_power = False
            for container in self.containers:
                if container.process is not None and container.runs:
                    with contextlib.suppress(ProcessLookupError):  # it has ended this moment
                        os.killpg(container.process.pid, signal.SIGKILL)
            for container in self.containers:
                container.kill()


def is_unreachable(node: Json) -> bool:
    """Whether the API has a node as one of which nothing is heard."""
    return any(taint["key"] == _UNREACHABLE for taint in node["spec"].get("taints", []))


def change_taints(api: ApiClient, node: str, add: list[Json] | None = None, remove: tuple[str, ...] = ()) -> None:
    """Add taints to a node, and remove those with these keys. Other writers' taints stay as they are."""
    keys = {*remove, *(taint["key"] for taint in add or [])}
    for _ in range(_TRIES):
        found = api.get("", "nodes", node)
        taints = [taint for taint in found["spec"].get("taints", []) if taint["key"] not in keys] + (add or [])
        seen = {"resourceVersion": found["metadata"]["resourceVersion"]}
        try:
            api.patch("", "nodes", node, {"metadata": seen, "spec": {"taints": taints}})
            return
        except ApiRefused as refused:
            if refused.code != 409:  # 409: another writer was faster
                raise
    raise ClusterError(f"the taints of {node} were changed by another writer {_TRIES} times")
