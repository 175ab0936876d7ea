"""A job that runs until it is told to end, with input file by file, and the records of its agent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from mooring.errors import MetadataStoreMissing
from mooring.jar import jar_path
from mooring.model import JobModel, job_model_from_json
from mooring.records.open import open_records
from mooring.testing.cluster import SparkCluster
from mooring.testing.events import START_MS, AuctionHouse, write_events
from mooring.testing.submission import Submission
from tests.integration.support import answers
from tests.integration.support.job_outputs import counted, read_sink
from tests.integration.support.short_lived_settings import SHORT_LIVED

JOB = Path(__file__).parents[1] / "jobs" / "until_told.py"
PARTITIONS = 8
CONF = {
    "spark.plugins": "io.mooring.MooringPlugin",
    "spark.mooring.processor.rebind.timeout": "3s",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.session.timeZone": "UTC",
    **SHORT_LIVED,
}


def first_plan_for(executors: int) -> dict[str, str]:
    """Settings that make the first batch wait for this number of executors with one core each."""
    return {
        "spark.cores.max": str(executors),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "180s",
    }


def status_in(place: str) -> dict[str, Any]:
    """The agent's status in a metadata store; empty when there is none yet."""
    with closing(open_records(place, {}, print)) as records:
        try:
            record = records.status()
        except MetadataStoreMissing:  # the job has not made the topic yet
            return {}
    return json.loads(record) if record else {}


def batches_in(checkpoint: Path, log: str) -> set[int]:
    """The batches that have an entry in a log, `offsets` or `commits`, of a query."""
    return {int(entry.name) for entry in (checkpoint / log).glob("*") if entry.name.isdigit()}


def committed_in(checkpoint: Path) -> int:
    """How many batches of a query were committed; Spark may have removed the entries of the first ones."""
    return max(batches_in(checkpoint, "commits"), default=-1) + 1


def offset_of(checkpoint: Path, batch: int) -> int:
    """The offset of the file source, its only one or its last one, after a batch: the newest entry of its log."""
    return int(json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])["logOffset"])


def is_at_rest(checkpoint: Path) -> bool:
    """Whether a query has batches, none is running, and none without data is about to begin."""
    begun, ended = batches_in(checkpoint, "offsets"), batches_in(checkpoint, "commits")
    return bool(ended) and begun == ended and not _owes_a_batch(checkpoint, max(ended))


def _owes_a_batch(checkpoint: Path, last: int) -> bool:
    """Whether Spark will run one more batch, without data: the last one moved the watermark, and there is state."""
    (ran_with,) = re.findall(r'"batchWatermarkMs":(\d+)', (checkpoint / "offsets" / str(last)).read_text())
    (next_one,) = re.findall(r'"nextBatchWatermarkMs":(\d+)', (checkpoint / "commits" / str(last)).read_text())
    return int(next_one) > int(ran_with) and (checkpoint / "state").exists()


class Load:
    """One job on a cluster, its input and its answer. A subclass can have another job."""

    job = JOB
    query = "counts"
    answer = staticmethod(answers.windowed_aggregation)

    def __init__(self, directory: Path, metadata: str = "", files: int = 12) -> None:
        """The input has `files` files, and one more with the event that ends all windows."""
        self.events, self._directory = directory / "events", directory
        self.checkpoint, self.output = directory / "checkpoints" / self.query, directory / "outputs" / self.query
        self.metadata = metadata or str(directory / "metadata")
        self._files = list(AuctionHouse(seed=3, files=files).bid_files())
        self.written = 0

    def submit(self, cluster: SparkCluster, conf: Mapping[str, str] | None = None) -> Submission:
        own = {"spark.jars": str(jar_path()), "spark.mooring.metadata": self.metadata}
        arguments = [self.events, self._directory / "checkpoints", self._directory / "outputs"]
        return cluster.submit(self.job, arguments, conf={**CONF, **own, **(conf or {})})

    def offer(self, files: int) -> int:
        """Write `files` more input files; returns the number of the last one."""
        for number in range(self.written, self.written + files):
            write_events(self._files[number], self.events / "bids", number, modified=START_MS / 1000 + number)
        self.written += files
        return self.written - 1

    def is_answered(self, number: int) -> bool:
        """Whether the batch with this input file is committed."""
        logs = (self.checkpoint / "sources/0").glob("[0-9]*")  # one in ten is "9.compact"
        offsets = [int(log.name.split(".")[0]) for log in logs if f"/{number:06}." in log.read_text()]
        committed = self.committed()
        return bool(offsets) and committed > 0 and min(offsets) <= offset_of(self.checkpoint, committed - 1)

    def is_idle(self) -> bool:
        """Whether all written input is committed, and no batch is running or about to begin."""
        return is_at_rest(self.checkpoint) and self.is_answered(self.written - 1)

    def committed_at_ms(self) -> float:
        """The time of the newest commit, in milliseconds since the epoch."""
        return max(entry.stat().st_mtime for entry in (self.checkpoint / "commits").glob("*")) * 1000

    def feed(self, job: Submission, files: int = 1) -> None:
        """Write `files` more input files, and wait for a batch."""
        committed = self.committed()
        self.offer(files)
        job.wait_until(lambda: self.committed() > committed, "a batch", 120)

    def leave_out_the_rest(self) -> None:
        """Drop the input files that are not written yet, except the one with the event that ends all windows."""
        del self._files[self.written : -1]

    def offer_the_rest_and_finish(self, job: Submission) -> None:
        self.offer(len(self._files) - self.written)
        (self.events / "STOP").touch()
        job.finish(240)

    def status(self) -> dict[str, Any]:
        return status_in(self.metadata)

    def job_models(self) -> dict[int, JobModel]:
        """The job models that are kept, by version."""
        with closing(open_records(self.metadata, {}, print)) as records:
            return {version: job_model_from_json(text) for version, text in records.job_models().items()}

    def committed(self) -> int:
        """The number of batches that were committed."""
        return committed_in(self.checkpoint)

    def counter(self, name: str) -> int:
        return int(self.status().get("counters", {}).get(name, 0))

    def sizes(self) -> list[int]:
        """The number of tasks of each processor, sorted."""
        return sorted(len(processor["tasks"]) for processor in self.status().get("processors", []))

    def is_in_force(self) -> bool:
        """Whether the plan that the status shows is in force."""
        return bool(self.status()["barrier"]["state"] == "DONE")

    def assert_right(self) -> None:
        assert counted(read_sink(self.output)) == counted(self.answer(self.events)[self.query])
