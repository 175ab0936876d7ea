"""Queries that are drained: what they hold comes out, all of it, and no state is left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.main import main
from mooring.jar import jar_path
from mooring.testing.cluster import SparkCluster
from mooring.testing.events import START_MS, AuctionHouse, write_events
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
    metadata = tmp_path / "metadata"
    events = OpenInput(tmp_path / "events")
    events.offer(4)
    conf = {
        "spark.plugins": "io.mooring.MooringPlugin",
        "spark.jars": str(jar_path()),
        "spark.mooring.metadata": str(metadata),
    }
    arguments = [events.directory, tmp_path / "checkpoints", tmp_path / "outputs", "goes-on"]
    queries = job.answer(events.directory).keys()
    begun = [tmp_path / "checkpoints" / query / "commits/1" for query in queries]
    submission = spark_hosts.submit(JOBS / f"{job.name}.py", arguments, conf=conf)
    submission.wait_until(lambda: all(commit.exists() for commit in begun), "two batches of each query", 180)
    events.offer(FILES - 4)  # one file a batch: most of it lies there when the drain begins
    exit_code = main(["drain", "--metadata", str(metadata), "--wait", "--timeout", "180s"])
    submission.finish(120)
    said = capsys.readouterr().out
    assert exit_code == 0, said
    run = JobRun(replace(job, answer=answers.drained(job.answer)), events.directory, tmp_path)
    run.assert_right()
    for query in queries:
        marker = json.loads((tmp_path / "checkpoints" / query / "_mooring/drained.json").read_text())
        assert marker["state-rows-left"] == 0, (query, marker, said)
        assert not (tmp_path / "checkpoints" / query / "_mooring/draining.json").exists()
