"""A Spark standalone cluster of several hosts on one machine, for tests that kill things.

    with SparkCluster(hosts=3, work_dir=tmp_path) as cluster:
        job = cluster.submit("job.py", args=["in", "checkpoint", "out"], conf={"spark.sql.shuffle.partitions": "4"})
        job.wait_for_executors(3)
        cluster.kill_executor("127.0.0.3")      # kill -9; the Worker starts another one
        cluster.kill_host("127.0.0.4")          # the Worker and its executors at once
        cluster.revive_host("127.0.0.4")        # the same host again, with the same disk
        job.finish()

The hosts are 127.0.0.2, 127.0.0.3 and so on; master and drivers are on 127.0.0.1. Linux only: other systems have only
127.0.0.1, and no /proc. The module `network` has hosts whose link can be cut.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.errors import ClusterError
from mooring.testing.hosts import ClusterOfHosts, SparkHost
from mooring.testing.network import HostNetwork
from mooring.testing.probes import free_port, get_json, wait_until
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_environment, spark_home
from mooring.testing.submission import Submission, submit_command


class SparkCluster(ClusterOfHosts[SparkHost]):
    """One master, a Worker for each host, and the submitted applications; a context manager."""

    def __init__(
        self,
        hosts: int = 3,
        cores_per_host: int = 1,
        executor_memory: str = "1g",
        work_dir: Path | None = None,
        conf: Mapping[str, str] | None = None,
        host_memory: str = "8g",
        network: HostNetwork | None = None,
    ) -> None:
        """The servers start with the with-block.

        By default an application gets one executor on each host, with all its cores. For two on each host:
        `cores_per_host=2, conf={"spark.executor.cores": "1"}`. `conf` holds for every submission. `host_memory` is
        what the Worker can give to executors, not what it uses. Logs and disks are under `work_dir`, or in a temporary
        directory that is removed at the end. With a `network`, the cluster has its hosts, and master and drivers are on
        its gateway; the network must be up from this call to the end.
        """
        if not sys.platform.startswith("linux"):
            raise ClusterError(f"several hosts on one machine need Linux, this is {sys.platform}")
        if not 1 <= hosts <= 250:
            raise ClusterError(f"hosts={hosts}: from 1 to 250")
        self._temporary = work_dir is None
        self.work_dir = Path(work_dir or tempfile.mkdtemp(prefix="mooring-cluster-")).resolve()
        self.executor_memory = executor_memory
        self.conf = dict(conf or {})
        self.address = network.gateway if network else "127.0.0.1"
        port, self._web_port = free_port(self.address), free_port(self.address)
        self.master_url = f"spark://{self.address}:{port}"
        self.master = self._new_master(port)
        self.hosts = {
            address: SparkHost(
                address,
                self.work_dir / "hosts" / address,
                self.master_url,
                cores_per_host,
                host_memory,
                on_host=network.on(address) if network else (),
            )
            for address in (network.hosts if network else [f"127.0.0.{number}" for number in range(2, 2 + hosts)])
        }
        self._submissions: list[Submission] = []

    def _new_master(self, port: int) -> ChildProcess:
        command: list[str | Path] = [spark_home() / "bin" / "spark-class", "org.apache.spark.deploy.master.Master"]
        command += ["--host", self.address, "--port", str(port), "--webui-port", str(self._web_port)]
        directory = self.work_dir / "master"
        ours = {"SPARK_LOCAL_IP": self.address, "SPARK_DAEMON_MEMORY": "256m"}
        return ChildProcess("master", command, directory / "master.log", spark_environment(ours), cwd=directory)

    def start(self, timeout: float = 90.0) -> None:
        """Start the master and all hosts; return when the master has all of them."""
        (self.work_dir / "master").mkdir(parents=True, exist_ok=True)
        self.master.start(ready=lambda: bool(self.status()["status"] == "ALIVE"), timeout=timeout)
        for host in self.hosts.values():
            host.start()
        self._wait_for_workers(set(self.hosts), set(), timeout)

    def stop(self) -> None:
        """End all applications, hosts and the master; remove the directory if it was a temporary one."""
        for submission in self._submissions:
            submission.kill()
        for host in self.hosts.values():
            host.worker.kill()
        self.master.kill()
        if self._temporary:
            shutil.rmtree(self.work_dir, ignore_errors=True)

    def status(self) -> Any:
        """The master's JSON of itself, its workers and its applications. `OSError` while it does not answer."""
        return get_json(f"http://{self.address}:{self._web_port}/json/")

    def living_workers(self) -> dict[str, str]:
        """The Workers that the master counts as alive: id to host. A host that comes back has a Worker of a new id."""
        return {worker["id"]: worker["host"] for worker in self.status()["workers"] if worker["state"] == "ALIVE"}

    def stop_worker(self, host: str) -> None:
        """SIGTERM to the Worker, which ends its executors first, as when a host is taken out of service."""
        self.host(host).worker.stop()

    def kill_worker(self, host: str) -> None:
        """Kill -9 of the Worker alone. Its executors lose the connection and then end by themselves."""
        self.host(host).worker.kill_leader()

    def start_worker(self, host: str, timeout: float = 60.0) -> None:
        """Start the Worker again on the same disk, and wait until the master has it. The Worker must not run."""
        returning = self.host(host)
        known = set(self.living_workers())
        returning.start()
        self._wait_for_workers({host}, known, timeout)

    def kill_host(self, host: str) -> None:
        """Kill -9 of the Worker and of all its executors at once, as when the host loses power. Its disk stays."""
        self.host(host).worker.kill()

    def revive_host(self, host: str, timeout: float = 60.0) -> None:
        """Start a new Worker on the same disk, as when the host has power again. Applications get executors there."""
        self.start_worker(host, timeout)

    def pause_host(self, host: str) -> None:
        """SIGSTOP to the Worker and its executors: they do nothing, and no connection is closed."""
        self.host(host).worker.pause()

    def resume_host(self, host: str) -> None:
        """SIGCONT to the Worker and its executors."""
        self.host(host).worker.resume()

    def submit(
        self,
        job: str | Path,
        args: Sequence[str | Path] = (),
        conf: Mapping[str, str] | None = None,
        jars: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        main_class: str | None = None,
        wait: bool = False,
        driver_memory: str = "1g",
    ) -> Submission:
        """spark-submit a job (a Python file, or a jar with its `main_class`) in client mode.

        Returns when the driver is started. With `wait`, returns when the application has succeeded; `ClusterError` when
        it fails. `env` adds to the driver's environment. The job runs in its own directory,
        `<work_dir>/submissions/<n>`, where `driver.log` has all output.
        """
        number = len(self._submissions)
        directory = self.work_dir / "submissions" / str(number)
        directory.mkdir(parents=True)
        ui_port = free_port(self.address)
        settings = {**self._own_conf(ui_port, directory), **self.conf, **(conf or {})}
        command = submit_command(self.master_url, job, args, settings, jars, main_class, driver_memory)
        ours = {"SPARK_LOCAL_IP": self.address, "SPARK_LOCAL_DIRS": str(directory)}
        name = f"submission {number} ({Path(job).name})"
        process = ChildProcess(
            name, command, directory / "driver.log", spark_environment({**ours, **(env or {})}), cwd=directory
        )
        submission = Submission(process, f"http://{self.address}:{ui_port}")
        self._submissions.append(submission)
        process.start()
        if wait:
            submission.finish()
        return submission

    def _own_conf(self, ui_port: int, directory: Path) -> dict[str, str]:
        return {
            "spark.driver.host": self.address,
            "spark.executor.memory": self.executor_memory,
            "spark.ui.port": str(ui_port),
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }

    def _wait_for_workers(self, hosts: set[str], known: set[str], timeout: float) -> None:
        def have_come() -> bool:
            return hosts <= {host for worker, host in self.living_workers().items() if worker not in known}

        def story() -> str:
            return "\n\n".join(self.hosts[host].worker.story() for host in sorted(hosts))

        wait_until(have_come, f"workers on {', '.join(sorted(hosts))}", timeout, story=story)
