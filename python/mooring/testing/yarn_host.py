"""One simulated host of a YARN cluster, and the files of settings that Hadoop's processes read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from mooring.testing.hosts import LOCAL_STORE_VARIABLE, ExecutorProcess, executors_in_group
from mooring.testing.maven_jars import java
from mooring.testing.probes import free_port
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import SHORT_LIVED_JVM, spark_environment

HADOOP_JVM: Final = ("-Xmx256m", *SHORT_LIVED_JVM.split(), "--add-opens", "java.base/java.lang=ALL-UNNAMED")
"""Options of the JVM of a daemon, or of one of its commands."""

_NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_LOGGING = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c{1}: %m%n
"""
# Containers inherit these from their NodeManager.
_INHERITED = ("JAVA_HOME", "PATH", "HADOOP_CONF_DIR", "SPARK_LOCAL_IP", LOCAL_STORE_VARIABLE, "BASH_ENV")

# Read by each shell of a container before its command. A NodeManager ends a container by a signal to the shell that it
# has started. Without `setsid` the signal goes to that process alone, so Java must take the place of the shell.
_JAVA_IN_PLACE_OF_SHELL = r"""case "$BASH_EXECUTION_STRING" in
    */bin/java\ *) eval "exec $BASH_EXECUTION_STRING" ;;
esac
"""


_SCHEDULER: Final = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
}


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
            [java(), *HADOOP_JVM, "-cp", f"{directory / 'conf'}:{classpath}", _NODE_MANAGER],
            directory / "node-manager.log",
            self._environment(),
            cwd=directory,
        )

    @property
    def node(self) -> str:
        """The host's name in YARN: its address and a port."""
        return self._own["yarn.nodemanager.address"]

    def _environment(self) -> dict[str, str]:
        inherited = spark_environment({"SPARK_LOCAL_IP": self.address, LOCAL_STORE_VARIABLE: str(self.local_store)})
        # A NodeManager that finds no `setsid` keeps its containers in its own process group.
        path = f"{self.directory / 'bin'}:{inherited.get('PATH', '')}"
        return {**inherited, "PATH": path, "BASH_ENV": str(self.directory / "bin" / "java-in-place-of-shell")}

    def start(self) -> None:
        """Start the NodeManager, which registers some seconds later. Missing directories are made."""
        for name in ("local", "logs", "mooring", "bin"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        setsid = self.directory / "bin" / "setsid"
        setsid.write_text("#!/bin/sh\nexit 1\n")
        setsid.chmod(0o755)
        (self.directory / "bin" / "java-in-place-of-shell").write_text(_JAVA_IN_PLACE_OF_SHELL)
        write_conf(self.directory / "conf", {**self._site, **self._own})
        self.node_manager.start()

    def executors(self) -> list[ExecutorProcess]:
        """The executors alive on this host, in order of their ids."""
        return executors_in_group(self.node_manager.pid) if self.node_manager.was_started else []


def site_of_cluster(
    address: str, scratch: Path, excluded: Path, host_memory_mb: int, host_cores: int
) -> dict[str, str]:
    """The settings that all processes of a cluster share, with free ports for a ResourceManager at the address.

    `excluded` is the file with the hosts that YARN is not to use.
    """
    ports = {
        f"yarn.resourcemanager.{name}address": f"{address}:{free_port(address)}"
        for name in ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")
    }
    return {
        **ports,
        "fs.defaultFS": "file:///",
        "hadoop.tmp.dir": str(scratch),
        "hadoop.http.authentication.simple.anonymous.allowed": "true",
        "yarn.resourcemanager.hostname": address,
        "yarn.resourcemanager.bind-host": address,
        "yarn.resourcemanager.nodes.exclude-path": str(excluded),
        "yarn.resourcemanager.am.max-attempts": "4",
        "yarn.nm.liveness-monitor.expiry-interval-ms": "20000",
        "yarn.am.liveness-monitor.expiry-interval-ms": "60000",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.scheduler.maximum-allocation-mb": str(host_memory_mb),
        "yarn.nodemanager.resource.memory-mb": str(host_memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": str(host_cores),
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        "yarn.nodemanager.env-whitelist": ",".join(_INHERITED),
        "yarn.application.classpath": "/no/classes",
    }


def write_conf(directory: Path, site: Mapping[str, str], scheduler: Mapping[str, str] | None = None) -> None:
    """Write Hadoop's files. Each daemon reads its settings from them: Hadoop's XML knows no environment."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "log4j.properties").write_text(_LOGGING)
    core = {key: value for key, value in site.items() if not key.startswith("yarn.")}
    yarn = {key: value for key, value in site.items() if key.startswith("yarn.")}
    for name, settings in (
        ("core-site", core),
        ("yarn-site", yarn),
        ("capacity-scheduler", {**_SCHEDULER, **(scheduler or {})}),
    ):
        properties = "".join(
            f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
            for key, value in settings.items()
        )
        (directory / f"{name}.xml").write_text(f"<configuration>\n{properties}</configuration>\n")
