"""The jobs of `jobs/`, each with its offline answer, and runs of them through a kill and a restart."""

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.testing.cluster import SparkCluster
from mooring.testing.events import START_MS, AuctionHouse, write_events
from mooring.testing.spark_home import spark_home
from mooring.testing.submission import Submission
from tests.integration.support import answers
from tests.integration.support.file_fed_job import committed_in
from tests.integration.support.job_outputs import Row, counted, read_batches, read_sink
from tests.integration.support.short_lived_settings import SHORT_LIVED

JOBS = Path(__file__).parents[1] / "jobs"
FILES = 10
KILL_AFTER, STOP_AFTER = 2, 5  # batches; there are twelve: one for each file, one for the flush event, one without data

JOB_CONF = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    **SHORT_LIVED,
}


@dataclass(frozen=True)
class Job:
    """A job by the name of its file, its right answer, the function that reads its outputs, and the way to stop it."""

    name: str
    answer: Callable[[Path], answers.Answer]
    read: Callable[[Path], list[Row]] = read_sink
    stop: Callable[[Submission], None] = Submission.terminate


PYTHON_JOBS = [
    Job("left_outer_join", answers.left_outer_join, stop=Submission.kill),
    Job("windowed_aggregation", answers.windowed_aggregation),
    Job("transform_with_state", answers.transform_with_state, stop=Submission.kill),
    Job("two_queries", answers.two_queries),
    Job("drop_duplicates_within_watermark", answers.drop_duplicates_within_watermark, stop=Submission.kill),
    Job("drop_duplicates", answers.drop_duplicates),
    Job("inner_join", answers.inner_join, stop=Submission.kill),
    Job("session_windows", answers.session_windows),
    Job("apply_in_pandas_with_state", answers.apply_in_pandas_with_state, stop=Submission.kill),
    Job("chained_aggregations", answers.chained_aggregations),
    Job("stateless_beside_stateful", answers.stateless_beside_stateful, stop=Submission.kill),
    Job("foreach_batch", answers.foreach_batch, read=lambda directory: read_batches(directory, key="bidder")),
]
SCALA_JOB = Job("AuctionResults", answers.auction_results, stop=Submission.kill)
CONNECT_JOB = Job("through_connect", answers.through_connect)


def compile_scala(source: Path, jar: Path, home: Path | None = None) -> Path:
    """Compile a Scala file into a jar with the compiler of the Spark in `home`, by default of this PySpark."""
    compiler = ["java", "-cp", f"{home or spark_home()}/jars/*", "scala.tools.nsc.Main", "-usejavacp", "-release", "17"]
    subprocess.run([*compiler, "-d", jar, source], check=True)
    return jar


def write_input(directory: Path) -> Path:
    """Write both inputs of the jobs. The files' times are a second apart, so that Spark reads them in order."""
    house = AuctionHouse(seed=3, files=FILES)
    for kind, files in {"bids": house.bid_files(), "auctions": house.auction_files()}.items():
        for number, rows in enumerate(files):
            write_events(rows, directory / kind, number, modified=START_MS / 1000 + number)
    return directory


class JobRun:
    """One job from its first batch to its last, over all submissions of it."""

    def __init__(self, job: Job, events: Path, directory: Path) -> None:
        self.job = job
        self.answer = job.answer(events)
        self.outputs = directory / "outputs"
        self.arguments = [events, directory / "checkpoints", self.outputs]
        self._checkpoints = [directory / "checkpoints" / query for query in self.answer]

    def committed(self) -> int:
        """The number of committed batches of the slowest query of the job."""
        return min(committed_in(checkpoint) for checkpoint in self._checkpoints)

    def disturb(self, cluster: SparkCluster, submission: Submission) -> None:
        """Kill an executor after some batches, and wait for some more."""
        submission.wait_until(lambda: self.committed() >= KILL_AFTER, "the first batches", timeout=180)
        cluster.kill_executor("127.0.0.3", submission.application)
        submission.wait_until(lambda: self.committed() >= STOP_AFTER, "batches after the kill", timeout=180)

    def through_a_kill_and_a_restart(
        self, cluster: SparkCluster, file: Path, conf: Mapping[str, str], main_class: str | None = None
    ) -> None:
        """Run the job in `file` to its end, in two applications; the first one loses an executor."""

        def submit() -> Submission:
            return cluster.submit(file, self.arguments, conf=conf, main_class=main_class)

        first = submit()
        self.disturb(cluster, first)
        self.job.stop(first)
        self.finish(submit().finish)

    def finish(self, last: Callable[[float], None]) -> None:
        """Call `last` with its time limit, to finish the last application, which must still commit some batches."""
        halfway = self.committed()
        last(300.0)
        assert STOP_AFTER <= halfway < self.committed(), "the application was not stopped on the way"

    def assert_right(self) -> None:
        """Check the outputs row by row: no row is missing, surplus or twice."""
        for output, rows in self.answer.items():
            assert rows, "an empty answer shows nothing"
            wanted, found = counted(rows), counted(self.job.read(self.outputs / output))
            missing, surplus = wanted - found, found - wanted
            assert not missing and not surplus, (
                f"{self.job.name}, output {output}: of {len(rows)} rows {sum(missing.values())} are missing, "
                f"{sum(surplus.values())} are too much\nmissing: {missing.most_common(5)}\n"
                f"too much: {surplus.most_common(5)}"
            )
