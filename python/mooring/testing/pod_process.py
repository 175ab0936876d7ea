"""The container of one pod, as a process of this machine: its start, its end, and its state in the words of the API."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mooring.errors import ClusterError
from mooring.testing import pod_container
from mooring.testing.kubernetes_volumes import Mount
from mooring.testing.servers import ChildProcess

Json = dict[str, Any]

_HOOK_SECONDS = 30.0  # Spark's decom.sh waits so long after its signal
_LEAST_GRACE_SECONDS = 2.0  # what a hook that took all the time leaves to the process, as with a kubelet


class PodProcess:
    """A container that was started. All its processes are one group, and end with its first one."""

    def __init__(self, pod: Json, directory: Path, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is started. `directory` is the pod's own on this machine."""
        meta, spec = pod["metadata"], pod["spec"]
        self.name: str = meta["name"]
        self.namespace: str = meta["namespace"]
        self.uid: str = meta["uid"]
        self.node: str = spec["nodeName"]
        self.address = address
        self.hostname = str(spec.get("hostname") or meta["name"])[:63]
        self.directory = directory
        self.hosts_file = directory / "hosts"
        self.reported_end = False
        self._container: Json = spec["containers"][0]
        self._started_at = now_text()
        self._clock = clock
        self._hook_ends: float | None = None
        self._dies: float | None = None
        self._was_told = False
        self.process: ChildProcess | None = None

    def start(self, command: Sequence[str], environment: Mapping[str, str], mounts: Sequence[Mount]) -> None:
        """Start the process in its mount namespace. Its output is in `log`, in the pod's directory."""
        root, work = self.directory / "root", self.directory / "work"
        for needed in (root, work):
            needed.mkdir(parents=True, exist_ok=True)
        everything = [*mounts, Mount(str(self.hosts_file), "/etc/hosts", False)]
        spec = {
            "root": str(root),
            "mounts": [asdict(mount) for mount in everything],
            "hostname": self.hostname,
            "cwd": self._container.get("workingDir") or str(work),
            "command": list(command),
        }
        file = self.directory / "container.json"
        file.write_text(json.dumps(spec, indent=1))
        self.process = ChildProcess(
            f"pod {self.name}",
            [sys.executable, "-I", "-S", pod_container.__file__, file],
            self.directory / "log",
            environment,
            cwd=work,
        )
        self.process.start()

    @property
    def runs(self) -> bool:
        """Whether the container's first process is alive."""
        return self.process is not None and self.process.is_running

    def end(self, grace_s: float) -> None:
        """Go on with an end: a preStop hook, SIGTERM, and kill -9 after `grace_s`. Call it until it `runs` no more.

        A later call with a shorter time makes the end come sooner.
        """
        now = self._clock()
        self._dies = min(now + grace_s, now + grace_s if self._dies is None else self._dies)
        if self._hook_ends is None:
            self._hook_ends = now
            if "preStop" in self._container.get("lifecycle", {}):
                self._hook_ends = now + _HOOK_SECONDS
                self._signal(signal.SIGPWR)
        if not self._was_told and now >= min(self._hook_ends, self._dies):
            self._was_told = True
            self._signal(signal.SIGTERM)
            self._dies = max(self._dies, now + min(grace_s, _LEAST_GRACE_SECONDS))
        if now >= self._dies:
            self.kill()

    def kill(self) -> None:
        """Kill -9 of all its processes."""
        if self.process is not None:
            self.process.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.is_running:
            with contextlib.suppress(ProcessLookupError):  # it has ended this moment
                os.kill(self.process.pid, number)

    def status(self, host_address: str) -> Json:
        """The status of the pod, for the API."""
        phase, runs = "Running", True
        state: Json = {"running": {"startedAt": self._started_at}}
        if not self.runs:
            code = self.exit_code
            reason = "Error" if code else "Completed"
            times = {"startedAt": self._started_at, "finishedAt": now_text()}
            phase, runs = "Failed" if code else "Succeeded", False
            state = {"terminated": {"exitCode": code, "reason": reason, **times}}
        return {
            "phase": phase,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "hostIP": host_address,
            "hostIPs": [{"ip": host_address}],
            "startTime": self._started_at,
            "conditions": [
                *(condition(kind, True) for kind in ("PodScheduled", "Initialized")),
                *(condition(kind, runs) for kind in ("Ready", "ContainersReady")),
            ],
            "containerStatuses": [container_status(self._container, state, ready=runs)],
        }

    @property
    def exit_code(self) -> int:
        """As a container runtime counts: 137 for a process that kill -9 has ended."""
        code = None if self.process is None else self.process.exit_code
        assert code is not None, f"{self.name} has not ended"
        return 128 - code if code < 0 else code


def check_namespaces(directory: Path) -> None:
    """`ClusterError` when this machine does not let pods have mount namespaces. Makes the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    target = {"source": str(directory), "target": "/mooring/probe", "read_only": True}
    of_pod = {"hostname": "probe", "cwd": "/mooring/probe", "command": ["true"]}
    (directory / "container.json").write_text(json.dumps({"root": str(directory), "mounts": [target], **of_pod}))
    command = [sys.executable, "-I", "-S", pod_container.__file__, str(directory / "container.json")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise ClusterError(f"pods need mount namespaces, as root on Linux: {ended.stderr.strip()}")


def container_status(container: Json, state: Json, ready: bool = False) -> Json:
    """One of a pod's `containerStatuses`."""
    names = {"name": container["name"], "image": container["image"], "imageID": ""}
    return {**names, "ready": ready, "started": ready, "restartCount": 0, "state": state}


def condition(kind: str, holds: bool, reason: str = "", message: str = "") -> Json:
    """One of the conditions of a pod or of a node."""
    told = {"reason": reason, "message": message} if reason else {}
    return {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": now_text(), **told}


def now_text() -> str:
    """The time now, as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
