"""A job on three hosts with one warm copy of each task, for tests that take its hosts away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mooring.testing.cluster import SparkCluster
from mooring.testing.network import HostNetwork
from mooring.testing.submission import Submission
from tests.integration.support.file_fed_job import PARTITIONS, Load
from tests.integration.support.job_to_drain import Started
from tests.integration.support.restarted_job import opened

STANDBY = {"spark.mooring.standby.replication.factor": "2"}
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


class Warm:
    """A job on three hosts whose copies are caught up."""

    def __init__(
        self, cluster: SparkCluster, load: Load | Started, job: Submission, may_be_empty: bool = False
    ) -> None:
        """`may_be_empty`: copies of format 1 have no file before the first snapshot, as changelogs are not kept."""
        self.cluster, self.load, self.job, self._may_be_empty = cluster, load, job, may_be_empty

    def copies(self) -> list[dict[str, Any]]:
        return copies_in(self.load.status())

    def tasks_of(self, host: str) -> int:
        """How many the processors of that host have, by the plan."""
        return sum(len(one["tasks"]) for one in self.load.status()["processors"] if one["location"] == host)

    def is_caught_up(self, copies: int = PARTITIONS) -> bool:
        """No batch is under way, and all copies have the version of the last one: the agent has heard of it by then."""
        if not self.load.is_idle():
            return False
        heard_ms = self.load.committed_at_ms() + 2000
        status = self.load.status()
        found = copies_in(status)
        is_warm = all(copy["lag-versions"] == 0 and (copy["local-bytes"] or self._may_be_empty) for copy in found)
        return is_warm and len(found) == copies and status.get("at", 0) > heard_ms

    def wait_until_caught_up(self, copies: int = PARTITIONS) -> None:
        self.job.wait_until(lambda: self.is_caught_up(copies), "the copies to be warm", 120)

    def wait_until_settled(self, hosts: int) -> None:
        """So many hosts have an executor, share the tasks evenly, and the copies if there are two."""
        self.job.wait_until(lambda: len(self.job.executors()) == hosts, f"{hosts} executors", 120)
        self.wait_until_caught_up(PARTITIONS if hosts > 1 else 0)
        even = sorted(PARTITIONS // hosts + (number < PARTITIONS % hosts) for number in range(hosts))
        self.job.wait_until(lambda: [s for s in self.load.sizes() if s] == even, f"an even load on {hosts}", 120)

    def pids_at(self, host: str) -> set[int]:
        """Those of its executors."""
        return {one.pid for one in self.cluster.executors() if one.host == host}

    def wait_until_replaced(self, host: str, before: set[int]) -> None:
        """None of these executors lives, and the driver has another one there."""
        self.job.wait_until(lambda: not before & self.pids_at(host), "the executor that was given up to end", 120)
        self.job.wait_until(lambda: host in self.job.executors().values(), "another one in its place", 120)

    def openings(self) -> list[dict[str, int]]:
        """What was read for each opening of a state store so far, in order of time; of a copy that was open nothing."""
        logs = (log.read_text(errors="replace") for log in self.cluster.work_dir.rglob("stderr"))
        lines = [line for log in logs for line in log.splitlines() if "Mooring: opened " in line]
        return opened("\n".join(sorted(lines, key=lambda line: line[: len("26/01/31 12:00:00")])))

    def failovers(self) -> tuple[int, int]:
        return self.load.counter("failovers-to-standby"), self.load.counter("failovers-to-any-host")

    def wait_for_failovers(self, warm: int, cold: int = 0) -> None:
        self.job.wait_until(lambda: self.failovers() == (warm, cold), f"{warm} warm failovers and {cold} cold", 60)


def copies_in(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tasks of a status that are copies."""
    return [task for task in status.get("tasks", []) if task["mode"] == "Standby"]


def submitted(cluster: SparkCluster, load: Load, conf: Mapping[str, str]) -> Warm:
    """The job, once it has committed a batch by an even plan, and its copies are caught up."""
    job = load.submit(cluster, {**STANDBY, "spark.mooring.processor.rebind.timeout": "60s", **conf})
    job.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan", 120)
    load.feed(job)
    here = Warm(cluster, load, job)
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
) -> Iterator[Warm]:
    """Start it; at the end let it read the rest, and compare with the offline answer. `load`: another job."""
    load = load or Load(directory, files=files)
    with SparkCluster(
        hosts=3, executor_memory="768m", work_dir=directory / "cluster", network=network, cores_per_host=cores
    ) as cluster:
        load.offer(2)
        here = submitted(cluster, load, conf or {})
        yield here
        load.offer_the_rest_and_finish(here.job)
    load.assert_right()
