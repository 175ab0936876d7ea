"""A job with jars of its own runs with the sample configuration, on a cluster whose hosts have Mooring's jar."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mooring.cli.conf import render
from mooring.jar import jar_path
from mooring.testing.cluster import SparkCluster

JOB = """
import sys
from pyspark.sql import SparkSession, functions as f
spark = SparkSession.builder.appName("sample").getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).option("startTimestamp", 0).load()
writer = rows.groupBy((f.col("value") % 7).alias("key")).count().writeStream.outputMode("complete").format("noop")
writer.option("checkpointLocation", sys.argv[1]).trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.heavy
def test_the_sample_for_spark_submit_outlives_a_jobs_own_jars(spark_hosts: SparkCluster, tmp_path: Path) -> None:
    job, jar = tmp_path / "job.py", tmp_path / "users.jar"
    job.write_text(JOB)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("users.txt", "of the job")
    lines = render("spark-submit", str(jar_path())).splitlines()
    sample = dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    del sample["spark.mooring.local.store.dir"]  # each of these hosts has its own
    spark_hosts.submit(job, [tmp_path / "checkpoint"], conf=sample, jars=[jar], wait=True)
    kept = [path for host in spark_hosts.hosts.values() for path in host.local_store.rglob("1_*") if path.is_file()]
    assert kept, "the hosts keep the state that executors with the plugin have written"
