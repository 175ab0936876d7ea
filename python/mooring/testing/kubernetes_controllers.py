"""Stand-ins for the scheduler and the controllers of a cluster, as far as Spark and Mooring meet them.

The scheduler binds pods by `choose_node`. Controllers: claims are bound as soon as they are made, and have a directory;
objects whose owners are gone are removed; pods leave nodes with a NoExecute taint; a node without power is tainted.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.testing.kubelet import record_event
from mooring.testing.kubernetes_api import ApiRefused, ApiServer
from mooring.testing.kubernetes_node import KubernetesNode
from mooring.testing.kubernetes_pod_spec import refusals
from mooring.testing.kubernetes_scheduling import choose_node, has_ended, is_for_taint
from mooring.testing.kubernetes_volumes import NotYet
from mooring.testing.pod_process import condition

Json = dict[str, Any]

_log = logging.getLogger(__name__)
_APPLICATION = "spark-app-selector"


class Scheduler:
    """Binds pods that have no node. Pods that no node fits, and pods that are refused, stay Pending and say why."""

    def __init__(self, server: ApiServer) -> None:
        """Nothing is asked of the API server yet."""
        self._server = server
        self._api = server.admin
        self._first: dict[str, int] = {}
        self._told: dict[str, str] = {}
        self.refused: dict[str, tuple[str, list[str]]] = {}
        """Pods that ask for something that the stand-ins do not know: uid to name, and what."""

    def sync(self, nodes: list[Json], pods: list[Json], claims: list[Json]) -> None:
        """Bind every pod that can be bound now."""
        for pod in pods:
            meta = pod["metadata"]
            if "deletionTimestamp" in meta or has_ended(pod) or meta["uid"] in self.refused:
                continue
            unknown = [] if meta["uid"] in self._first else refusals(pod)
            self._first.setdefault(meta["uid"], self._first_node_of(pod))
            if unknown:
                self.refused[meta["uid"]] = (meta["name"], unknown)
                self._say(pod, f"the stand-in for a cluster does not know {', '.join(unknown)}", "Refused")
            elif not pod["spec"].get("nodeName"):
                self._place(pod, nodes, pods, claims)

    def _first_node_of(self, pod: Json) -> int:
        """The number of the node that comes first among equals: another one for each application.

        So the executors of a restarted application come to other nodes than before, if nothing is preferred.
        """
        application = (pod["metadata"].get("labels") or {}).get(_APPLICATION, pod["metadata"]["uid"])
        return self._first.setdefault(f"application {application}", sum(" " in key for key in self._first))

    def _place(self, pod: Json, nodes: list[Json], pods: list[Json], claims: list[Json]) -> None:
        problem = problem_of_claims(pod, pods, claims)
        others = [other for other in pods if other is not pod]
        choice = None if problem else choose_node(pod, nodes, others, self._first[pod["metadata"]["uid"]])
        if choice is None or not choice.node:
            self._say(pod, problem or (choice.why if choice else ""), "FailedScheduling")
            return
        meta = pod["metadata"]
        target = {"apiVersion": "v1", "kind": "Node", "name": choice.node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"], "uid": meta["uid"]}}
        path = f"api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
        try:
            self._api.call("POST", path, {**binding, "target": target})
        except ApiRefused as refused:
            if refused.code not in (404, 409):  # the pod is gone or was changed since it was listed
                raise
            return
        pod.update(self._api.get(meta["namespace"], "pods", meta["name"]))  # it has its node, and labels of the node

    def _say(self, pod: Json, message: str, reason: str) -> None:
        meta = pod["metadata"]
        if self._told.get(meta["uid"]) == message:
            return
        self._told[meta["uid"]] = message
        _log.warning("pod %s: %s", meta["name"], message)
        told = condition("PodScheduled", False, "Unschedulable", message)
        try:
            change = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [told]}}
            self._api.patch(meta["namespace"], "pods", meta["name"], change, "status")
            record_event(self._server, pod, reason, message)
        except ApiRefused as refused:
            if refused.code not in (404, 409):  # as above
                raise


def claims_of(pod: Json) -> list[str]:
    """The names of the claims that a pod mounts."""
    volumes = pod["spec"].get("volumes", [])
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]


def _users(pods: list[Json], namespace: str, claim: str) -> list[Json]:
    """The pods on nodes that have a claim."""
    return [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == namespace
        and pod["spec"].get("nodeName")
        and not has_ended(pod)
        and claim in claims_of(pod)
    ]


def problem_of_claims(pod: Json, pods: list[Json], claims: list[Json]) -> str:
    """Why a pod can not be scheduled because of its claims; "" when it can."""
    namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
    by_name = {each["metadata"]["name"]: each for each in claims if each["metadata"]["namespace"] == namespace}
    for name in claims_of(pod):
        claim = by_name.get(name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if "deletionTimestamp" in claim["metadata"]:
            return f'persistentvolumeclaim "{name}" is being deleted'
        others = [each for each in _users(pods, namespace, name) if each["metadata"]["uid"] != uid]
        if others and "ReadWriteOncePod" in claim["spec"]["accessModes"]:
            return f'persistentvolumeclaim "{name}" has access mode ReadWriteOncePod and is in use'
    return ""


@dataclass
class Claims:
    """Binds claims to directories of this machine, which every node can reach, and removes those of deleted claims."""

    server: ApiServer
    directory: Path
    _made: dict[str, Path] = field(default_factory=dict)
    _attached: dict[str, str] = field(default_factory=dict)
    """Claim's uid to node."""
    _seen: list[Json] = field(default_factory=list)

    def sync(self, claims: list[Json], pods: list[Json]) -> None:
        """Bind new claims, let go of those that are deleted and not in use, remove the directories of those gone."""
        self._seen = claims
        api, uids = self.server.admin, {claim["metadata"]["uid"] for claim in claims}
        for claim in claims:
            meta = claim["metadata"]
            users = _users(pods, meta["namespace"], meta["name"])
            if self._attached.get(meta["uid"]) not in {user["spec"]["nodeName"] for user in users}:
                self._attached.pop(meta["uid"], None)
            if "deletionTimestamp" in meta:
                if meta.get("finalizers") and not users:
                    change = {"metadata": {"uid": meta["uid"], "finalizers": None}}
                    api.patch(meta["namespace"], "persistentvolumeclaims", meta["name"], change)
            elif claim.get("status", {}).get("phase") != "Bound":
                self.of(claim)
                spec = claim["spec"]
                capacity = spec["resources"]["requests"]
                status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": capacity}
                change = {"metadata": {"uid": meta["uid"]}, "status": status}
                api.patch(meta["namespace"], "persistentvolumeclaims", meta["name"], change, "status")
        for uid in self._made.keys() - uids:
            shutil.rmtree(self._made.pop(uid))

    def of(self, claim: Json) -> Path:
        """The directory of a claim, which is made with its first use."""
        meta = claim["metadata"]
        directory = self._made.setdefault(meta["uid"], self.directory / f"{meta['name']}-{meta['uid'][:8]}")
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def for_pod(self, pod: Json, name: str) -> Path:
        """The directory of a pod's claim. `NotYet` while it is not there, or while a pod on another node has it."""
        namespace, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
        found = next(
            (c for c in self._seen if (c["metadata"]["namespace"], c["metadata"]["name"]) == (namespace, name)), None
        )
        if found is None:
            raise NotYet(f'persistentvolumeclaim "{name}" not found')
        if not {"ReadWriteMany", "ReadOnlyMany"} & set(found["spec"]["accessModes"]):
            attached = self._attached.setdefault(found["metadata"]["uid"], node)
            if attached != node:
                raise NotYet(f'Multi-Attach error: claim "{name}" is used on {attached}')
        return self.of(found)


