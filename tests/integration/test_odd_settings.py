"""Settings of Spark that change how state is written, sent or held, with copies, through a kill and a restart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mooring.jar import jar_path
from mooring.testing.cluster import SparkCluster
from tests.integration.support.job_runs import JOB_CONF, JOBS, PYTHON_JOBS, JobRun, write_input
from tests.integration.support.job_with_warm_copies import STANDBY
from tests.integration.support.spark_packages import line_of_this_spark

pytestmark = pytest.mark.heavy

STATE = "spark.sql.streaming.stateStore"
SETTINGS: dict[str, Mapping[str, str]] = {
    "Kryo": {"spark.serializer": "org.apache.spark.serializer.KryoSerializer"},
    "bounded memory": {
        f"{STATE}.rocksdb.boundedMemoryUsage": "true",
        f"{STATE}.rocksdb.maxMemoryUsageMB": "64",
    },
    "unloaded on commit": {f"{STATE}.unloadOnCommit": "true"},
    "row checksums": {f"{STATE}.rowChecksum.enabled": "true"},
    "Avro": {f"{STATE}.encodingFormat": "avro"},
    "new in Spark 4.3": {
        "spark.sql.streaming.useStreamlineAggregator": "true",
        "spark.sql.streaming.statefulOperator.incrementalCleanupFactor": "2",
        "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "true",
    },
}


@pytest.fixture(scope="module")
def spark_hosts_options() -> dict[str, Any]:
    return {"hosts": 2, "executor_memory": "768m", "conf": JOB_CONF}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_input(tmp_path_factory.mktemp("events"))


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_answer_is_right(setting: str, spark_hosts: SparkCluster, events: Path, tmp_path: Path) -> None:
    if setting == "new in Spark 4.3" and line_of_this_spark() in ("4.0", "4.1", "4.2"):
        pytest.skip("this Spark does not have these settings")
    name = "transform_with_state" if setting == "Avro" else "windowed_aggregation"
    run = JobRun(next(job for job in PYTHON_JOBS if job.name == name), events, tmp_path)
    conf = {"spark.plugins": "io.mooring.MooringPlugin", "spark.jars": str(jar_path()), **STANDBY, **SETTINGS[setting]}
    run.through_a_kill_and_a_restart(spark_hosts, JOBS / f"{name}.py", conf)
    run.assert_right()
