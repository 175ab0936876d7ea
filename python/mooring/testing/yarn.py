"""A YARN cluster of several hosts on one machine, for tests that restart applications and kill things.

    with YarnCluster(hosts=6, work_dir=tmp_path) as cluster:
        job = cluster.submit("job.py", ["in", "checkpoint", "out"], conf={"spark.executor.instances": "3"})
        job.wait_for_executors(3)
        cluster.kill_host("127.0.0.3")          # kill -9 of the NodeManager and its containers
        cluster.revive_host("127.0.0.3")        # the same host again, with the same disk
        job.finish()

One ResourceManager on 127.0.0.1, and a NodeManager on each of 127.0.0.2, 127.0.0.3 and so on: Hadoop's own processes,
whose jars are fetched once (see `hadoop_jars`). A NodeManager needs 250 MB and is up after some 20 seconds. There is no
HDFS: the file system is that of the machine. Linux only.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from mooring.errors import ClusterError
from mooring.testing.hadoop_jars import hadoop_classpath
from mooring.testing.hosts import LOCAL_STORE_VARIABLE, ExecutorProcess, executors_in_group
from mooring.testing.maven_jars import java
from mooring.testing.probes import free_port, get_json, wait_until
from mooring.testing.processes import RunningProcess, environment, running_processes
from mooring.testing.servers import ChildProcess, StartedInWith
from mooring.testing.spark_home import SHORT_LIVED_JVM, spark_environment, spark_home
from mooring.testing.submission import Submission, submit_command

_ADDRESS = "127.0.0.1"
_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_ADMIN = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
_APPLICATIONS = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
_MASTERS = {f"org.apache.spark.deploy.yarn.{name}" for name in ("ApplicationMaster", "ExecutorLauncher")}
_JVM = ("-Xmx256m", *SHORT_LIVED_JVM.split(), "--add-opens", "java.base/java.lang=ALL-UNNAMED")
_LOGGING = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c{1}: %m%n
"""
# Containers inherit these from their NodeManager.
_INHERITED = ("JAVA_HOME", "PATH", "HADOOP_CONF_DIR", "SPARK_LOCAL_IP", LOCAL_STORE_VARIABLE)

_GRANT = re.compile(
    r"assignedContainer .*?application attempt=appattempt_(?P<application>\d+_\d+)_\d+ container=(?P<container>\S+)"
    r".*? type=(?P<locality>\w+)"
)

KEEPS_LOCALITY: Mapping[str, str] = {
    "yarn.scheduler.capacity.node-locality-delay": "40",
    "yarn.scheduler.capacity.rack-locality-additional-delay": "40",
}
"""Settings of the scheduler with which a request for a host waits for that host, if it has room."""


@dataclass(frozen=True)
class Grant:
    """A container that YARN has given. `locality` is NODE_LOCAL, RACK_LOCAL or OFF_SWITCH."""

    container: str
    locality: str


