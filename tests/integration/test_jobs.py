"""Plain streaming jobs on three hosts, an executor killed and the application restarted on the way: right answers.

The jobs know nothing of Mooring. With MOORING_TEST_STOCK=1 they run on stock Spark, to tell whose fault a failure is.
"""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.cluster import SparkCluster
from mooring.testing.probes import accepts_connections, free_port
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_environment
from mooring.testing.submission import Submission
from tests.integration.support.job_runs import (
    CONNECT_JOB,
    JOB_CONF,
    JOBS,
    PYTHON_JOBS,
    SCALA_JOB,
    Job,
    JobRun,
    compile_scala,
    write_input,
)


@pytest.fixture(scope="module")
def spark_hosts_options() -> dict[str, Any]:
    return {"executor_memory": "768m", "conf": JOB_CONF}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_input(tmp_path_factory.mktemp("events"))


@pytest.fixture(scope="module")
def plugin_conf() -> dict[str, str]:
    """The switch, and nothing else."""
    if os.environ.get("MOORING_TEST_STOCK") == "1":
        return {}
    from mooring.jar import jar_path

    return {"spark.plugins": "io.mooring.MooringPlugin", "spark.jars": str(jar_path())}


@pytest.mark.heavy
@pytest.mark.parametrize("job", PYTHON_JOBS, ids=lambda job: job.name)
def test_a_python_job_gives_the_right_answer_through_a_kill_and_a_restart(
    job: Job, spark_hosts: SparkCluster, events: Path, plugin_conf: dict[str, str], tmp_path: Path
) -> None:
    run = JobRun(job, events, tmp_path)
    run.through_a_kill_and_a_restart(spark_hosts, JOBS / f"{job.name}.py", plugin_conf)
    run.assert_right()


@pytest.mark.heavy
def test_a_scala_job_gives_the_right_answer_through_a_kill_and_a_restart(
    spark_hosts: SparkCluster, events: Path, plugin_conf: dict[str, str], tmp_path: Path
) -> None:
    jar = compile_scala(JOBS / "scala" / f"{SCALA_JOB.name}.scala", tmp_path / "job.jar")
    run = JobRun(SCALA_JOB, events, tmp_path)
    run.through_a_kill_and_a_restart(spark_hosts, jar, plugin_conf, main_class=SCALA_JOB.name)
    run.assert_right()


@pytest.mark.heavy
def test_a_connect_job_gives_the_right_answer_through_a_kill_and_a_restart_of_the_server(
    spark_hosts: SparkCluster, events: Path, plugin_conf: dict[str, str], tmp_path: Path
) -> None:
    run = JobRun(CONNECT_JOB, events, tmp_path)

    server, client = start_connect(spark_hosts, run, plugin_conf, tmp_path)
    run.disturb(spark_hosts, server)
    server.terminate()
    client.kill()

    server, client = start_connect(spark_hosts, run, plugin_conf, tmp_path)
    run.finish(client.finish)
    server.terminate()
    run.assert_right()


def start_connect(
    cluster: SparkCluster, run: JobRun, conf: dict[str, str], directory: Path
) -> tuple[Submission, ChildProcess]:
    """A Spark Connect server on the cluster, given the plugin, and a client that knows of none."""
    port = free_port()
    server = cluster.submit(
        "spark-internal",
        main_class="org.apache.spark.sql.connect.service.SparkConnectServer",
        conf={**conf, "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)},
    )
    server.wait_until(lambda: accepts_connections("127.0.0.1", port), "the Connect server")
    command = [sys.executable, JOBS / f"{CONNECT_JOB.name}.py", *run.arguments, f"sc://127.0.0.1:{port}"]
    client = ChildProcess("connect client", command, directory / "client.log", spark_environment({}), cwd=directory)
    client.start()
    return server, client
