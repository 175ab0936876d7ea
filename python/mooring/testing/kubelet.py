"""A stand-in for the kubelets of a cluster: it runs pods as processes of this machine. It is no kubelet.

As a kubelet does, it makes the volumes, the environment and the command of a pod, starts it, and reports how it runs
and how it ended. It ends a pod that is deleted: the preStop hook of Spark's executors, SIGTERM, the pod's time of
grace, kill -9. Each pod has a mount namespace with its volumes, a host name, an address of its own on the loopback
network, and an /etc/hosts with the names of services, as there is no DNS.

It has no images: every container has this machine's files and the installed Spark. It has no limits on cpu or memory,
no network or process namespaces, no network policies, no probes and no restarts. A pod that asks for something that is
not known here is refused by the scheduler's stand-in: it stays Pending, with a condition that says what.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from mooring.testing.kubernetes_api import SERVICE_NAMES, ApiRefused, ApiServer
from mooring.testing.kubernetes_node import KubernetesNode
from mooring.testing.kubernetes_pod_spec import container_command, container_environment, environment_of_image
from mooring.testing.kubernetes_scheduling import has_ended
from mooring.testing.kubernetes_volumes import Mount, NotYet, Sources, data_of, mounts_of
from mooring.testing.pod_process import PodProcess, container_status

Json = dict[str, Any]

_log = logging.getLogger(__name__)
_GRACE_OF_REMOVED_S = 1.0  # for a pod whose object was removed by force


class Kubelet:
    """Runs the pods that are bound to nodes. `sync` is called again and again by one thread."""

    def __init__(
        self,
        api: ApiServer,
        work_dir: Path,
        nodes: Mapping[str, KubernetesNode],
        claim_directory: Callable[[Json, str], Path],
        addresses: Iterator[str],
    ) -> None:
        """`claim_directory` gives the directory of a pod's claim, or raises `NotYet`; `addresses` are for pods."""
        self._server = api
        self._api = api.admin
        self._work_dir = work_dir
        self._nodes = nodes
        self._claim_directory = claim_directory
        self._addresses = addresses
        self._image = environment_of_image()
        self._waiting: dict[str, str] = {}  # pod's uid to what was told last
        self._names = ""
        self._refused: Container[str] = ()

    def sync(self, pods: list[Json], services: list[Json], refused: Container[str]) -> None:
        """One look at every pod that is on a node with power. Pods with these uids are not started."""
        self._refused = refused
        bound = {pod["metadata"]["uid"]: pod for pod in pods if pod["spec"].get("nodeName") in self._nodes}
        self._write_names(pods, services)
        known = {container.uid: container for node in self._nodes.values() for container in node.containers}
        for uid, container in known.items():
            if uid not in bound:
                self._end_removed(container)
        for uid, pod in bound.items():
            node = self._nodes[pod["spec"]["nodeName"]]
            if node.has_power:
                try:
                    self._sync_pod(pod, known.get(uid), node)
                except ApiRefused as refused:
                    if refused.code not in (404, 409):  # the pod was changed or removed since it was listed
                        raise

    def container(self, uid: str) -> PodProcess | None:
        """The container of a pod; None before its start."""
        everywhere = (container for node in self._nodes.values() for container in node.containers)
        return next((container for container in everywhere if container.uid == uid), None)

    def _sync_pod(self, pod: Json, container: PodProcess | None, node: KubernetesNode) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self._end(pod, container, node)
        elif container is None and not has_ended(pod) and pod["metadata"]["uid"] not in self._refused:
            self._start_if_possible(pod, node)
        elif container is not None and not container.runs:
            self._report_end(container, node)

    def _start_if_possible(self, pod: Json, node: KubernetesNode) -> None:
        try:
            self._start(pod, node)
        except NotYet as reason:
            if self._waiting.get(pod["metadata"]["uid"]) != str(reason):
                self._waiting[pod["metadata"]["uid"]] = str(reason)
                _log.info("pod %s waits: %s", pod["metadata"]["name"], reason)
                state = {"waiting": {"reason": "ContainerCreating", "message": str(reason)}}
                statuses = [container_status(pod["spec"]["containers"][0], state)]
                self._patch_status(pod["metadata"], {"containerStatuses": statuses})
                record_event(self._server, pod, "FailedMount", str(reason))

    def _start(self, pod: Json, node: KubernetesNode) -> None:
        meta = pod["metadata"]
        directory = self._work_dir / "pods" / f"{meta['name']}-{meta['uid'][:8]}"
        directory.mkdir(parents=True, exist_ok=True)
        address = next(self._addresses)
        with_addresses = self._with_addresses(pod, address, node)
        mounts = mounts_of(with_addresses, self._sources(with_addresses, directory, node))
        environment = container_environment(
            with_addresses,
            self._image_on(address),
            lambda kind, name, key: self._value_of_key(meta["namespace"], kind, name, key),
        )
        command = container_command(pod, environment, _is_empty(environment.get("SPARK_CONF_DIR", ""), mounts))
        container = PodProcess(pod, directory, address)
        container.hosts_file.write_text(self._hosts_of(container))
        with node.lock:
            if not node.has_power:
                return
            container.start(command, environment, mounts)
            node.add(container)
        _log.info("pod %s runs on %s as %s", meta["name"], node.name, address)
        self._waiting.pop(meta["uid"], None)
        self._patch_status(meta, container.status(node.address))

    @staticmethod
    def _with_addresses(pod: Json, address: str, node: KubernetesNode) -> Json:
        own = {"podIP": address, "podIPs": [{"ip": address}], "hostIP": node.address, "hostIPs": [{"ip": node.address}]}
        return {**pod, "status": {**pod.get("status", {}), **own}}

    def _image_on(self, address: str) -> dict[str, str]:
        """The environment without the pod's own variables. SPARK_LOCAL_IP stands in for a network namespace."""
        service = {"KUBERNETES_SERVICE_HOST": self._server.host, "KUBERNETES_SERVICE_PORT": str(self._server.port)}
        return {**self._image, **service, "SPARK_LOCAL_IP": address}

    def _sources(self, pod: Json, directory: Path, node: KubernetesNode) -> Sources:
        namespace, account = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "default")
        return Sources(
            pod_directory=directory,
            node_disk=node.disk,
            claim=lambda name: self._claim_directory(pod, name),
            data=lambda kind, name: self._data(namespace, kind, name),
            account_token=lambda: self._server.account_token(namespace, account),
        )

    def _data(self, namespace: str, kind: str, name: str) -> dict[str, bytes]:
        try:
            found = self._api.get(namespace, kind, name)
        except ApiRefused as refused:
            if refused.code == 404:
                raise NotYet(f'{kind} "{name}" not found') from None
            raise
        return data_of({"kind": "Secret" if kind == "secrets" else "ConfigMap", **found})

    def _value_of_key(self, namespace: str, kind: str, name: str, key: str) -> str:
        found = self._data(namespace, kind, name)
        if key not in found:
            raise NotYet(f'{kind} "{name}" has no key "{key}"')
        return found[key].decode()

    def _report_end(self, container: PodProcess, node: KubernetesNode) -> None:
        if not container.reported_end:
            container.kill()  # what is left of its group
            _log.info("pod %s ended with %s", container.name, container.exit_code)
            meta = {"namespace": container.namespace, "name": container.name, "uid": container.uid}
            self._patch_status(meta, container.status(node.address))
            container.reported_end = True

    def _end(self, pod: Json, container: PodProcess | None, node: KubernetesNode) -> None:
        if container is not None and container.runs:
            container.end(float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
        if container is not None and not container.runs:
            self._report_end(container, node)
        if container is None or not container.runs:
            meta = pod["metadata"]
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            self._api.delete(meta["namespace"], "pods", meta["name"], options)

    def _end_removed(self, container: PodProcess) -> None:
        """End a container whose pod is gone, and remove the pod's directories. Its log stays."""
        if container.runs:
            container.end(_GRACE_OF_REMOVED_S)
        if not container.runs:
            container.kill()
            own = [container.directory / name for name in ("volumes", "work", "root")]
            for directory in own:  # a Python worker is not in the group, and may write for a moment more: then again
                shutil.rmtree(directory, ignore_errors=True)
            if not any(directory.exists() for directory in own):
                self._nodes[container.node].forget(container)
                self._waiting.pop(container.uid, None)

    def _patch_status(self, meta: Json, status: Json) -> None:
        change = {"metadata": {"uid": meta["uid"]}, "status": status}
        self._api.patch(meta["namespace"], "pods", meta["name"], change, "status")

    def _write_names(self, pods: list[Json], services: list[Json]) -> None:
        """Give every pod the names of services: there is no DNS."""
        names = "".join(_lines_of_service(service, pods) for service in services)
        if names == self._names:
            return
        self._names = names
        for node in self._nodes.values():
            for container in node.containers:
                if container.runs:
                    _write_in_place(container.hosts_file, self._hosts_of(container))

    def _hosts_of(self, container: PodProcess) -> str:
        own = f"127.0.0.1 localhost\n{container.address} {container.hostname}\n"
        return f"{own}{self._server.host} {' '.join(SERVICE_NAMES)}\n{self._names}"


def record_event(server: ApiServer, pod: Json, reason: str, message: str) -> None:
    """A warning event about a pod, as `kubectl describe` shows it."""
    meta = pod["metadata"]
    about = {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{meta['name']}."},
        **{"involvedObject": about, "reason": reason, "message": message, "type": "Warning"},
    }
    server.admin.create(meta["namespace"], "events", event)


def _lines_of_service(service: Json, pods: list[Json]) -> str:
    meta, selector = service["metadata"], service["spec"].get("selector") or {}
    name, namespace = meta["name"], meta["namespace"]
    names = f"{name}.{namespace}.svc {name}.{namespace}.svc.cluster.local {name}.{namespace} {name}"
    meant = [
        pod["status"]["podIP"]
        for pod in pods
        if selector
        and pod["metadata"]["namespace"] == namespace
        and selector.items() <= (pod["metadata"].get("labels") or {}).items()
        and pod.get("status", {}).get("podIP")
        and not has_ended(pod)
    ]
    return "".join(f"{address} {names}\n" for address in meant)


def _write_in_place(file: Path, text: str) -> None:
    """Replace a file's content by one write, and keep the file itself: containers have it as a bind mount."""
    with file.open("r+b") as opened:
        content = text.encode()
        os.pwrite(opened.fileno(), content, 0)
        os.ftruncate(opened.fileno(), len(content))


def _is_empty(target: str, mounts: list[Mount]) -> bool:
    """Whether a mount for this directory has no files; also when there is no such mount and no such directory."""
    source = next((Path(mount.source) for mount in mounts if mount.target == target), Path(target))
    return not target or not source.is_dir() or not any(source.iterdir())
