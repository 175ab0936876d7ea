"""A real ZooKeeper ensemble from PySpark's own jars, for tests that kill and pause its nodes.

    with ZooKeeperEnsemble(nodes=3, work_dir=tmp_path) as ensemble:
        store = open_metadata_store(f"zk://{ensemble.hosts}/mooring")
        ensemble.nodes[0].kill()        # kill -9; two of three go on
        ensemble.nodes[0].revive()      # the same node again, with the same disk
        ensemble.nodes[1].pause()       # SIGSTOP: its connections stay open, and it answers no request
        ensemble.nodes[1].resume()

All nodes are on 127.0.0.1. Needs Java, as Spark does, and no ZooKeeper client.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mooring.errors import ClusterError
from mooring.testing.probes import free_port, wait_until
from mooring.testing.servers import ChildProcess, OneServer, StartedInWith
from mooring.testing.spark_home import SHORT_LIVED_JVM, spark_home

_HOST = "127.0.0.1"
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JARS = (
    "zookeeper",
    "slf4j-api",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
    "metrics-core",
    "netty",
    "snappy-java",
    "commons-io",
    "audience-annotations",
)
# The log file is not synced: kill -9 loses no written data, only a power cut does.
_JVM = (
    "-Xmx128m",
    *SHORT_LIVED_JVM.split(),
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=1024",
    "-Djava.awt.headless=true",
)
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex{5}
"""


class ZooKeeperNode(OneServer):
    """One server of an ensemble, with an address and a disk of its own."""

    def __init__(self, name: str, port: int, directory: Path, java_options: tuple[str, ...]) -> None:
        """Nothing is started. `directory` must have the configuration."""
        self.port = port
        self.address = f"{_HOST}:{port}"
        classpath = os.pathsep.join(str(jar) for jar in _server_jars())
        logging = f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}"
        command = ["java", *_JVM, logging, *java_options, "-cp", classpath, _MAIN, str(directory / "zoo.cfg")]
        self.process = ChildProcess(name, command, directory / "server.log", cwd=directory)

    def mode(self) -> str:
        """The mode: "leader", "follower", "standalone", or "" while it serves no client. `OSError` when it is down."""
        return self._reported("Mode")

    def received(self) -> int:
        """The number of packets from clients since the node's start, with pings. `OSError` when it is down."""
        return int(self._reported("Received") or 0)

    def _reported(self, what: str) -> str:
        """One value of the node's report of itself; "" while it serves no client."""
        for line in _ask(self.port, b"srvr").splitlines():
            if line.startswith(f"{what}: "):
                return line.removeprefix(f"{what}: ")
        return ""

    def serves(self) -> bool:
        """Whether the node answers requests, which needs a quorum of the ensemble. `OSError` when it is down."""
        return bool(self.mode())

    def leads(self) -> bool:
        """Whether the node leads the others, or is the only node. False when it does not answer."""
        try:
            return self.mode() in ("leader", "standalone")
        except OSError:
            return False

    def revive(self, wait: bool = True, timeout: float = 60.0) -> None:
        """Start a killed node with its disk. With `wait`, returns when the node serves, which needs a quorum."""
        self.process.start(self.serves if wait else None, timeout)


class ZooKeeperEnsemble(StartedInWith):
    """One node, or several that form a quorum; a context manager."""

    def __init__(
        self,
        nodes: int = 1,
        work_dir: Path | None = None,
        tick_ms: int = 200,
        settings: Mapping[str, str] | None = None,
        java_options: tuple[str, ...] = (),
    ) -> None:
        """The nodes start with the with-block.

        Clients may have sessions from 2 to 100 ticks. `settings` are further lines of `zoo.cfg`, and `java_options` are
        further options of each node's JVM. Disks and logs are under `work_dir`, or in a temporary directory that is
        removed at the end.
        """
        if nodes < 1:
            raise ClusterError(f"nodes={nodes}: at least one")
        self._temporary = work_dir is None
        self.work_dir = Path(work_dir or tempfile.mkdtemp(prefix="mooring-zookeeper-")).resolve()
        self._peers = [(free_port(_HOST), free_port(_HOST)) for _ in range(nodes)] if nodes > 1 else []
        self._common = _common_settings(tick_ms) | dict(settings or {})
        self.nodes = [self._new_node(number, java_options) for number in range(1, nodes + 1)]

    @property
    def hosts(self) -> str:
        """The addresses of all nodes, in the form that clients take: "127.0.0.1:12345,127.0.0.1:12346"."""
        return ",".join(node.address for node in self.nodes)

    def start(self, timeout: float = 60.0) -> None:
        """Start all nodes, and return when each of them answers requests."""
        for node in self.nodes:
            node.revive(wait=False)
        self.wait_until_served(timeout)

    def wait_until_served(self, timeout: float = 60.0) -> None:
        """Wait until every running node answers requests. `ClusterError` with a node's log on a timeout."""
        for node in self.nodes:
            if node.process.is_running:
                wait_until(node.serves, f"{node.process.name} to answer", timeout, story=node.process.story)

    def leader(self, timeout: float = 30.0) -> ZooKeeperNode:
        """The node that leads, or the only one. Waits for an election; `ClusterError` on a timeout."""
        found: list[ZooKeeperNode] = []

        def look() -> bool:
            found.extend(node for node in self.nodes if node.process.is_running and node.leads())
            return bool(found)

        wait_until(look, "a ZooKeeper node to lead", timeout)
        return found[0]

    def stop(self) -> None:
        """Kill all nodes; remove the directory if it was a temporary one."""
        for node in self.nodes:
            node.kill()
        if self._temporary:
            shutil.rmtree(self.work_dir, ignore_errors=True)

    def _new_node(self, number: int, java_options: tuple[str, ...]) -> ZooKeeperNode:
        directory = self.work_dir / f"zookeeper-{number}"
        (directory / "data").mkdir(parents=True, exist_ok=True)
        port = free_port(_HOST)
        own = {"dataDir": str(directory / "data"), "clientPort": str(port), "clientPortAddress": _HOST}
        peers = {
            f"server.{peer}": f"{_HOST}:{quorum}:{election}"
            for peer, (quorum, election) in enumerate(self._peers, start=1)
        }
        lines = [f"{key}={value}\n" for key, value in {**self._common, **own, **peers}.items()]
        (directory / "zoo.cfg").write_text("".join(lines))
        (directory / "data" / "myid").write_text(f"{number}\n")
        (directory / "log4j2.properties").write_text(_LOGGING)
        return ZooKeeperNode(f"zookeeper {number}", port, directory, java_options)


def _common_settings(tick_ms: int) -> dict[str, str]:
    return {
        "tickTime": str(tick_ms),
        "initLimit": str(max(10, 30_000 // tick_ms)),
        "syncLimit": str(max(5, 10_000 // tick_ms)),
        "maxSessionTimeout": str(100 * tick_ms),
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr,ruok,mntr",
    }


def _server_jars() -> list[Path]:
    """The jars that a server needs; with all of Spark's jars it takes twice as long to start."""
    return sorted(jar for jar in (spark_home() / "jars").glob("*.jar") if jar.name.startswith(_JARS))


def _ask(port: int, word: bytes) -> str:
    """The answer to one of ZooKeeper's four-letter words."""
    with socket.create_connection((_HOST, port), timeout=1.0) as connection:
        connection.sendall(word)
        answer = b""
        while block := connection.recv(4096):
            answer += block
    return answer.decode(errors="replace")