class YarnHost:
    """A NodeManager with its containers. They are one process group, so the host can lose power as a whole."""

    def __init__(self, address: str, directory: Path, site: Mapping[str, str], classpath: str) -> None:
        """Nothing is started. `directory` is the host's disk, which stays when the host is killed and started again."""
        self.address = address
        self.directory = directory
        self.local_store = directory / "mooring"
        self._own = {
            "yarn.nodemanager.hostname": address,
            "yarn.nodemanager.bind-host": address,
            **{
                f"yarn.nodemanager.{name}address": f"{address}:{free_port(address)}"
                for name in ("", "localizer.", "webapp.")
            },
            "yarn.nodemanager.local-dirs": str(directory / "local"),
            "yarn.nodemanager.log-dirs": str(directory / "logs"),
        }
        self._site = site
        self.node_manager = ChildProcess(
            f"NodeManager {address}",
            [java(), *_JVM, "-cp", f"{directory / 'conf'}:{classpath}", _NODE_MANAGER],
            directory / "node-manager.log",
            self._environment(),
            cwd=directory,
        )

    def _environment(self) -> dict[str, str]:
        inherited = spark_environment({"SPARK_LOCAL_IP": self.address, LOCAL_STORE_VARIABLE: str(self.local_store)})
        # A NodeManager that finds no `setsid` keeps its containers in its own process group.
        return {**inherited, "PATH": f"{self.directory / 'bin'}:{inherited.get('PATH', '')}"}

    def start(self) -> None:
        """Start the NodeManager, which registers some seconds later. Missing directories are made."""
        for name in ("local", "logs", "mooring", "bin"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        setsid = self.directory / "bin" / "setsid"
        setsid.write_text("#!/bin/sh\nexit 1\n")
        setsid.chmod(0o755)
        _write_conf(self.directory / "conf", {**self._site, **self._own})
        self.node_manager.start()

    def executors(self) -> list[ExecutorProcess]:
        """The executors alive on this host, in order of their ids."""
        return executors_in_group(self.node_manager.pid) if self.node_manager.was_started else []


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
        self._application = found[1] if found else ""
        return bool(found)

    def rest(self, path: str) -> Any:
        """The JSON of Spark's REST interface, through YARN's proxy."""
        self.ui_url = self._cluster.proxy_url(self.application)
        return super().rest(path)

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


class YarnCluster(StartedInWith):
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
        self._temporary = work_dir is None
        self.work_dir = Path(work_dir or tempfile.mkdtemp(prefix="mooring-yarn-")).resolve()
        self.conf = dict(conf or {})
        self.executor_memory = executor_memory
        self._scheduler = dict(scheduler or {})
        self._excluded = self.work_dir / "excluded-hosts"
        self._site = {**self._common_site(host_memory_mb, host_cores), **(site or {})}
        self._web = self._site["yarn.resourcemanager.webapp.address"]
        self._classpath = hadoop_classpath()
        self._client_conf = self.work_dir / "client-conf"
        directory = self.work_dir / "resource-manager"
        self.resource_manager = ChildProcess(
            "ResourceManager",
            [java(), *_JVM, "-cp", f"{directory / 'conf'}:{self._classpath}", _RESOURCE_MANAGER],
            directory / "resource-manager.log",
            spark_environment({}),
            cwd=directory,
        )
        self.hosts = {
            address: YarnHost(address, self.work_dir / "hosts" / address, self._site, self._classpath)
            for address in (f"127.0.0.{number}" for number in range(2, 2 + hosts))
        }
        self._submissions: list[Submission] = []

    def _common_site(self, memory_mb: int, cores: int) -> dict[str, str]:
        ports = {
            f"yarn.resourcemanager.{name}address": f"{_ADDRESS}:{free_port(_ADDRESS)}"
            for name in ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")
        }
        return {
            **ports,
            "fs.defaultFS": "file:///",
            "hadoop.tmp.dir": str(self.work_dir / "tmp"),
            "hadoop.http.authentication.simple.anonymous.allowed": "true",
            "yarn.resourcemanager.hostname": _ADDRESS,
            "yarn.resourcemanager.bind-host": _ADDRESS,
            "yarn.resourcemanager.nodes.exclude-path": str(self._excluded),
            "yarn.resourcemanager.am.max-attempts": "4",
            "yarn.nm.liveness-monitor.expiry-interval-ms": "20000",
            "yarn.am.liveness-monitor.expiry-interval-ms": "60000",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.scheduler.maximum-allocation-mb": str(memory_mb),
            "yarn.nodemanager.resource.memory-mb": str(memory_mb),
            "yarn.nodemanager.resource.cpu-vcores": str(cores),
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
            "yarn.nodemanager.env-whitelist": ",".join(_INHERITED),
            "yarn.application.classpath": "/no/classes",
        }

    def start(self, timeout: float = 120.0) -> None:
        """Start the ResourceManager and all hosts; return when all hosts are RUNNING."""
        conf = self.work_dir / "resource-manager" / "conf"
        for directory in (conf, self._client_conf):
            _write_conf(directory, self._site, {**_SCHEDULER, **self._scheduler})
        self._excluded.write_text("")
        self.resource_manager.start(ready=lambda: bool(self._rest("info")), timeout=timeout)
        for host in self.hosts.values():
            host.start()
        self._wait_for_hosts(self.hosts, timeout)

    def stop(self) -> None:
        """End all applications, hosts and the ResourceManager; remove the directory if it was a temporary one."""
        for submission in self._submissions:
            submission.kill()
        for host in self.hosts.values():
            host.node_manager.kill()
        self.resource_manager.kill()
        if self._temporary:
            shutil.rmtree(self.work_dir, ignore_errors=True)

    def nodes(self) -> dict[str, str]:
        """Host to state: RUNNING, LOST, DECOMMISSIONED … `OSError` while the ResourceManager does not answer."""
        listed = (self._rest("nodes")["nodes"] or {}).get("node", [])
        return {node["nodeHostName"]: node["state"] for node in listed}

    def executors(self, application: str | None = None) -> list[ExecutorProcess]:
        """The executor JVMs that are alive; with `application`, only those of this application."""
        everywhere = [executor for host in self.hosts.values() for executor in host.executors()]
        return [executor for executor in everywhere if application in (None, executor.application)]

    def kill_executor(self, host: str, application: str | None = None) -> ExecutorProcess:
        """Kill -9 of the one executor on a host. `ClusterError` when there is none, or when there are several."""
        found = [executor for executor in self.executors(application) if executor.host == host]
        if len(found) != 1:
            raise ClusterError(f"{len(found)} executors on {host!r}; alive: {self.executors(application)}")
        found[0].kill()
        wait_until(lambda: not found[0].is_alive, f"executor {found[0].id} to be gone", timeout=10)
        return found[0]

    def kill_host(self, host: str) -> None:
        """Kill -9 of the NodeManager and of its containers at once, as when the host loses power. Its disk stays."""
        self._host(host).node_manager.kill()

    def revive_host(self, host: str, timeout: float = 90.0) -> None:
        """Start the NodeManager again on the same disk, and wait until YARN has it."""
        self._host(host).start()
        self._wait_for_hosts([host], timeout)

    def decommission(self, host: str, graceful_s: int | None = None, timeout: float = 60.0) -> None:
        """Exclude a host from YARN. With `graceful_s`, its containers may go on for so long."""
        self._excluded.write_text(f"{self._excluded.read_text()}{self._host(host).address}\n")
        graceful = [] if graceful_s is None else ["-g", str(graceful_s), "-server"]
        self._run(_ADMIN, "-refreshNodes", *graceful, timeout=timeout)

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
        command = [java(), *_JVM, "-cp", f"{self._client_conf}:{self._classpath}", tool, *words]
        process = ChildProcess(tool.rpartition(".")[2], command, self.work_dir / "commands.log", spark_environment({}))
        process.start()
        process.finish(timeout)

    def _rest(self, path: str) -> Any:
        return get_json(f"http://{self._web}/ws/v1/cluster/{path}")

    def _host(self, address: str) -> YarnHost:
        if address not in self.hosts:
            raise ClusterError(f"no host {address!r}; there are {', '.join(self.hosts)}")
        return self.hosts[address]

    def _wait_for_hosts(self, hosts: Mapping[str, Any] | Sequence[str], timeout: float) -> None:
        def are_running() -> bool:
            states = self.nodes()
            return all(states.get(host) == "RUNNING" for host in hosts)

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


_SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
}


def _write_conf(directory: Path, site: Mapping[str, str], scheduler: Mapping[str, str] | None = None) -> None:
    """Write Hadoop's files. Each daemon reads its settings from them: Hadoop's XML knows no environment."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "log4j.properties").write_text(_LOGGING)
    core = {key: value for key, value in site.items() if not key.startswith("yarn.")}
    yarn = {key: value for key, value in site.items() if key.startswith("yarn.")}
    for name, settings in (("core-site", core), ("yarn-site", yarn), ("capacity-scheduler", scheduler or {})):
        properties = "".join(
            f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
            for key, value in settings.items()
        )
        (directory / f"{name}.xml").write_text(f"<configuration>\n{properties}</configuration>\n")
