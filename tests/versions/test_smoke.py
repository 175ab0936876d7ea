"""One job on a small cluster: begun by stock Spark, adopted, lost and restarted, left and drained."""

from __future__ import annotations

from pathlib import Path

from mooring.testing.cluster import SparkCluster
from tests.integration.support.job_runs import JOB_CONF, PYTHON_JOBS
from tests.integration.support.job_to_drain import DrainableJob
from tests.integration.support.job_with_warm_copies import STANDBY, JobWithCopies
from tests.integration.support.restarted_job import FORMAT_KEY, PROVIDER_KEY, STOCK_ROCKSDB

HOSTS = ("127.0.0.2", "127.0.0.3")
TASKS = int(JOB_CONF["spark.sql.shuffle.partitions"])
STOCK = {"spark.plugins": "", PROVIDER_KEY: STOCK_ROCKSDB, FORMAT_KEY: "2"}
MOORING = {"spark.plugins": "io.mooring.MooringPlugin"}


def test_a_job_of_stock_spark_is_adopted_moved_restarted_left_and_drained(tmp_path: Path) -> None:
    windows = next(job for job in PYTHON_JOBS if job.name == "windowed_aggregation")
    with SparkCluster(len(HOSTS), executor_memory="768m", work_dir=tmp_path / "cluster", conf=JOB_CONF) as cluster:
        job = DrainableJob(windows, cluster, tmp_path, **STOCK)
        job.submission.terminate()

        adopted = job.submit(**MOORING, **STANDBY)
        here = JobWithCopies(cluster, job, adopted)
        job.events.offer(1)
        here.wait_until_caught_up(TASKS)
        lost = here.tasks_of(HOSTS[0])
        assert lost == TASKS // 2
        cluster.kill_executor(HOSTS[0], adopted.application)
        job.events.offer(1)
        here.wait_for_failovers(lost)
        here.wait_until_caught_up(TASKS)
        adopted.terminate()

        openings = len(here.openings())
        restarted = job.submit(**MOORING)
        job.events.offer(1)
        restarted.wait_until(job.is_idle, "the batches after the restart", 120)
        restarted.terminate()
        after_restart = here.openings()[openings:]
        assert after_restart and all(one["remote-bytes"] == 0 for one in after_restart), after_restart

        left = job.submit(**STOCK)
        job.events.offer(1)
        left.wait_until(job.is_idle, "the batches of stock Spark", 120)
        left.terminate()

        drained = job.submit(**MOORING)
        job.events.offer(1)
        drained.wait_until(job.is_idle, "the last batches", 120)
        assert job.command("drain", "--wait", "--timeout", "180s") == 0
        drained.finish(120)
        job.assert_drained()
