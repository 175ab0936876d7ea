"""Queries that are drained: what they hold comes out, all of it, and no state is left."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.main import main
from mooring.jar import jar_path
from mooring.testing.cluster import SparkCluster
from mooring.testing.events import START_MS, AuctionHouse, write_events
from mooring.testing.submission import Submission
from tests.integration import answers
from tests.integration.job_runs import FILES, HEAVY_JOBS, JOB_CONF, JOBS, QUICK_JOBS, Job, JobRun

CHAINED = Job("chained_until_drained", answers.chained_until_drained)
OTHERS = [job for job in (*QUICK_JOBS, *HEAVY_JOBS) if job.name != "foreach_batch"]  # which ends by itself


@pytest.fixture(scope="module")
def spark_hosts_options() -> dict[str, Any]:
    return {"executor_memory": "768m", "conf": JOB_CONF}


class OpenInput:
    """The jobs' input without an end: nothing in it moves the watermark past all windows."""

    def __init__(self, directory: Path) -> None:
        house = AuctionHouse(seed=5, files=FILES, flush=False)
        self.directory = directory
        self._files = {"bids": list(house.bid_files()), "auctions": list(house.auction_files())}
        self._written = 0

    def offer(self, files: int) -> None:
        """So many files more of each kind."""
        for number in range(self._written, self._written + files):
            for kind, of_kind in self._files.items():
                write_events(of_kind[number], self.directory / kind, number, modified=START_MS / 1000 + number)
        self._written += files


@pytest.mark.parametrize(
    "job", [CHAINED, *(pytest.param(job, marks=pytest.mark.heavy) for job in OTHERS)], ids=lambda job: job.name
)
def test_a_drained_job_has_let_out_everything(
    job: Job, spark_hosts: SparkCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = Started(job, spark_hosts, tmp_path)
    started.events.offer(FILES - 4)  # one file a batch: most of it lies there when the drain begins
    exit_code = started.command("drain", "--wait", "--timeout", "180s")
    started.submission.finish(120)
    said = capsys.readouterr().out
    assert exit_code == 0, said
    started.assert_drained()


class Started:
    """A job that has committed two batches of each of its queries, and goes on."""

    def __init__(self, job: Job, cluster: SparkCluster, directory: Path, **conf: str) -> None:
        self.events = OpenInput(directory / "events")
        self.events.offer(4)
        self._job, self._cluster, self._directory = job, cluster, directory
        self._metadata = directory / "metadata"
        self._conf = {
            "spark.plugins": "io.mooring.MooringPlugin",
            "spark.jars": str(jar_path()),
            "spark.mooring.metadata": str(self._metadata),
            **conf,
        }
        self.queries = job.answer(self.events.directory).keys()
        self.submission = self.submit()
        self.submission.wait_until(lambda: self.committed() >= 2, "two batches of each query", 180)

    def submit(self) -> Submission:
        directories = [self.events.directory, self._directory / "checkpoints", self._directory / "outputs"]
        arguments = [*directories, "goes-on"]
        return self._cluster.submit(JOBS / f"{self._job.name}.py", arguments, conf=self._conf)

    def committed(self) -> int:
        """The batches that the slowest of the queries has committed."""
        commits = [self._directory / "checkpoints" / query / "commits" for query in self.queries]
        return min(sum(name.name.isdigit() for name in each.glob("*")) for each in commits)

    def command(self, *words: str) -> int:
        return main([words[0], "--metadata", str(self._metadata), *words[1:]])

    def assert_drained(self) -> None:
        """Row for row the offline answer over all input, no state, and said so."""
        run = JobRun(
            replace(self._job, answer=answers.drained(self._job.answer)), self.events.directory, self._directory
        )
        run.assert_right()
        for query in self.queries:
            marked = self._directory / "checkpoints" / query / "_mooring"
            assert json.loads((marked / "drained.json").read_text())["state-rows-left"] == 0, query
            assert not (marked / "draining.json").exists()


WINDOWS = Job("windowed_aggregation", answers.windowed_aggregation)


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["after-batch", "after-available", "now"])
def test_a_query_that_is_stopped_goes_on_at_its_next_start(
    mode: str, spark_hosts: SparkCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = Started(WINDOWS, spark_hosts, tmp_path)
    started.events.offer(3)
    assert started.command("stop", "--mode", mode, "--wait", "--timeout", "120s", "--json") == 0
    started.submission.finish(60)
    (report,) = json.loads(capsys.readouterr().out)["drains"]
    assert report["phase"] == "stopped" and report["state-rows-left"] > 0
    if mode == "after-available":
        assert started.committed() >= 7, "each file is a batch"
    assert report["batch"] + 1 == started.committed() if mode != "now" else report["batch"] < started.committed()
    started.events.offer(FILES - 7)
    again = started.submit()
    again.wait_until(lambda: started.committed() >= FILES, "a batch of each file", 180)
    assert started.command("drain", "--wait", "--timeout", "120s") == 0
    again.finish(60)
    started.assert_drained()


@pytest.mark.heavy
def test_sigterm_drains_first(spark_hosts: SparkCluster, tmp_path: Path) -> None:
    started = Started(CHAINED, spark_hosts, tmp_path, **{"spark.mooring.drain.on.sigterm": "true"})
    os.kill(started.submission.process.pid, signal.SIGTERM)
    started.submission.wait(180)
    started.assert_drained()
