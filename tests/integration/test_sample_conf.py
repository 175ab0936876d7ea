"""A job with jars of its own runs with the sample configuration, where Mooring's jar lies on the host."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mooring.cli.machine.conf import render
from mooring.jar import jar_path
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_environment, spark_home

JOB = """
import sys
from pyspark.sql import SparkSession, functions as f
spark = SparkSession.builder.master("local[2]").appName("sample").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).option("startTimestamp", 0).load()
writer = rows.groupBy((f.col("value") % 7).alias("key")).count().writeStream.outputMode("complete").format("noop")
writer.option("checkpointLocation", sys.argv[1]).trigger(availableNow=True).start().awaitTermination()
"""

pytestmark = [pytest.mark.heavy, pytest.mark.one_jvm]


def test_the_sample_for_spark_submit_outlives_a_jobs_own_jars(tmp_path: Path) -> None:
    job, jar, sample, store = (tmp_path / name for name in ("job.py", "users.jar", "sample.conf", "store"))
    job.write_text(JOB)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("users.txt", "of the job")
    sample.write_text(render("spark-submit", str(jar_path())).replace("/data/mooring", str(store)))
    command = [spark_home() / "bin" / "spark-submit", "--properties-file", sample, "--jars", jar]
    command += ["--conf", "spark.driver.host=127.0.0.1", job, tmp_path / "checkpoint"]
    process = ChildProcess("sample", command, tmp_path / "log", spark_environment({}), cwd=tmp_path)
    with process.running():
        assert process.wait(240) == 0, process.story()
    assert any(path.is_file() for path in store.rglob("1_*")), "the host keeps the state that was written"