OWNED = ("pods", "services", "configmaps", "persistentvolumeclaims", "networkpolicies")
"""The resources whose objects are removed with their owners."""


def remove_orphans(server: ApiServer, objects: Mapping[str, list[Json]]) -> None:
    """Delete what was owned by objects that are all gone. Pods must have been listed last: owners are pods."""
    kinds = {"Pod": "pods", "Service": "services", "ConfigMap": "configmaps"}
    alive = {each["metadata"]["uid"] for listed in objects.values() for each in listed}
    for resource, listed in objects.items():
        for each in listed:
            meta = each["metadata"]
            owners = meta.get("ownerReferences", [])
            gone = [owner["kind"] in kinds and owner["uid"] not in alive for owner in owners]
            if owners and all(gone) and "deletionTimestamp" not in meta:
                _log.info("%s %s: its owner is gone", resource, meta["name"])
                _delete(server, resource, meta)


@dataclass
class NodeLife:
    """Taints nodes without power after `lost_after_s`, and ends pods that may not stay on their nodes."""

    server: ApiServer
    nodes: Mapping[str, KubernetesNode]
    lost_after_s: float
    clock: Callable[[], float] = time.monotonic
    _silent_since: dict[str, float] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)
    _tainted_since: dict[tuple[str, str], float] = field(default_factory=dict)

    def sync(self, nodes: list[Json], pods: list[Json]) -> None:
        """One look at all nodes and pods."""
        for node in self.nodes.values():
            self._look_at(node)
        by_name = {node["metadata"]["name"]: node for node in nodes}
        for pod in pods:
            node_of_pod = by_name.get(pod["spec"].get("nodeName", ""))
            if node_of_pod is not None:
                self._evict(pod, node_of_pod)

    def _look_at(self, node: KubernetesNode) -> None:
        if node.has_power:
            self._silent_since.pop(node.name, None)
            if node.name in self._said:
                node.say_ready(self.server.admin)
                self._said.remove(node.name)
            return
        since = self._silent_since.setdefault(node.name, self.clock())
        if node.name not in self._said and self.clock() >= since + self.lost_after_s:
            _log.info("%s is not ready", node.name)
            node.say_unreachable(self.server.admin)
            self._said.add(node.name)

    def _evict(self, pod: Json, node: Json) -> None:
        name, meta = node["metadata"]["name"], pod["metadata"]
        taints = [taint for taint in node["spec"].get("taints", []) if taint["effect"] == "NoExecute"]
        present = {(meta["uid"], taint["key"]) for taint in taints}
        for key in [key for key in self._tainted_since if key[0] == meta["uid"] and key not in present]:
            del self._tainted_since[key]
        must_go = False
        for taint in taints:
            since = self._tainted_since.setdefault((meta["uid"], taint["key"]), self.clock())
            must_go = must_go or self.clock() >= since + _may_stay_s(pod, taint)
        if name in self._said and (must_go or "deletionTimestamp" in meta):
            _delete(self.server, "pods", meta, 0)  # no kubelet confirms the end; a cloud removes the node then
        elif must_go and "deletionTimestamp" not in meta:
            _delete(self.server, "pods", meta)


def _may_stay_s(pod: Json, taint: Json) -> float:
    """For how long a pod tolerates a taint; 0.0 when it does not, infinity when it always does."""
    tolerations = pod["spec"].get("tolerations", [])
    times = [t.get("tolerationSeconds", float("inf")) for t in tolerations if is_for_taint(t, taint)]
    return float(min(times, default=0.0))


def _delete(server: ApiServer, resource: str, meta: Json, grace_s: int | None = None) -> None:
    options: Json = {"preconditions": {"uid": meta["uid"]}}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    try:
        server.admin.delete(meta["namespace"], resource, meta["name"], options)
    except ApiRefused as refused:
        if refused.code not in (404, 409):  # it is gone, or another one has its name
            raise
