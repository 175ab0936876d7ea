"""A YARN cluster with more hosts than the application has executors: a restart gets the hosts that have the state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.testing.yarn import YarnCluster
from tests.integration.support.job_runs import JOB_CONF, PYTHON_JOBS
from tests.integration.support.job_to_drain import DrainableJob
from tests.integration.support.job_with_warm_copies import JobWithCopies

pytestmark = pytest.mark.heavy

HOSTS, EXECUTORS, RESTARTS = 6, 3, 5
KEEPS_LOCALITY = {
    "yarn.scheduler.capacity.node-locality-delay": str(HOSTS),
    "yarn.scheduler.capacity.rack-locality-additional-delay": str(HOSTS),
}
"""YARN gives a container on another host only after this many heartbeats of hosts that were not asked for."""
ALLOCATION = "spark.mooring.executor.allocation.enabled"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[YarnCluster]:
    """Each host has room for two executors, and for the driver or the application master."""
    conf = {**JOB_CONF, "spark.executor.instances": str(EXECUTORS)}
    with YarnCluster(
        HOSTS, work_dir=tmp_path / "cluster", conf=conf, host_memory_mb=4000, scheduler=KEEPS_LOCALITY
    ) as cluster:
        yield cluster


class RestartedJob(JobWithCopies):
    """A job that is ended and started again."""

    def __init__(self, cluster: YarnCluster, directory: Path, **conf: str) -> None:
        windows = next(job for job in PYTHON_JOBS if job.name == "windowed_aggregation")
        self.drainable = DrainableJob(windows, cluster, directory, **conf)
        super().__init__(cluster, self.drainable, self.drainable.submission)

    def hosts(self) -> list[str]:
        """The host of each executor."""
        return sorted(executor.host for executor in self.cluster.executors(self.job.application))

    def restart(self, **conf: str) -> tuple[list[str], int]:
        """End the job, start it again, and have it commit more: the hosts of its executors, the bytes it fetched."""
        self.job.terminate()
        opened_before = len(self.openings())
        self.job = self.drainable.submit(**conf)
        self.drainable.events.offer(1)
        self.job.wait_until(self.drainable.is_idle, "the batches after the restart", 180)
        since = self.openings()[opened_before:]
        assert since, "no store was opened"
        return self.hosts(), sum(opening["remote-bytes"] for opening in since)

    def drain(self) -> None:
        assert self.drainable.command("drain", "--wait", "--timeout", "180s") == 0
        self.job.finish(120)
        self.drainable.assert_drained()


def test_each_restart_gets_the_hosts_of_the_last_run(cluster: YarnCluster, tmp_path: Path) -> None:
    job = RestartedJob(cluster, tmp_path)
    wanted = job.hosts()
    assert len(wanted) == EXECUTORS
    restarts = [job.restart() for _ in range(RESTARTS)]
    print(wanted, restarts)
    assert restarts == [(wanted, 0)] * RESTARTS
    job.drain()
