"""Plain streaming jobs on three hosts, an executor killed and the application restarted on the way: the answer is right.

The jobs know nothing of Mooring. With MOORING_TEST_STOCK=1 they run on stock Spark, to show that a failure is ours.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.cluster import SparkCluster
from mooring.testing.events import START_MS, AuctionHouse, write_events
from mooring.testing.probes import accepts_connections, free_port
from mooring.testing.pytest_plugin import spark_hosts  # noqa: F401
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_environment, spark_home
from mooring.testing.submission import Submission
from tests.integration import answers
from tests.integration.outputs import read_batches, read_sink

JOBS = Path(__file__).parent / "jobs"
PARTITIONS = 4
KILL_AFTER, STOP_AFTER = 2, 6  # batches; there are 14


@dataclass(frozen=True)
class Job:
    """A job by its file's name, its offline answer, and the queries that it runs."""

    name: str
    answer: Callable[[Path], answers.Answer]
    read: Callable[[Path], list[answers.Row]] = read_sink


QUICK_JOBS = [
    Job("windowed_aggregation", answers.windowed_aggregation),
    Job("drop_duplicates_within_watermark", answers.drop_duplicates_within_watermark),
    Job("left_outer_join", answers.left_outer_join),
    Job("transform_with_state", answers.transform_with_state),
    Job("two_queries", answers.two_queries),
    Job("foreach_batch", answers.foreach_batch, lambda directory: read_batches(directory, key="bidder")),
]
HEAVY_JOBS = [
    Job("drop_duplicates", answers.drop_duplicates),
    Job("inner_join", answers.inner_join),
    Job("session_windows", answers.session_windows),
    Job("apply_in_pandas_with_state", answers.apply_in_pandas_with_state),
    Job("chained_aggregations", answers.chained_aggregations),
    Job("stateless_beside_stateful", answers.stateless_beside_stateful),
]


@pytest.fixture(scope="module")
def spark_hosts_options() -> dict[str, Any]:
    return {"executor_memory": "768m", "conf": {"spark.sql.shuffle.partitions": str(PARTITIONS), **QUICK_TO_START}}


