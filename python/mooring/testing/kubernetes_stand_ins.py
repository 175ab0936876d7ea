"""All stand-ins of a cluster together, driven by one thread: scheduler, kubelets and controllers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mooring.testing.control_loop import ControlLoop
from mooring.testing.kubelet import Kubelet
from mooring.testing.kubernetes_api import ApiRefused, ApiServer
from mooring.testing.kubernetes_controllers import OWNED, Claims, NodeLife, Scheduler, remove_orphans
from mooring.testing.kubernetes_node import KubernetesNode

Json = dict[str, Any]

_INTERVAL_S = 0.2
_PASSING = (404, 409, 429, 500, 503, 504)  # a lost race with another writer, or a server that is busy or starts


class StandIns:
    """They look at all objects five times a second, from `start` to `stop`."""

    def __init__(
        self,
        server: ApiServer,
        nodes: Mapping[str, KubernetesNode],
        work_dir: Path,
        network: str,
        lost_after_s: float,
        on_fault: Callable[[], None],
    ) -> None:
        """Nothing is started. `network` has the first half of the pods' addresses."""
        self._server = server
        self._nodes = nodes
        self._order = list(nodes)
        self.claims = Claims(server, work_dir / "claims")
        self.scheduler = Scheduler(server)
        self._kubelet = Kubelet(server, work_dir, nodes, self.claims.for_pod, _addresses(network))
        self._node_life = NodeLife(server, nodes, lost_after_s)
        self._loop = ControlLoop("the stand-in for a cluster", self._sync, on_fault, _INTERVAL_S)
        self.start = self._loop.start
        self.stop = self._loop.stop
        self.check = self._loop.check

    def _sync(self) -> None:
        """One step of all stand-ins. What is passing is tried again in the next step."""
        try:
            # Pods are listed last: they own the others, and an owner is made before what it owns.
            objects = {resource: self._server.admin.list("", resource) for resource in reversed(OWNED)}
            nodes = self._server.admin.list("", "nodes")
            nodes.sort(key=lambda node: self._order.index(node["metadata"]["name"]))
            pods, claims = objects["pods"], objects["persistentvolumeclaims"]
            self._node_life.sync(nodes, pods)
            self.claims.sync(claims, pods)
            self.scheduler.sync(nodes, pods, claims)
            self._kubelet.sync(pods, objects["services"], self.scheduler.refused)
            remove_orphans(self._server, objects)
        except ApiRefused as refused:
            if refused.code not in _PASSING:
                raise


def free_network() -> str:
    """The first half of a cluster's addresses. Another one for each cluster: a driver's ports are always the same."""
    return f"127.{random.randint(16, 239)}"


def _addresses(network: str) -> Iterator[str]:
    for number in itertools.count():
        yield f"{network}.{number // 250 % 250}.{number % 250 + 1}"
