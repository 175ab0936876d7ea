"""A YARN cluster of several hosts on one machine, for tests that restart applications and kill things.

    with YarnCluster(hosts=6, work_dir=tmp_path) as cluster:
        job = cluster.submit("job.py", ["in", "checkpoint", "out"], conf={"spark.executor.instances": "3"})
        job.wait_for_executors(3)
        cluster.kill_host("127.0.0.3")          # kill -9 of the NodeManager and its containers
        cluster.revive_host("127.0.0.3")        # the same host again, with the same disk
        job.finish()

One ResourceManager on 127.0.0.1, and a NodeManager on each of 127.0.0.2, 127.0.0.3 and so on: Hadoop's own processes,
whose jars are fetched once (see `hadoop_jars`). A NodeManager needs 250 MB and is up after 10 to 20 seconds. There is
no HDFS: the file system is that of the machine. Linux only.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.errors import ClusterError
from mooring.testing.hadoop_jars import hadoop_classpath
from mooring.testing.hosts import ClusterOfHosts
from mooring.testing.maven_jars import java
from mooring.testing.probes import free_port, get_json, wait_until
from mooring.testing.processes import RunningProcess, environment, first_below, running_processes
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_environment, spark_home
from mooring.testing.submission import Submission, submit_command
from mooring.testing.yarn_host import HADOOP_JVM, YarnHost, site_of_cluster, write_conf

_ADDRESS = "127.0.0.1"
_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_ADMIN = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
_APPLICATIONS = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
_MASTERS = {f"org.apache.spark.deploy.yarn.{name}" for name in ("ApplicationMaster", "ExecutorLauncher")}
_GRANT = re.compile(
    r"assignedContainer .*?application attempt=appattempt_(?P<application>\d+_\d+)_\d+ container=(?P<container>\S+)"
    r".*? type=(?P<locality>\w+)"
)


@dataclass(frozen=True)
class Grant:
    """A container that YARN has given. `locality` is NODE_LOCAL, RACK_LOCAL or OFF_SWITCH."""

    container: str
    locality: str


class DriverOnYarn(Submission):
    """An application whose driver runs in a container, in the application master; `process` only waits for its end."""

    def __init__(self, process: ChildProcess, cluster: YarnCluster) -> None:
        """The driver's address is known once YARN has accepted the application."""
        super().__init__(process, "")
        self._cluster = cluster

    @property
    def log(self) -> str:
        """The output of all attempts of the driver so far, then that of `spark-submit`."""
        masters = sorted(self._cluster.work_dir.glob(f"hosts/*/logs/{self.application}/container_*_000001"))
        logs = [log for master in masters for name in ("stderr", "stdout") if (log := master / name).exists()]
        return "".join(log.read_text(errors="replace") for log in [*logs, self.process.log])

    @property
    def application(self) -> str:
        """The application's id. Waits for YARN's answer, which takes some seconds after a start."""
        if not self._application:
            self.wait_until(self._has_been_accepted, "YARN to accept the application")
        return self._application

    def _has_been_accepted(self) -> bool:
        found = re.search(r"Submitted application (application_\d+_\d+)", self.process.log.read_text(errors="replace"))
        if found:
            self._application, self.ui_url = found[1], self._cluster.proxy_url(found[1])
        return bool(found)

    def rest(self, path: str) -> Any:
        """The JSON of Spark's REST interface, through YARN's proxy."""
        assert self.application  # with it comes the address
        return super().rest(path)

    def helper(self, word: str) -> RunningProcess | None:
        """The first process below the driver with this word in its command line; None while there is none."""
        driver = self.driver()
        return first_below(driver.pid, word) if driver else None

    def driver(self) -> RunningProcess | None:
        """The process of the application master; None while there is none."""
        return next(iter(self._cluster.masters(self.application)), None)

    def kill_driver(self) -> None:
        """Kill -9 of the application master. YARN starts another attempt."""
        master = self.driver()
        if master is None:
            raise ClusterError(f"{self.application} has no application master now")
        os.kill(master.pid, signal.SIGKILL)

    def terminate(self, timeout: float = 30.0) -> None:
        """Have YARN end the application: SIGTERM to the driver, and soon kill -9."""
        self._cluster.end(self.application)
        self.process.stop(timeout)

    def kill(self) -> None:
        """As `terminate`, if the application runs."""
        if self.is_running and self._application:
            self._cluster.end(self._application)
        super().kill()


