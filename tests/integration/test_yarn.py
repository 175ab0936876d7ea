"""Applications on a YARN cluster, with a real ResourceManager and real NodeManagers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mooring.errors import ClusterError
from mooring.testing.probes import wait_until
from mooring.testing.yarn import YarnCluster
from tests.integration.support.job_runs import JOB_CONF, JOBS, SCALA_JOB, compile_scala
from tests.integration.support.job_to_drain import DrainableJob

pytestmark = pytest.mark.heavy


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python with no package but those of its own."""
    place = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    python = place / "bin" / "python3"
    has_pyspark = subprocess.run([python, "-c", "import pyspark"], env={}, capture_output=True, check=False)
    assert has_pyspark.returncode != 0
    return python


def test_a_scala_job_in_cluster_mode_needs_no_package_of_python(tmp_path: Path, bare_python: Path) -> None:
    jar = compile_scala(JOBS / "scala" / f"{SCALA_JOB.name}.scala", tmp_path / "job.jar")
    conf = {**JOB_CONF, "spark.executor.instances": "2", "spark.submit.deployMode": "cluster"}
    with YarnCluster(2, work_dir=tmp_path / "cluster", conf=conf, host_memory_mb=3000) as cluster:
        agent = {"spark.mooring.agent.python": str(bare_python)}
        job = DrainableJob(SCALA_JOB, cluster, tmp_path, jar=jar, **agent)
        job.submission.wait_until(
            lambda: sum(len(processor["tasks"]) for processor in job.status().get("processors", [])) > 0, "a plan", 60
        )
        assert job.command("drain", "--wait", "--timeout", "180s") == 0
        job.submission.finish(120)
        assert "no agent could be started" not in job.submission.log
    job.assert_drained()


def test_hosts_come_and_go(tmp_path: Path) -> None:
    first, second = "127.0.0.2", "127.0.0.3"
    with YarnCluster(2, work_dir=tmp_path / "cluster") as cluster:
        assert cluster.nodes() == {first: "RUNNING", second: "RUNNING"}
        cluster.kill_host(first)
        cluster.revive_host(first)  # before YARN counts the host as lost
        assert cluster.host(first).node_manager.is_running
        cluster.decommission(second)
        wait_until(lambda: cluster.nodes()[second] == "DECOMMISSIONED", "the host to leave", 60)
        cluster.host(second).node_manager.wait(60)
        cluster.revive_host(second)
        assert cluster.nodes() == {first: "RUNNING", second: "RUNNING"}
        with pytest.raises(ClusterError, match=r"no host '127.0.0.9'; there are 127.0.0.2, 127.0.0.3"):
            cluster.kill_host("127.0.0.9")
