"""The sides of a comparison, and one application of a side on a cluster."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.executor_log import LOG_PATTERN, ExecutorLog, parse_file
from benchmarks.storage.kinds import Storage
from mooring.checkpoint.state_table import delta_package
from mooring.jar import jar_path
from mooring.testing.cluster import SparkCluster
from mooring.testing.probes import wait_until
from mooring.testing.yarn import YarnCluster

JOBS = Path(__file__).parent / "jobs"
PARTITIONS = 8
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

BOTH_EXECUTORS = {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
}
"""For two hosts with one core each: no job begins before both executors are there."""

_CATALOGUE = "spark.mooring.checkpoint.catalog.enabled"
_INTERVAL = "spark.mooring.checkpoint.catalog.interval"
_COPIES = "spark.mooring.standby.replication.factor"
_BOTH = {
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "5000",
}


@dataclass(frozen=True)
class Side:
    """Stock Spark or a form of Mooring, with the settings and jars of a user."""

    name: str
    conf: Mapping[str, str]
    jars: tuple[Path, ...] = ()
    keeps_nothing: bool = False
    """Whether its hosts must keep no state files."""

    @property
    def keeps_copies(self) -> bool:
        """Whether every task has a warm copy on another host."""
        return _COPIES in self.conf


def stock() -> Side:
    """Stock Spark with RocksDB."""
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return Side("stock", {**_BOTH, "spark.sql.streaming.stateStore.providerClass": provider})


def mooring() -> Side:
    """The plugin, and no other setting."""
    return Side("mooring", {**_BOTH, "spark.plugins": "io.mooring.MooringPlugin"}, (jar_path(),))


def mooring_without_copies() -> Side:
    """Mooring that places tasks, on hosts that can keep no files: their local store can not be made.

    Each host of the cluster names its store in the environment, which overrides the setting.
    """
    nowhere = {"spark.executorEnv.MOORING_LOCAL_STORE_DIR": "/dev/null/mooring"}
    return Side("mooring-without-copies", {**mooring().conf, **nowhere}, mooring().jars, keeps_nothing=True)


def mooring_standby() -> Side:
    """The plugin, and a warm copy of each task."""
    return Side("mooring-standby", {**mooring().conf, _COPIES: "2"}, mooring().jars)


def mooring_standby_files() -> Side:
    """The plugin with warm copies as files: the executor that takes a task over must first open RocksDB."""
    standby = mooring_standby()
    return Side("mooring-standby-files", {**standby.conf, "spark.mooring.standby.open.stores": "0"}, standby.jars)


def _delta() -> dict[str, str]:
    return {
        "spark.jars.packages": delta_package(),
        "spark.databricks.delta.requiredSparkConfsCheck.enabled": "false",
    }


def mooring_beside_delta() -> Side:
    """The plugin in an application that has Delta's jars, without the catalogue."""
    return Side("mooring-without-catalogue", {**mooring().conf, **_delta(), _CATALOGUE: "false"}, mooring().jars)


def mooring_catalogued() -> Side:
    """The plugin, and the catalogue of committed state in a Delta table.

    The interval is 20 s because `steady` pauses each application half of the time. So the catalogue is written every
    ten seconds of the application's own time, which is the default.
    """
    return Side("mooring-catalogue", {**mooring().conf, **_delta(), _INTERVAL: "20s"}, mooring().jars)


def in_turn(sides: Sequence[Callable[[], Side]], rounds: int) -> list[Side]:
    """Each side once a round; every second round has the opposite order."""
    orders = [sides if number % 2 == 0 else sides[::-1] for number in range(rounds)]
    return [make() for order in orders for make in order]


@dataclass(frozen=True)
class Run:
    """One application that has ended."""

    submitted: float
    answer: Any
    """The JSON that the job wrote."""
    logs: tuple[ExecutorLog, ...]
    log_files: tuple[Path, ...]


def log_settings(directory: Path) -> Path:
    """A Log4j file with times in milliseconds, for executors and drivers."""
    file = directory / "log4j2.properties"
    file.write_text(
        "rootLogger.level = info\n"
        "rootLogger.appenderRef.stderr.ref = stderr\n"
        "appender.stderr.type = Console\n"
        "appender.stderr.name = stderr\n"
        "appender.stderr.target = SYSTEM_ERR\n"
        "appender.stderr.layout.type = PatternLayout\n"
        f"appender.stderr.layout.pattern = {LOG_PATTERN}\n"
    )
    return file


class StartedRun:
    """A running application: a job of `benchmarks/jobs`, submitted to a cluster.

    The job gets one more argument at the end: the file for its answer.
    """

    def __init__(
        self,
        cluster: SparkCluster | YarnCluster,
        side: Side,
        storage: Storage,
        job: str,
        args: Sequence[str],
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self._cluster = cluster
        self._answer = cluster.work_dir / f"answer-{time.monotonic_ns()}.json"
        java = f"-Dlog4j2.configurationFile={log_settings(cluster.work_dir).as_uri()}"
        logs = {"spark.executor.extraJavaOptions": java, "spark.driver.extraJavaOptions": java}
        settings = {**side.conf, **dict(storage.conf), **logs, **(conf or {})}
        jars = [*side.jars, *storage.jars]
        os.sync()  # otherwise this run meets the disk writes of the run before
        self._submitted = time.time()
        self.submission = cluster.submit(JOBS / job, [*args, str(self._answer)], conf=settings, jars=jars)

    def finish(self, timeout: float = 900.0) -> Run:
        """Wait until the application and its executors are gone. ClusterError when the job fails."""
        self.submission.finish(timeout)
        answer = json.loads(self._answer.read_text())
        application = answer["application"]
        wait_until(lambda: not self._cluster.executors(application), "the executors to be gone", timeout=60)
        logs = self.log_files(application)
        return Run(self._submitted, answer, tuple(parse_file(log) for log in logs), logs)

    def log_files(self, application: str) -> tuple[Path, ...]:
        """The logs of all executors that the application had. Each lies in a directory named after the executor.

        On YARN the directory is named after the container, and the application master's log is among them.
        """
        hosts = self._cluster.hosts.values()
        return tuple(sorted(log for host in hosts for log in host.directory.glob(f"*/{application}/*/stderr")))