class YarnCluster(ClusterOfHosts[YarnHost]):
    """A ResourceManager, its NodeManagers, and the submitted applications; a context manager."""

    def __init__(
        self,
        hosts: int = 3,
        work_dir: Path | None = None,
        conf: Mapping[str, str] | None = None,
        host_memory_mb: int = 2048,
        host_cores: int = 8,
        executor_memory: str = "768m",
        site: Mapping[str, str] | None = None,
        scheduler: Mapping[str, str] | None = None,
    ) -> None:
        """The servers start with the with-block.

        A host has room for executors in `host_memory_mb`: an executor of 768 MB and its overhead of 384 MB need 1,152.
        An application gets as many executors as there are hosts, unless `spark.executor.instances` says otherwise.
        `conf` holds for every submission, `site` is added to YARN's own settings and `scheduler` to those of its
        CapacityScheduler. Logs and disks are under `work_dir`, or in a temporary directory that is removed at the end.
        """
        if not 1 <= hosts <= 250:
            raise ClusterError(f"hosts={hosts}: from 1 to 250")
        self._classpath = hadoop_classpath()
        self._temporary = work_dir is None
        self.work_dir = Path(work_dir or tempfile.mkdtemp(prefix="mooring-yarn-")).resolve()
        self.conf = dict(conf or {})
        self.executor_memory = executor_memory
        self._scheduler = dict(scheduler or {})
        self._excluded = self.work_dir / "excluded-hosts"
        self._site = {
            **site_of_cluster(_ADDRESS, self.work_dir / "tmp", self._excluded, host_memory_mb, host_cores),
            **(site or {}),
        }
        self._web = self._site["yarn.resourcemanager.webapp.address"]
        self._client_conf = self.work_dir / "client-conf"
        directory = self.work_dir / "resource-manager"
        self.resource_manager = ChildProcess(
            "ResourceManager",
            [java(), *HADOOP_JVM, "-cp", f"{directory / 'conf'}:{self._classpath}", _RESOURCE_MANAGER],
            directory / "resource-manager.log",
            spark_environment({}),
            cwd=directory,
        )
        self.hosts = {
            address: YarnHost(address, self.work_dir / "hosts" / address, self._site, self._classpath)
            for address in (f"127.0.0.{number}" for number in range(2, 2 + hosts))
        }
        self._submissions: list[Submission] = []

    def start(self, timeout: float = 120.0) -> None:
        """Start the ResourceManager and all hosts; return when all hosts are RUNNING."""
        conf = self.work_dir / "resource-manager" / "conf"
        for directory in (conf, self._client_conf):
            write_conf(directory, self._site, self._scheduler)
        self._excluded.write_text("")
        self.resource_manager.start(ready=lambda: bool(self._rest("info")), timeout=timeout)
        started_ms = time.time() * 1000
        for host in self.hosts.values():
            host.start()
        self._wait_for_hosts(self.hosts, started_ms, timeout)

    def stop(self) -> None:
        """End all applications, hosts and the ResourceManager; remove the directory if it was a temporary one."""
        for submission in self._submissions:
            submission.process.kill()
        for host in self.hosts.values():  # with the drivers that run in containers
            host.node_manager.kill()
        self.resource_manager.kill()
        if self._temporary:
            shutil.rmtree(self.work_dir, ignore_errors=True)

    def nodes(self) -> dict[str, str]:
        """Host to state: RUNNING, LOST, DECOMMISSIONED … `OSError` while the ResourceManager does not answer."""
        return {node["nodeHostName"]: node["state"] for node in self._nodes()}

    def _nodes(self) -> list[dict[str, Any]]:
        states = ",".join(("NEW", "RUNNING", "UNHEALTHY", "DECOMMISSIONING", "DECOMMISSIONED", "LOST", "SHUTDOWN"))
        return list((self._rest(f"nodes?states={states}")["nodes"] or {}).get("node", []))

    def kill_host(self, host: str) -> None:
        """Kill -9 of the NodeManager and of its containers at once, as when the host loses power. Its disk stays."""
        self.host(host).node_manager.kill()

    def revive_host(self, host: str, timeout: float = 90.0) -> None:
        """Start the NodeManager again on the same disk, and wait until YARN has it. It is not excluded any more."""
        excluded = self._excluded.read_text().split()
        if self.host(host).address in excluded:
            self._exclude([other for other in excluded if other != host], timeout)
        started_ms = time.time() * 1000
        self.host(host).start()
        self._wait_for_hosts([host], started_ms, timeout)

    def wait_until_lost(self, host: str, timeout: float = 90.0) -> None:
        """Wait until YARN counts a killed host as lost, which takes 20 seconds. Until then YARN may choose the host."""
        wait_until(lambda: self.nodes()[host] == "LOST", f"YARN to miss {host}", timeout)

    def decommission(self, host: str, graceful_s: int | None = None, timeout: float = 60.0) -> None:
        """Exclude a host from YARN. With `graceful_s`, its containers may go on for so long.

        The NodeManager ends, and the host can come back by `revive_host`.
        """
        graceful = [] if graceful_s is None else ["-g", str(graceful_s), "-server"]
        self._exclude([*self._excluded.read_text().split(), self.host(host).address], timeout, *graceful)

    def resize_host(self, host: str, memory_mb: int, timeout: float = 60.0) -> None:
        """Have YARN count with so much memory on a host. Containers go on, also where they need more."""
        cores = self._site["yarn.nodemanager.resource.cpu-vcores"]
        self._run(_ADMIN, "-updateNodeResource", self.host(host).node, str(memory_mb), cores, timeout=timeout)

    def _exclude(self, hosts: Sequence[str], timeout: float, *graceful: str) -> None:
        self._excluded.write_text("".join(f"{host}\n" for host in hosts))
        self._run(_ADMIN, "-refreshNodes", *graceful, timeout=timeout)

    def applications(self) -> list[str]:
        """The applications that were submitted and have not ended. `OSError` while the ResourceManager is silent."""
        found = self._rest("apps?states=NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING")["apps"] or {}
        return sorted(application["id"] for application in found.get("app", []))

    def grants(self, application: str) -> list[Grant]:
        """The containers that YARN has given to an application so far, with that of the application master."""
        number = application.removeprefix("application_")
        found = _GRANT.finditer(self.resource_manager.log.read_text(errors="replace"))
        return [Grant(grant["container"], grant["locality"]) for grant in found if grant["application"] == number]

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
        runs in a container where `conf` has `spark.submit.deployMode=cluster`.
        """
        directory = self.work_dir / "submissions" / str(len(self._submissions))
        directory.mkdir(parents=True)
        settings = {**self._own_conf(directory), **self.conf, **(conf or {})}
        in_container = settings.get("spark.submit.deployMode") == "cluster"
        ui_port = 0 if in_container else free_port(_ADDRESS)
        settings["spark.ui.port"] = str(ui_port)
        if not in_container:
            settings["spark.driver.host"] = _ADDRESS
        command = submit_command("yarn", job, args, settings, jars, main_class, driver_memory)
        variables = {
            "SPARK_LOCAL_IP": _ADDRESS,
            "SPARK_LOCAL_DIRS": str(directory),
            "HADOOP_CONF_DIR": str(self._client_conf),
            **(env or {}),
        }
        name = f"submission {len(self._submissions)} ({Path(job).name})"
        process = ChildProcess(name, command, directory / "driver.log", spark_environment(variables), cwd=directory)
        client = Submission(process, f"http://{_ADDRESS}:{ui_port}")
        submission = DriverOnYarn(process, self) if in_container else client
        self._submissions.append(submission)
        process.start()
        return submission

    def _own_conf(self, directory: Path) -> dict[str, str]:
        return {
            "spark.executor.instances": str(len(self.hosts)),
            "spark.executor.memory": self.executor_memory,
            "spark.yarn.am.memory": "256m",
            "spark.yarn.jars": f"local:{spark_home() / 'jars'}/*",
            "spark.yarn.stagingDir": (directory / "staging").as_uri(),
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }

    def end(self, application: str, timeout: float = 60.0) -> None:
        """Have YARN end an application. Does nothing when it has ended."""
        self._run(_APPLICATIONS, "application", "-kill", application, timeout=timeout)

    def proxy_url(self, application: str) -> str:
        """The address of a driver's pages and REST interface, through YARN's proxy."""
        return f"http://{self._web}/proxy/{application}"

    def masters(self, application: str) -> list[RunningProcess]:
        """The application master's JVM, while there is one. In cluster mode that is the driver."""
        groups = {host.node_manager.pid for host in self.hosts.values() if host.node_manager.was_started}
        return [
            process
            for process in running_processes()
            if process.group in groups
            and _MASTERS & set(process.command)
            and _application_of(process.pid) == application
        ]

    def _run(self, tool: str, *words: str, timeout: float) -> None:
        command = [java(), *HADOOP_JVM, "-cp", f"{self._client_conf}:{self._classpath}", tool, *words]
        process = ChildProcess(tool.rpartition(".")[2], command, self.work_dir / "commands.log", spark_environment({}))
        process.start()
        try:
            process.finish(timeout)
        finally:
            process.kill()

    def _rest(self, path: str) -> Any:
        return get_json(f"http://{self._web}/ws/v1/cluster/{path}")

    def _wait_for_hosts(self, hosts: Collection[str], started_ms: float, timeout: float) -> None:
        """Wait until hosts that were started at this time are RUNNING. A host that was killed is so for a while too."""

        def are_running() -> bool:
            listed = {node["nodeHostName"]: node for node in self._nodes()}
            found = [listed.get(host, {}) for host in hosts]
            return all(n.get("state") == "RUNNING" and n["lastHealthUpdate"] >= started_ms for n in found)

        def story() -> str:
            return "\n\n".join(self.hosts[host].node_manager.story() for host in hosts)

        wait_until(are_running, f"hosts {', '.join(sorted(hosts))} to be RUNNING", timeout, story=story)


def _application_of(pid: int) -> str:
    """The id of the application whose container a process is; empty when it is gone."""
    try:
        container = environment(pid).get("CONTAINER_ID", "")
    except OSError:
        return ""
    found = re.match(r"container_(?:e\d+_)?(\d+_\d+)_", container)
    return f"application_{found[1]}" if found else ""
