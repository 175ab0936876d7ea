"""A real Kafka broker on this machine, as a child process of a test.

    with KafkaBroker(tmp_path / "kafka") as broker:
        store = open_metadata_store(f"kafka://{broker.servers}/mooring")
        broker.kill()       # kill -9; `start` revives it on the same port, with the same data
        broker.start()

The broker runs in KRaft mode as its own controller, on the loopback address. The first use on a machine fetches the
jars (see `kafka_jars`). A start takes a few seconds.
"""

from __future__ import annotations

import base64
import socket
import struct
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from mooring.errors import ClusterError
from mooring.testing.kafka_jars import KAFKA_VERSION, kafka_classpath
from mooring.testing.maven_jars import java
from mooring.testing.probes import free_port
from mooring.testing.servers import ChildProcess, OneServer, StartedInWith
from mooring.testing.spark_home import SHORT_LIVED_JVM

_HOST = "127.0.0.1"

# Enough for one client and few records: a broker takes 300 MB and starts in seconds.
_JVM = ("-Xms64m", "-Xmx256m", *SHORT_LIVED_JVM.split(), "-Dlog4j2.level=WARN")

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "1",
    "num.partitions": "3",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A killed broker can register again only after its last session is over.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class KafkaBroker(OneServer, StartedInWith):
    """One broker. Use it in a with-block, or call `start` and `stop`; it may be started again after it ended."""

    def __init__(
        self,
        work_dir: Path,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        version: str = KAFKA_VERSION,
    ) -> None:
        """Nothing is started. `settings` go into server.properties and override the defaults."""
        self._directory = Path(work_dir)
        self._port, self._controller_port = port or free_port(), free_port()
        self._classpath = kafka_classpath(version)
        self._settings = {**_SETTINGS, **self._places(), **(settings or {})}
        properties = self._directory / "server.properties"
        self.process = ChildProcess(
            "kafka", self._java("kafka.Kafka", str(properties)), self._directory / "kafka.log", cwd=self._directory
        )

    @property
    def servers(self) -> str:
        """The value of `bootstrap.servers` for a client."""
        return f"{_HOST}:{self._port}"

    def start(self, timeout: float = 120.0) -> None:
        """Start on the data of an earlier run, if there is any; return when the broker answers."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if not (self._directory / "data" / "meta.properties").exists():
            self._format()
        self.process.start(self._answers, timeout)

    def stop(self) -> None:
        """Send SIGTERM, and kill the broker after ten seconds."""
        self.process.stop()

    def _places(self) -> dict[str, str]:
        controller = f"{_HOST}:{self._controller_port}"
        return {
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self._directory / "data"),
        }

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [java(), *_JVM, "-cp", self._classpath, main, *arguments]

    def _format(self) -> None:
        """Write server.properties, and the files that KRaft needs in a new data directory."""
        properties = self._directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", str(properties)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterError(f"the broker's data directory cannot be formatted:\n{done.stdout}{done.stderr}")

    def _answers(self) -> bool:
        """Whether the broker answers a request for its API versions."""
        request = struct.pack(">hhih", 18, 0, 1, -1)
        with socket.create_connection((_HOST, self._port), timeout=2.0) as connection:
            connection.settimeout(2.0)
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(8)) > 0
