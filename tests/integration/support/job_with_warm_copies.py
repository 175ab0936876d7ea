"""A job on three hosts with one warm copy of each task, for tests that take its hosts away."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mooring.testing.cluster import SparkCluster
from mooring.testing.network import HostNetwork
from mooring.testing.submission import Submission
from tests.integration.support.file_fed_job import PARTITIONS, Load
from tests.integration.support.job_to_drain import DrainableJob
from tests.integration.support.restarted_job import opened

EVERY_FILE = "the executors that get the lost tasks have every file"
EVERY_STORE = "the executors that get the lost tasks have every store open"
PARTITION_IN_LOG = re.compile(r"/state/\d+/(\d+)(?:/\S+)? at version ")
STANDBY = {"spark.mooring.standby.replication.factor": "2"}
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


class JobWithCopies:
    """A running job on three hosts, and its copies."""

    def __init__(
        self, cluster: SparkCluster, load: Load | DrainableJob, job: Submission, may_be_empty: bool = False
    ) -> None:
        """With `may_be_empty`, a copy may have no file: in format 1 it has none before the first snapshot."""
        self.cluster, self.load, self.job, self._may_be_empty = cluster, load, job, may_be_empty

    def copies(self) -> list[dict[str, Any]]:
        return copies_in(self.load.status())

    def tasks_of(self, host: str) -> int:
        """The number of tasks that the plan has at a host."""
        return sum(len(found["tasks"]) for found in self.load.status()["processors"] if found["location"] == host)

    def is_caught_up(self, copies: int = PARTITIONS) -> bool:
        """Whether no batch is running and all copies have the newest version, by a status that is newer than it."""
        if not self.load.is_idle():
            return False
        reported_ms = self.load.committed_at_ms() + 2000  # by then the executors have reported the newest version
        status = self.load.status()
        found = copies_in(status)
        is_warm = all(copy["lag-versions"] == 0 and (copy["local-bytes"] or self._may_be_empty) for copy in found)
        return is_warm and len(found) == copies and status.get("at", 0) > reported_ms

    def wait_until_caught_up(self, copies: int = PARTITIONS) -> None:
        self.job.wait_until(lambda: self.is_caught_up(copies), "the copies to be warm", 120)

    def wait_until_settled(self, hosts: int) -> None:
        """Wait until this number of hosts have executors and even shares, and copies if there are at least two."""
        self.job.wait_until(lambda: len(self.job.executors()) == hosts, f"{hosts} executors", 120)
        self.wait_until_caught_up(PARTITIONS if hosts > 1 else 0)
        even = sorted(PARTITIONS // hosts + (number < PARTITIONS % hosts) for number in range(hosts))
        self.job.wait_until(lambda: [s for s in self.load.sizes() if s] == even, f"an even load on {hosts}", 120)

    def pids_at(self, host: str) -> set[int]:
        """The process ids of the executors on a host."""
        return {executor.pid for executor in self.cluster.executors() if executor.host == host}

    def wait_until_replaced(self, host: str, before: set[int]) -> None:
        """Wait until none of these executors lives, and the driver has another one on the host."""
        self.job.wait_until(lambda: not before & self.pids_at(host), "the executor that was given up to end", 120)
        self.job.wait_until(lambda: host in self.job.executors().values(), "another one in its place", 120)

    def openings(self) -> list[dict[str, int]]:
        """The reads of each opening of a state store so far, in order of time. An open copy needs no opening."""
        logs = (log.read_text(errors="replace") for log in self._executor_logs())
        lines = [line for log in logs for line in log.splitlines() if "Mooring: opened " in line]
        return opened("\n".join(sorted(lines, key=lambda line: line[: len("26/01/31 12:00:00")])))

    def _executor_logs(self) -> list[Path]:
        """The logs of all executors. Unlike `glob`, `walk` goes on when a directory is removed meanwhile."""
        return [Path(place, "stderr") for place, _, files in os.walk(self.cluster.work_dir) if "stderr" in files]

    def partitions_of(self, host: str) -> set[int]:
        """The numbers of the partitions whose tasks the plan has at a host."""
        tasks = [found["tasks"] for found in self.load.status()["processors"] if found["location"] == host]
        return {int(name.rpartition("/Partition ")[2]) for names in tasks for name in names}

    def fetched_for(self, partitions: Collection[int], but: str) -> int:
        """The bytes that hosts but one have read so far from the checkpoint to open the stores of these partitions.

        For the partitions of a lost host. The counter of the status has two kinds of moves too. The plan after a loss
        moves tasks that run, to share the load, and tasks go back to the lost host. Their copies may be one version
        behind, as a batch may have ended since, and that version is read from the checkpoint.
        """
        others = [log for log in self._executor_logs() if but not in log.parts]
        lines = [line for log in others for line in log.read_text(errors="replace").splitlines()]
        stores = [(PARTITION_IN_LOG.search(line), line) for line in lines if "Mooring: opened " in line]
        of_them = [line for store, line in stores if store and int(store[1]) in partitions]
        return sum(opening["remote-bytes"] for opening in opened("\n".join(of_them)))

    def failovers(self) -> tuple[int, int]:
        return self.load.counter("failovers-to-standby"), self.load.counter("failovers-to-any-host")

    def wait_for_failovers(self, warm: int, cold: int = 0) -> None:
        self.job.wait_until(lambda: self.failovers() == (warm, cold), f"{warm} warm failovers and {cold} cold", 60)


def copies_in(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The copies in a status."""
    return [task for task in status.get("tasks", []) if task["mode"] == "Standby"]


def submitted(cluster: SparkCluster, load: Load, conf: Mapping[str, str]) -> JobWithCopies:
    """Submit the job, and wait until it has committed a batch by an even plan and its copies have caught up."""
    job = load.submit(cluster, {**STANDBY, "spark.mooring.processor.rebind.timeout": "60s", **conf})
    job.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan", 120)
    load.feed(job)
    here = JobWithCopies(cluster, load, job)
    here.wait_until_caught_up()
    return here


@contextmanager
def warm(
    directory: Path,
    conf: Mapping[str, str] | None = None,
    files: int = 12,
    load: Load | None = None,
    network: HostNetwork | None = None,
    cores: int = 1,
) -> Iterator[JobWithCopies]:
    """Start a job with warm copies. At the end it reads the rest, and its output is compared with the offline answer.

    `load` is for another job than the usual one.
    """
    load = load or Load(directory, files=files)
    with SparkCluster(
        hosts=3, executor_memory="768m", work_dir=directory / "cluster", network=network, cores_per_host=cores
    ) as cluster:
        load.offer(2)
        here = submitted(cluster, load, conf or {})
        yield here
        load.offer_the_rest_and_finish(here.job)
    load.assert_right()
