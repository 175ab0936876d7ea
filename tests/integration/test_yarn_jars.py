"""The plugin's jar on each node, as in the sample for EMR, beside a job that has jars of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.cli.machine import conf
from mooring.jar import jar_path
from mooring.testing.yarn import YarnCluster
from tests.integration.support import answers
from tests.integration.support.job_runs import JOB_CONF, JOBS, Job, compile_scala
from tests.integration.support.job_to_drain import DrainableJob

pytestmark = pytest.mark.heavy

WITH_A_CLASS = Job("with_a_class_of_the_users", answers.windowed_aggregation)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with YarnCluster(2, work_dir=directory, conf=JOB_CONF, host_memory_mb=3000) as cluster:
        yield cluster


def sample() -> dict[str, dict[str, str]]:
    """The properties of the classifications of the sample for EMR, with the jar of this test."""
    found = json.loads(conf.render("emr", str(jar_path())))
    nested = [inner for outer in found for inner in outer.get("Configurations", [])]
    return {one["Classification"]: one["Properties"] for one in [*found, *nested]}


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_job_with_its_own_jars_runs_with_mooring(cluster: YarnCluster, tmp_path: Path, mode: str) -> None:
    defaults, exported = sample()["spark-defaults"], sample()["export"]
    own = compile_scala(JOBS / "scala" / "Same.scala", tmp_path / "own.jar")
    env = {key: value.replace(f"${key}:", "") for key, value in exported.items()}
    settings = {key: defaults[key] for key in ("spark.plugins", "spark.yarn.dist.jars")}
    settings |= {"spark.submit.deployMode": mode, "spark.submit.pyFiles": str(JOBS / "streams.py")}
    job = DrainableJob(WITH_A_CLASS, cluster, tmp_path, env=env, **{"spark.jars": str(own), **settings})
    job.submission.wait_until(lambda: len(job.status().get("processors", [])) == 2, "a plan", 60)
    assert {processor["state"] for processor in job.status()["processors"]} == {"bound"}
    assert job.command("drain", "--wait", "--timeout", "180s") == 0
    job.submission.finish(120)
    job.assert_drained()


def test_without_the_class_path_of_the_sample_a_driver_that_submits_does_not_find_the_plugin(
    cluster: YarnCluster, tmp_path: Path
) -> None:
    settings = {key: sample()["spark-defaults"][key] for key in ("spark.plugins", "spark.yarn.dist.jars")}
    job = cluster.submit(JOBS / "windowed_aggregation.py", [tmp_path, tmp_path, tmp_path], conf=settings)
    assert job.wait(120) != 0
    assert "ClassNotFoundException: io.mooring.MooringPlugin" in job.log
