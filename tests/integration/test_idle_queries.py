"""A query that has had no batch since its application started: its processors and copies are moved all the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from mooring.placement import LAST_SEEN, StatusCode
from mooring.testing.cluster import SparkCluster
from tests.integration.support.file_fed_job import Load, first_plan_for
from tests.integration.support.job_with_operator import HOSTS, Operator
from tests.integration.support.job_with_warm_copies import CHANGELOG, STANDBY, JobWithCopies

pytestmark = pytest.mark.heavy


@contextmanager
def idle_since_its_start(directory: Path, conf: Mapping[str, str]) -> Iterator[tuple[Operator, JobWithCopies]]:
    """A job on three hosts that has been restarted, and gets no input before the end."""
    load = Load(directory, files=6)
    own = {CHANGELOG: "true", "spark.mooring.processor.rebind.timeout": "60s", **first_plan_for(len(HOSTS)), **conf}
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=directory / "cluster") as cluster:
        load.offer(2)
        before = load.submit(cluster, own)
        before.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan", 120)
        load.feed(before)
        before.wait_until(load.is_idle, "the batches to be over", 60)
        before.kill()
        committed = load.committed()

        job = load.submit(cluster, own)
        job.wait_until(lambda: load.status().get("application") == job.application, "a status of the new one", 120)
        job.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan", 60)
        with closing(Operator(cluster, load, job)) as operator:
            yield operator, JobWithCopies(cluster, load, job)
        assert load.committed() == committed, "it had no batch until now"
        load.offer_the_rest_and_finish(job)
    load.assert_right()


def test_a_processor_of_a_query_without_a_batch_moves(tmp_path: Path) -> None:
    with idle_since_its_start(tmp_path, {}) as (here, _):
        processor = here.processor_at(HOSTS[1])
        answer = here.answer(here.places(processor, HOSTS[2]), feeds=False)
        assert answer.status_code is StatusCode.SUCCEEDED, answer.response_message
        here.job.wait_until(lambda: here.is_switched(processor, HOSTS[2]), "the switch", 30)


def test_copies_of_a_query_without_a_batch_are_made_and_restarted(tmp_path: Path) -> None:
    with idle_since_its_start(tmp_path, STANDBY) as (here, there):
        there.wait_until_caught_up()
        processor = here.processor_at(HOSTS[1])
        partitions = [name.rpartition(" ")[2] for name in here.tasks_of(processor)]
        opened = {partition: openings_of_copies(here, partition) for partition in partitions}
        answer = here.answer(here.places(f"{processor}-0", LAST_SEEN), feeds=False)
        assert answer.status_code is StatusCode.SUCCEEDED, answer.response_message
        for partition, before in opened.items():
            what = f"the copy of partition {partition} to be opened again"
            here.job.wait_until(partial(is_opened_again, here, partition, before), what, 60)


def is_opened_again(here: Operator, partition: str, before: int) -> bool:
    return openings_of_copies(here, partition) > before


def openings_of_copies(here: Operator, partition: str) -> int:
    """How often the RocksDB of a copy of this partition was opened, by the executors' logs."""
    logs = (log.read_text(errors="replace") for log in here.cluster.work_dir.rglob("stderr"))
    lines = (line for log in logs for line in log.splitlines())
    return sum(f"/state/0/{partition}: Loaded " in line and "standby of" in line for line in lines)
