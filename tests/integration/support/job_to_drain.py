"""A job of `jobs/` that runs until it is drained, its input, and the marks in its checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mooring.cli.main import main
from mooring.jar import jar_path
from mooring.testing.cluster import SparkCluster
from mooring.testing.events import START_MS, AuctionHouse, write_events
from mooring.testing.submission import Submission
from tests.integration.support import answers
from tests.integration.support.file_fed_job import batches_in, committed_in, is_at_rest, offset_of, status_in
from tests.integration.support.job_runs import FILES, JOBS, PYTHON_JOBS, Job, JobRun

WITHOUT_AN_END = [job for job in PYTHON_JOBS if job.name != "foreach_batch"]
"""The jobs that can run without an end; the one that is left out ends by itself."""

KILLED_AT = ["asked", "frozen", "flushing", "drained"]
"""The phases of the first query's drain at which tests kill the driver, by the marks in its checkpoint."""


class OpenInput:
    """The jobs' input without a last event that moves the watermark past all windows."""

    def __init__(self, directory: Path, first: int = 0) -> None:
        """`first` is the number of the first file."""
        house = AuctionHouse(seed=5, files=FILES, flush=False)
        self.directory = directory
        self._files = {"bids": list(house.bid_files()), "auctions": list(house.auction_files())}
        self.written = first

    def offer(self, files: int) -> None:
        """Write `files` more input files of each kind."""
        for number in range(self.written, self.written + files):
            for kind, of_kind in self._files.items():
                write_events(of_kind[number], self.directory / kind, number, modified=START_MS / 1000 + number)
        self.written += files


class DrainableJob:
    """A running job that has committed two batches of each of its queries."""

    def __init__(
        self,
        job: Job,
        cluster: SparkCluster,
        directory: Path,
        until: str | None = None,
        jar: Path | None = None,
        env: Mapping[str, str] | None = None,
        **conf: str,
    ) -> None:
        """Start the job. With `until`, two batches of this query are enough. `jar` is for a job in Scala.

        `env` is for each submission.
        """
        self.events = OpenInput(directory / "events")
        self.events.offer(4)
        self._job, self._cluster, self._directory = job, cluster, directory
        self._program = JOBS / f"{job.name}.py" if jar is None else jar
        self._main_class = None if jar is None else job.name
        self._metadata, self._env = directory / "metadata", env
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
        return self._cluster.submit(self._program, arguments, conf=settings, main_class=self._main_class, env=self._env)

    def committed(self, query: str | None = None) -> int:
        """The number of committed batches of a query, or of the slowest query."""
        queries = [query] if query is not None else self.queries
        return min(committed_in(self._checkpoint(name)) for name in queries)

    def is_idle(self) -> bool:
        """Whether each query has committed all written input, and no batch is running or about to begin."""
        return all(
            is_at_rest(self._checkpoint(query)) and self.files_read(query) == self.events.written
            for query in self.queries
        )

    def committed_at_ms(self) -> float:
        """The time of the newest commit of any query, in milliseconds since the epoch."""
        entries = (entry for query in self.queries for entry in (self._checkpoint(query) / "commits").glob("*"))
        return max(entry.stat().st_mtime for entry in entries) * 1000

    def status(self) -> dict[str, Any]:
        return status_in(str(self._metadata))

    def counter(self, name: str) -> int:
        return int(self.status().get("counters", {}).get(name, 0))

    def files_read(self, query: str) -> int:
        """The number of input files in batches of a query."""
        checkpoint = self._checkpoint(query)
        return offset_of(checkpoint, max(batches_in(checkpoint, "offsets"))) + 1

    def is_at(self, phase: str) -> bool:
        """Whether the drain of the query that feeds the others has reached this phase."""
        return KILLED_AT.index(self.marker("counts") or "asked") >= KILLED_AT.index(phase) and any(
            self.marker(query) for query in self.queries
        )

    def marker(self, query: str) -> str | None:
        """The phase of a query's drain, by the marks in its checkpoint; None without a drain."""
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
        """Check that the output is the offline answer over all input, and that no state is left."""
        run = JobRun(
            replace(self._job, answer=answers.drained(self._job.answer)), self.events.directory, self._directory
        )
        run.assert_right()
        for query in self.queries:
            marked = self._checkpoint(query) / "_mooring"
            assert json.loads((marked / "drained.json").read_text())["state-rows-left"] == 0, query
            assert not (marked / "draining.json").exists()
