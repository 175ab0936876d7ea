"""Jobs of every kind lose executors to their copies, between two batches and amid one: the answer is right."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.cluster import SparkCluster
from tests.integration.support.job_runs import FILES, JOB_CONF, Job
from tests.integration.support.job_to_drain import WITHOUT_AN_END, DrainableJob
from tests.integration.support.job_with_warm_copies import CHANGELOG, EVERY_FILE, STANDBY, JobWithCopies
from tests.integration.support.restarted_job import FORMAT_KEY
from tests.seeds import seeded

HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
IN_BOTH_FORMATS = ("left_outer_join", "windowed_aggregation")
CASES = [
    pytest.param(job, format, changelog, id=f"{job.name}, format {format}, changelog {changelog}")
    for job in WITHOUT_AN_END
    for format in ("2", *(["1"] if job.name in IN_BOTH_FORMATS else []))
    for changelog in ("true", "false")
]


@pytest.fixture(scope="module")
def spark_hosts_options() -> dict[str, Any]:
    return {"executor_memory": "768m", "conf": JOB_CONF}


@pytest.mark.heavy
@pytest.mark.parametrize(("job", "format", "changelog"), CASES)
def test_a_job_goes_on_where_its_copies_are(
    job: Job, format: str, changelog: str, spark_hosts: SparkCluster, tmp_path: Path
) -> None:
    chance = seeded(f"{job.name} {format} {changelog}")
    conf = {**STANDBY, CHANGELOG: changelog, FORMAT_KEY: format, "spark.mooring.processor.rebind.timeout": "60s"}
    started = DrainableJob(job, spark_hosts, tmp_path, **conf)
    here = JobWithCopies(spark_hosts, started, started.submission, may_be_empty=format == "1")
    first, second = chance.sample(HOSTS, 2)
    tasks = wait_until_even(here)

    expected, lost = here.tasks_of(first), here.partitions_of(first)
    fetched = here.fetched_for(lost, but=first)
    spark_hosts.kill_executor(first, started.submission.application)
    started.events.offer(1)
    here.wait_for_failovers(expected)
    assert wait_until_even(here) == tasks
    if format == "2":  # of format 1 archives and changelogs are not kept
        assert here.fetched_for(lost, but=first) == fetched, EVERY_FILE

    expected += here.tasks_of(second)
    started.events.offer(2)
    time.sleep(chance.uniform(0, 3))  # amid a batch, wherever that is
    spark_hosts.kill_executor(second, started.submission.application)
    here.wait_for_failovers(expected)
    assert wait_until_even(here) == tasks

    started.events.offer(FILES - started.events.written)
    assert started.command("drain", "--wait", "--timeout", "180s") == 0
    started.submission.finish(120)
    started.assert_drained()


def wait_until_even(here: JobWithCopies) -> int:
    """How many tasks there are, once each host has an executor and its share of them, and all their copies are warm."""

    def sizes() -> list[int]:
        return sorted(here.tasks_of(host) for host in HOSTS)

    here.job.wait_until(lambda: len(here.job.executors()) == len(HOSTS), "three executors", 120)
    here.job.wait_until(lambda: sizes()[0] > 0 and sizes()[-1] - sizes()[0] <= 1, "an even load", 120)
    here.wait_until_caught_up(sum(sizes()))
    return sum(sizes())
