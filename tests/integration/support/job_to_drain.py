"""A job of `jobs/` that goes on until it is drained, its input, and what its checkpoints say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mooring.cli.main import main
from mooring.jar import jar_path
from mooring.testing.cluster import SparkCluster
from mooring.testing.events import START_MS, AuctionHouse, write_events
from mooring.testing.submission import Submission
from tests.integration.support import answers
from tests.integration.support.file_fed_job import batches_in, is_at_rest, status_in
from tests.integration.support.job_runs import FILES, HEAVY_JOBS, JOBS, QUICK_JOBS, Job, JobRun

WITHOUT_AN_END = [job for job in (*QUICK_JOBS, *HEAVY_JOBS) if job.name != "foreach_batch"]
"""The jobs that go on when they are told to; the one left out ends by itself."""

KILLED_AT = ["asked", "frozen", "flushing", "drained"]
"""How far the query that is drained first is, by the markers in its checkpoint, when the driver is killed."""


class OpenInput:
    """The jobs' input without an end: nothing in it moves the watermark past all windows."""

    def __init__(self, directory: Path, first: int = 0) -> None:
        """`first`: the number of the first file that it has."""
        house = AuctionHouse(seed=5, files=FILES, flush=False)
        self.directory = directory
        self._files = {"bids": list(house.bid_files()), "auctions": list(house.auction_files())}
        self.written = first

    def offer(self, files: int) -> None:
        """So many files more of each kind."""
        for number in range(self.written, self.written + files):
            for kind, of_kind in self._files.items():
                write_events(of_kind[number], self.directory / kind, number, modified=START_MS / 1000 + number)
        self.written += files


class Started:
    """A job that has committed two batches of each of its queries, and goes on."""

    def __init__(
        self,
        job: Job,
        cluster: SparkCluster,
        directory: Path,
        until: str | None = None,
        jar: Path | None = None,
        **conf: str,
    ) -> None:
        """Start it; `until`: the query of which two batches are enough; `jar`: of a job in Scala."""
        self.events = OpenInput(directory / "events")
        self.events.offer(4)
        self._job, self._cluster, self._directory = job, cluster, directory
        self._program = JOBS / f"{job.name}.py" if jar is None else jar
        self._main_class = None if jar is None else job.name
        self._metadata = directory / "metadata"
        self._conf = {
            "spark.plugins": "io.mooring.MooringPlugin",
            "spark.jars": str(jar_path()),
            "spark.mooring.metadata": str(self._metadata),
            **conf,
        }
        self.queries = job.answer(self.events.directory).keys()
        self.submission = self.submit()
        self.submission.wait_until(lambda: self.committed(until) >= 2, "two batches of each query", 180)

    def submit(self, *words: str, **conf: str) -> Submission:
        directories = [self.events.directory, self._directory / "checkpoints", self._directory / "outputs"]
        arguments = [*directories, "goes-on", *words]
        settings = {**self._conf, **conf}
        return self._cluster.submit(self._program, arguments, conf=settings, main_class=self._main_class)

    def committed(self, query: str | None = None) -> int:
        """The batches that this query, else the slowest of them, has committed."""
        queries = [one for one in self.queries if query in (None, one)]
        return min(len(batches_in(self._checkpoint(one), "commits")) for one in queries)

    def is_idle(self) -> bool:
        """Whether all that was offered is committed by each query, and no batch is under way or about to begin."""
        return all(
            is_at_rest(self._checkpoint(query)) and self.files_read(query) == self.events.written
            for query in self.queries
        )

    def committed_at_ms(self) -> float:
        """When the newest batch of any query was committed; milliseconds since 1970."""
        entries = (entry for query in self.queries for entry in (self._checkpoint(query) / "commits").glob("*"))
        return max(entry.stat().st_mtime for entry in entries) * 1000

    def status(self) -> dict[str, Any]:
        return status_in(str(self._metadata))

    def counter(self, name: str) -> int:
        return int(self.status().get("counters", {}).get(name, 0))

    def files_read(self, query: str) -> int:
        """How many input files are in batches of this query: each was one."""
        offsets = self._checkpoint(query) / "offsets"
        newest = offsets / str(max(batches_in(offsets.parent, "offsets")))
        return int(json.loads(newest.read_text().splitlines()[-1])["logOffset"]) + 1

    def is_at(self, phase: str) -> bool:
        """Whether the query that feeds the others is so far, or farther."""
        return KILLED_AT.index(self.marker("counts") or "asked") >= KILLED_AT.index(phase) and any(
            self.marker(query) for query in self.queries
        )

    def marker(self, query: str) -> str | None:
        """How far its drain is, by what its checkpoint says; None when there is none."""
        marked = self._checkpoint(query) / "_mooring"
        if (marked / "drained.json").exists():
            return "drained"
        try:
            return str(json.loads((marked / "draining.json").read_text())["phase"])
        except FileNotFoundError:
            return None

    def _checkpoint(self, query: str) -> Path:
        return self._directory / "checkpoints" / query

    def command(self, *words: str) -> int:
        return main([words[0], "--metadata", str(self._metadata), *words[1:]])

    def assert_drained(self) -> None:
        """Row for row the offline answer over all input, no state, and said so."""
        run = JobRun(
            replace(self._job, answer=answers.drained(self._job.answer)), self.events.directory, self._directory
        )
        run.assert_right()
        for query in self.queries:
            marked = self._checkpoint(query) / "_mooring"
            assert json.loads((marked / "drained.json").read_text())["state-rows-left"] == 0, query
            assert not (marked / "draining.json").exists()
