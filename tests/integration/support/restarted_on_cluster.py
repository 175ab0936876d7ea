"""A job on YARN or Kubernetes that is ended and started again, with its hosts and what it fetched."""

from __future__ import annotations

import json
from pathlib import Path

from mooring.testing.hosts import ExecutorProcess
from mooring.testing.kubernetes import KubernetesCluster
from mooring.testing.yarn import YarnCluster
from tests.integration.support.job_runs import PYTHON_JOBS
from tests.integration.support.job_to_drain import DrainableJob
from tests.integration.support.job_with_warm_copies import JobWithCopies


class RestartedJob(JobWithCopies):
    """A job that is ended and started again."""

    def __init__(self, cluster: YarnCluster | KubernetesCluster, directory: Path, **conf: str) -> None:
        windows = next(job for job in PYTHON_JOBS if job.name == "windowed_aggregation")
        self.drainable = DrainableJob(windows, cluster, directory, **conf)
        super().__init__(cluster, self.drainable, self.drainable.submission)
        self.directory = directory

    def executors(self) -> list[ExecutorProcess]:
        """The executors that live."""
        return self.cluster.executors(self.job.application)

    def host_of(self, executor: ExecutorProcess) -> str:
        """The host of an executor."""
        return executor.host

    def hosts(self) -> list[str]:
        """The host of each executor that lives."""
        return sorted(self.host_of(executor) for executor in self.executors())

    def commit_more(self) -> None:
        """Offer one more input file, and wait until it is committed."""
        self.drainable.events.offer(1)
        self.job.wait_until(self.drainable.is_idle, "the batches over one more file", 180)

    def start(self, **conf: str) -> list[dict[str, int]]:
        """Start the job, which has ended, and have it commit more: the openings of its stores."""
        before = len(self.openings())
        self.job = self.drainable.submit(**conf)
        self.commit_more()
        since = self.openings()[before:]
        assert since, "no store was opened"
        return since

    def end(self) -> None:
        """End the job."""
        self.job.terminate()

    def restart(self, **conf: str) -> tuple[list[str], int]:
        """End the job and start it again: the hosts of its executors, and the bytes that it fetched."""
        self.end()
        fetched = sum(opening["remote-bytes"] for opening in self.start(**conf))
        return self.hosts(), fetched

    def hosts_in_file(self) -> set[str]:
        """The hosts on which the next start wants executors; empty before there is a file."""
        return {
            host
            for file in self.directory.rglob("wanted-hosts-*.json")
            for host in json.loads(file.read_text())["hosts"]
        }

    def first_host(self) -> str:
        """The host of the oldest executor that lives."""
        return self.host_of(min(self.executors(), key=lambda executor: int(executor.id)))

    def drain(self) -> None:
        """Drain the job, and check its output against the offline answer."""
        assert self.drainable.command("drain", "--wait", "--timeout", "180s") == 0
        self.job.finish(120)
        self.drainable.assert_drained()
