"""One simulated host: an address of the loopback network, directories of its own, and a standalone Worker on it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from mooring.errors import ClusterError
from mooring.testing.probes import free_port, wait_until
from mooring.testing.processes import RunningProcess, is_alive, running_processes
from mooring.testing.servers import ChildProcess, StartedInWith
from mooring.testing.spark_home import spark_environment, spark_home

_EXECUTOR_CLASSES = {
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
}

LOCAL_STORE_VARIABLE = "MOORING_LOCAL_STORE_DIR"
"""The variable with the local store of a simulated host; executors inherit it from their Worker."""


@dataclass(frozen=True)
class ExecutorProcess:
    """A living executor JVM, seen from outside Spark."""

    id: str
    host: str
    application: str
    pid: int

    def kill(self) -> None:
        """Kill -9. Its Worker starts a new one in its place, with a new id, within a second or two."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def decommission(self) -> None:
        """Send SIGPWR, as a decommissioning host does; for applications with `spark.decommission.enabled`.

        The executor ends its tasks and then itself; its Worker starts a new one in its place.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGPWR)

    @property
    def is_alive(self) -> bool:
        """Whether the JVM runs."""
        return is_alive(self.pid)


class HasExecutors(Protocol):
    """A host of a cluster."""

    def executors(self) -> list[ExecutorProcess]:
        """The executors alive on this host."""
        ...


Host = TypeVar("Host", bound=HasExecutors)


class SparkHost:
    """A Worker with its executors. They are one process group, so the host can be paused or lose power as a whole."""

    def __init__(
        self, address: str, directory: Path, master_url: str, cores: int, memory: str, on_host: Sequence[str] = ()
    ) -> None:
        """Nothing is started. `directory` is the host's disk, which stays when the host is killed and started again.

        `on_host` are words before a command that make it run on a host in a network namespace of its own.
        """
        self.address = address
        self.directory = directory
        self.local_store = directory / "mooring"
        web_port = "0" if on_host else str(free_port(address))  # free ports over there can not be seen from here
        command: list[str | Path] = [*on_host, spark_home() / "bin" / "spark-class"]
        command += ["org.apache.spark.deploy.worker.Worker"]
        command += ["--host", address, "--webui-port", web_port, "--cores", str(cores), "--memory", memory]
        command += ["--work-dir", directory / "work", master_url]
        self.worker = ChildProcess(
            f"worker {address}", command, directory / "worker.log", self._environment(), cwd=directory
        )

    def _environment(self) -> dict[str, str]:
        return spark_environment(
            {
                "SPARK_LOCAL_IP": self.address,
                "SPARK_LOCAL_DIRS": str(self.directory / "local"),
                "SPARK_WORKER_DIR": str(self.directory / "work"),
                "SPARK_DAEMON_MEMORY": "256m",
                LOCAL_STORE_VARIABLE: str(self.local_store),
            }
        )

    def start(self) -> None:
        """Start the Worker, which registers with the master a moment later. Missing directories are made."""
        for name in ("local", "work", "mooring"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.worker.start()

    def executors(self) -> list[ExecutorProcess]:
        """The executors alive on this host, in order of their ids."""
        return executors_in_group(self.worker.pid) if self.worker.was_started else []


def executors_in_group(group: int) -> list[ExecutorProcess]:
    """The executors alive in a process group, in order of their applications and ids."""
    found = [_as_executor(process) for process in running_processes() if process.group == group]
    return sorted(filter(None, found), key=lambda executor: (executor.application, int(executor.id)))


def _as_executor(process: RunningProcess) -> ExecutorProcess | None:
    if not _EXECUTOR_CLASSES & set(process.command) or not process.option("--executor-id").isdigit():
        return None
    return ExecutorProcess(
        process.option("--executor-id"), process.option("--hostname"), process.option("--app-id"), process.pid
    )


class ClusterOfHosts(StartedInWith, Generic[Host]):
    """A cluster whose hosts are processes of this machine."""

    hosts: dict[str, Host]
    """By address."""

    def executors(self, application: str | None = None) -> list[ExecutorProcess]:
        """The executor JVMs that are alive, also those that have not registered with their driver yet.

        With `application`, only those of this application.
        """
        everywhere = [executor for host in self.hosts.values() for executor in host.executors()]
        return [executor for executor in everywhere if application in (None, executor.application)]

    def kill_executor(self, host_or_id: str, application: str | None = None) -> ExecutorProcess:
        """Kill -9 of one executor, named by its host or its id. The cluster starts another one.

        `ClusterError` when there is none, or when several match: on one host, or of several applications.
        """
        found = [executor for executor in self.executors(application) if self._has_name(executor, host_or_id)]
        if len(found) != 1:
            raise ClusterError(f"{len(found)} executors match {host_or_id!r}; alive: {self.executors(application)}")
        found[0].kill()
        wait_until(lambda: not found[0].is_alive, f"executor {found[0].id} to be gone", timeout=10)
        return found[0]

    def _has_name(self, executor: ExecutorProcess, host_or_id: str) -> bool:
        return host_or_id in (executor.host, executor.id)

    def host(self, address: str) -> Host:
        """The host at this address. `ClusterError` with the addresses that there are when there is none."""
        if address not in self.hosts:
            raise ClusterError(f"no host {address!r}; there are {', '.join(self.hosts)}")
        return self.hosts[address]