# A test's JVMs live for half a minute: the optimising compiler and several collector threads cost more than they bring.
_SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
QUICK_TO_START = {
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": _SHORT_LIVED,
    "spark.executor.extraJavaOptions": _SHORT_LIVED,
}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input of all jobs: bids/ and auctions/, a second apart in time of modification."""
    directory = tmp_path_factory.mktemp("events")
    house = AuctionHouse(seed=3)
    for kind, files in {"bids": house.bid_files(), "auctions": house.auction_files()}.items():
        for number, rows in enumerate(files):
            write_events(rows, directory / kind, number, modified=START_MS / 1000 + number)
    return directory


@pytest.fixture(scope="module")
def plugin_conf() -> dict[str, str]:
    if os.environ.get("MOORING_TEST_STOCK") == "1":
        return {}
    from mooring.jar import jar_path

    return {"spark.plugins": "io.mooring.MooringPlugin", "spark.jars": str(jar_path())}


class Run:
    """One job from the first batch to the last: where its files are, how far it is."""

    def __init__(self, events: Path, directory: Path, queries: list[str]) -> None:
        self.arguments = [events, directory / "checkpoints", directory / "outputs"]
        self.outputs = directory / "outputs"
        self._commits = [directory / "checkpoints" / query / "commits" for query in queries]

    def committed(self) -> int:
        """The batches that the slowest of the queries has committed."""
        return min(len([name for name in commits.glob("*") if name.name.isdigit()]) for commits in self._commits)

    def disturb(self, cluster: SparkCluster, submission: Submission) -> None:
        """Kill an executor after some batches; return after some more."""
        submission.wait_until(lambda: self.committed() >= KILL_AFTER, "the first batches", timeout=120)
        cluster.kill_executor("127.0.0.3", submission.application)
        submission.wait_until(lambda: self.committed() >= STOP_AFTER, "batches after the kill", timeout=120)


def assert_right(job: Job, events: Path, outputs: Path) -> None:
    """Row for row: nothing missing, nothing too much, nothing twice."""
    for output, expected in job.answer(events).items():
        assert expected, "an empty answer shows nothing"
        found, wanted = _counted(job.read(outputs / output)), _counted(expected)
        missing, surplus = wanted - found, found - wanted
        assert not missing and not surplus, (
            f"{job.name}, output {output}: of {wanted.total()} rows {missing.total()} are missing, "
            f"{surplus.total()} too much; missing: {missing.most_common(5)}; too much: {surplus.most_common(5)}"
        )


def _counted(rows: list[answers.Row]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def run_through(
    cluster: SparkCluster, submit: Callable[[], Submission], job: Job, run: Run, stop: Callable[[Submission], None]
) -> None:
    first = submit()
    run.disturb(cluster, first)
    stop(first)
    halfway = run.committed()
    submit().finish(timeout=180)
    assert STOP_AFTER <= halfway < run.committed(), "the application was not stopped on the way"


@pytest.mark.parametrize(
    "job",
    [*QUICK_JOBS, *(pytest.param(job, marks=pytest.mark.heavy) for job in HEAVY_JOBS)],
    ids=lambda job: job.name,
)
def test_a_python_job_gives_the_right_answer_through_a_kill_and_a_restart(
    job: Job, spark_hosts: SparkCluster, events: Path, plugin_conf: dict[str, str], tmp_path: Path  # noqa: F811
) -> None:
    run = Run(events, tmp_path, list(job.answer(events)))

    def submit() -> Submission:
        return spark_hosts.submit(JOBS / f"{job.name}.py", run.arguments, conf=plugin_conf)

    run_through(spark_hosts, submit, job, run, stop=Submission.terminate)
    assert_right(job, events, run.outputs)


def test_a_scala_job_gives_the_right_answer_through_a_kill_and_a_restart(
    spark_hosts: SparkCluster, events: Path, plugin_conf: dict[str, str], tmp_path: Path  # noqa: F811
) -> None:
    jar = compile_scala(JOBS / "scala" / "AuctionResults.scala", tmp_path / "job.jar")
    job = Job("AuctionResults", answers.auction_results)
    run = Run(events, tmp_path, list(job.answer(events)))

    def submit() -> Submission:
        return spark_hosts.submit(jar, run.arguments, conf=plugin_conf, main_class="AuctionResults")

    run_through(spark_hosts, submit, job, run, stop=Submission.kill)
    assert_right(job, events, run.outputs)


def compile_scala(source: Path, jar: Path) -> Path:
    """With the compiler that PySpark brings."""
    compiler = ["java", "-cp", f"{spark_home()}/jars/*", "scala.tools.nsc.Main", "-usejavacp", "-release", "17"]
    subprocess.run([*compiler, "-d", jar, source], check=True)
    return jar


def test_a_spark_connect_job_gives_the_right_answer_through_a_kill_and_a_restart_of_the_server(
    spark_hosts: SparkCluster, events: Path, plugin_conf: dict[str, str], tmp_path: Path  # noqa: F811
) -> None:
    job = Job("through_connect", answers.through_connect)
    run = Run(events, tmp_path, list(job.answer(events)))

    server, client = connect(spark_hosts, run, plugin_conf, tmp_path)
    run.disturb(spark_hosts, server)
    server.terminate()
    client.kill()
    halfway = run.committed()
    server, client = connect(spark_hosts, run, plugin_conf, tmp_path)
    assert client.wait(timeout=180) == 0, client.story()
    server.terminate()
    assert STOP_AFTER <= halfway < run.committed(), "the server was not stopped on the way"
    assert_right(job, events, run.outputs)


def connect(
    cluster: SparkCluster, run: Run, conf: dict[str, str], directory: Path
) -> tuple[Submission, ChildProcess]:
    """Start a Spark Connect server on the cluster, with the plugin, and a client without."""
    port = free_port()
    server = cluster.submit(
        "spark-internal",
        main_class="org.apache.spark.sql.connect.service.SparkConnectServer",
        conf={**conf, "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)},
    )
    server.wait_until(lambda: accepts_connections("127.0.0.1", port), "the Connect server")
    command = [sys.executable, JOBS / "through_connect.py", *run.arguments, f"sc://127.0.0.1:{port}"]
    client = ChildProcess("connect client", command, directory / "client.log", spark_environment({}), cwd=directory)
    client.start()
    return server, client
