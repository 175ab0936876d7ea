"""Executors that live and get no tasks from Spark: their tasks wait for nothing, and return when they may.

Each executor is waited for so long (`spark.locality.wait`) that a batch that waits once can not be mistaken.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.agent.state.loans import MIN_KNOWN_RUNS
from mooring.testing.cluster import SparkCluster
from mooring.testing.submission import Submission
from tests.integration.support.bad_host import AtABadHost
from tests.integration.support.file_fed_job import PARTITIONS, first_plan_for

GOOD, BAD = "127.0.0.2", "127.0.0.3"
WAIT_SECONDS = 60
CONF = {
    "spark.locality.wait": f"{WAIT_SECONDS}s",
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.timeout": "10s",
    "spark.decommission.enabled": "true",
    **first_plan_for(2),
}


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> AtABadHost:
    return AtABadHost(tmp_path_factory.mktemp("load"), files=8)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(hosts=2, executor_memory="768m", work_dir=tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def job(load: AtABadHost, cluster: SparkCluster) -> Iterator[Submission]:
    load.offer(1)
    job = load.submit(cluster, CONF)
    job.wait_until(lambda: load.committed() > 0 and load.is_idle(), "the first batches", 120)
    job.wait_until(lambda: load.runs_at() == {GOOD, BAD}, "the status to show where tasks run", 30)
    yield job
    load.leave_out_the_rest()
    load.offer_the_rest_and_finish(job)
    load.assert_right()


def test_tasks_of_an_excluded_executor_wait_for_nothing_and_return(job: Submission, load: AtABadHost) -> None:
    first = load.committed()
    marker = load.marks("FAILS-AT", BAD)
    load.feed(job)
    job.wait_until(lambda: "lent-because" in load.processor_at(BAD), "the status to name the reason", 30)
    assert load.processor_at(BAD)["lent-because"] == "Spark has excluded it after failures"
    executor = load.processor_at(BAD)["executor"]
    assert job.log.count(f"Mooring: executor {executor} on {BAD} gets no tasks: Spark has excluded it") == 1
    load.feed(job, files=2)
    job.wait_until(lambda: load.runs_at() == {GOOD}, "the status to show where tasks run", 30)
    assert load.longest_batch(since=first) < WAIT_SECONDS / 2, "tried again, in the same stage or a later one"
    assert len(load.processor_at(BAD)["tasks"]) == PARTITIONS // 2, "they are still its own"

    marker.unlink()
    job.wait_until(lambda: f"executor {executor} gets tasks again" in job.log, "the exclusion to end", 60)
    load.feed(job)
    job.wait_until(lambda: load.runs_at() == {GOOD, BAD}, "its tasks to return", 30)
    assert "lent-because" not in load.processor_at(BAD)


def test_tasks_of_an_executor_that_is_to_go_do_not_wait_for_its_end(
    job: Submission, load: AtABadHost, cluster: SparkCluster
) -> None:
    marker = load.marks("HOLDS-AT", BAD)
    first = load.committed()
    load.offer(1)

    def ran_at(host: str, status: str) -> int:
        """Tasks of the stage with state that runs."""
        stages = [one for one in job.rest("stages?status=active") if one["numTasks"] == PARTITIONS]
        tasks = job.rest(f"stages/{stages[-1]['stageId']}/0/taskList?length=100") if stages else []
        return sum(one["host"] == host and one["status"] == status for one in tasks)

    job.wait_until(lambda: ran_at(BAD, "RUNNING") == 1, "a task to be held", 60)
    (executor,) = cluster.hosts[BAD].executors()
    executor.decommission()
    job.wait_until(lambda: ran_at(GOOD, "SUCCESS") == PARTITIONS - 1, "the others to run elsewhere", WAIT_SECONDS // 2)
    assert executor.is_alive, "it still has its one task"
    assert f"executor {executor.id} on {BAD} gets no tasks: it is to be removed" in job.log
    marker.unlink()
    job.wait_until(lambda: load.committed() > first, "the batch to end", 60)


@pytest.mark.heavy
def test_tasks_leave_a_host_that_speculation_outruns_and_return_when_it_is_well(tmp_path: Path) -> None:
    load = AtABadHost(tmp_path / "load", files=120)
    load.offer(1)
    hasty = {
        "spark.locality.wait": "1s",
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "300ms",
        **first_plan_for(2),
    }
    with SparkCluster(hosts=2, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        job = load.submit(cluster, hasty)
        job.wait_until(lambda: load.committed() > 0 and load.is_idle(), "the first batches", 120)
        job.wait_until(lambda: load.runs_at() == {GOOD, BAD}, "the status to show where tasks run", 30)
        for _ in range(MIN_KNOWN_RUNS):  # then the usual time of each task is known
            load.feed(job)

        def is_lent_after_one_more_batch() -> bool:
            load.feed(job)
            job.wait_until(lambda: load.counter("batches") == load.committed(), "the status after the batch", 30)
            return "lent-because" in load.processor_at(BAD)

        assert not is_lent_after_one_more_batch()
        marker = load.marks("SLOW-AT", BAD)
        # Which of two rules comes first depends on when Spark speculates. Each asks for two bad batches at the most.
        assert is_lent_after_one_more_batch() or is_lent_after_one_more_batch()
        reason = load.processor_at(BAD)["lent-because"]
        assert "by speculation" in reason or "half of them ran elsewhere" in reason
        assert job.log.count("Mooring: tasks of distinct run elsewhere than on executor") == 1
        load.feed(job)
        job.wait_until(lambda: load.runs_at() == {GOOD}, "all tasks to run at the other host", 30)

        marker.unlink()

        def have_returned() -> bool:
            load.feed(job)
            return "Mooring: tasks of distinct return to executor" in job.log

        job.wait_until(have_returned, "a trial that goes well, after a minute", 180)
        load.feed(job)
        job.wait_until(lambda: load.runs_at() == {GOOD, BAD}, "its tasks to return", 30)
        load.leave_out_the_rest()
        load.offer_the_rest_and_finish(job)
    load.assert_right()
