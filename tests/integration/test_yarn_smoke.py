"""One job on a small YARN cluster, in client mode: a lost executor with copies, and a restart."""

from __future__ import annotations

from pathlib import Path

from mooring.testing.yarn import YarnCluster
from tests.integration.support.job_runs import JOB_CONF, PYTHON_JOBS
from tests.integration.support.job_to_drain import DrainableJob
from tests.integration.support.job_with_warm_copies import STANDBY, JobWithCopies

HOSTS = ("127.0.0.2", "127.0.0.3")
TASKS = int(JOB_CONF["spark.sql.shuffle.partitions"])


def test_a_job_goes_on_at_its_copies_and_is_restarted_on_its_hosts(tmp_path: Path) -> None:
    windows = next(job for job in PYTHON_JOBS if job.name == "windowed_aggregation")
    conf = {**JOB_CONF, "spark.executor.instances": str(len(HOSTS))}
    with YarnCluster(len(HOSTS), work_dir=tmp_path / "cluster", conf=conf, host_memory_mb=2600) as cluster:
        job = DrainableJob(windows, cluster, tmp_path, **STANDBY)
        here = JobWithCopies(cluster, job, job.submission)
        here.wait_until_caught_up(TASKS)
        lost = here.tasks_of(HOSTS[0])
        assert lost == TASKS // 2
        cluster.kill_executor(HOSTS[0], job.submission.application)
        job.events.offer(1)
        here.wait_for_failovers(lost)
        assert len(cluster.grants(job.submission.application)) >= 1 + len(HOSTS), "the master and the executors"
        job.submission.terminate()

        openings = len(here.openings())
        restarted = job.submit()
        job.events.offer(1)
        restarted.wait_until(job.is_idle, "the batches after the restart", 120)
        after_restart = here.openings()[openings:]
        assert after_restart and all(one["remote-bytes"] == 0 for one in after_restart), after_restart
        assert job.command("drain", "--wait", "--timeout", "180s") == 0
        restarted.finish(120)
        job.assert_drained()
