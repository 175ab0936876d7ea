"""Without host affinity tasks run where Spark puts them; the agent is there for all else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mooring.cli.records import CommandRecords
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, StandbyAction, StatusCode
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application
from tests.integration.support.job_with_operator import HOSTS, operated
from tests.integration.support.queries_with_pending_output import EVENTS, KINDS
from tests.integration.support.query_in_one_jvm import HalfJob, same

WITHOUT = "spark.mooring.host.affinity.enabled is false"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("without_affinity")


@pytest.fixture(scope="module")
def spark(here: Path) -> Iterator[SparkSession]:
    with application("without-affinity", here, host_affinity_enabled="false") as session:
        yield session


@pytest.mark.one_jvm
def test_a_query_goes_on_after_a_restart_and_is_drained(spark: SparkSession, here: Path, tmp_path: Path) -> None:
    kind = KINDS["sessions into windows"]
    job = HalfJob(spark, tmp_path, kind)
    job.bring_the_rest()
    job.start()
    job.read_all(len(EVENTS) // 2)

    def running() -> bool:
        status = CommandRecords(str(here / "metadata")).status()
        assert [processor["tasks"] for processor in status["processors"]] == [[]] and not status["tasks"]
        return [query["state"] for query in status["queries"]] == ["running"]

    wait_until(running, "the status to show the query", 30)
    job.drain()
    same(job, job.rows(), kind)


@pytest.mark.heavy
def test_only_any_host_is_possible_and_it_is_another_executor(tmp_path: Path) -> None:
    with operated(tmp_path, "true", conf={"spark.mooring.host.affinity.enabled": "false"}, tasks=[0, 0, 0]) as here:
        application, processor = here.load.status()["application"], here.processor_at(HOSTS[1])
        refused = [
            *(here.places(processor, destination) for destination in (LAST_SEEN, STANDBY, HOSTS[2])),
            here.client.control_standby(processor, StandbyAction.STOP, application),
            here.client.drain_host(HOSTS[1], application),
        ]
        for uuid in refused:
            answer = here.answer(uuid, feeds=False)
            assert answer.status_code is StatusCode.BAD_REQUEST, answer
            assert answer.response_message.startswith(f"{WITHOUT}: expected a processor and {ANY_HOST}")
        before = here.executor_of(processor)
        here.succeeds(here.places(processor, ANY_HOST))
        here.job.wait_until(lambda: here.executor_of(processor) not in (before, "None"), "another executor", 30)
        here.load.feed(here.job)
        assert here.load.sizes() == [0, 0, 0]
