"""A job whose state is kept by snapshots, then by changelogs, or the other way round: its copies go along."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.testing.cluster import SparkCluster
from tests.integration.support.file_fed_job import Load
from tests.integration.support.job_with_warm_copies import CHANGELOG, EVERY_FILE, EVERY_STORE, submitted


@pytest.mark.heavy
@pytest.mark.parametrize(("before", "after"), [("false", "true"), ("true", "false")])
def test_copies_of_a_checkpoint_that_was_written_otherwise_take_over(tmp_path: Path, before: str, after: str) -> None:
    load = Load(tmp_path)
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        load.offer(2)
        submitted(cluster, load, {CHANGELOG: before}).job.terminate()
        here = submitted(cluster, load, {CHANGELOG: after})
        load.feed(here.job)
        here.wait_until_caught_up()
        killed = next(executor for executor in cluster.executors() if here.tasks_of(executor.host) == 3)
        lost, openings = here.partitions_of(killed.host), len(here.openings())
        fetched = here.fetched_for(lost, but=killed.host)
        cluster.kill_executor(killed.host)
        load.feed(here.job)
        here.wait_for_failovers(3)
        here.wait_until_caught_up()
        assert here.fetched_for(lost, but=killed.host) == fetched, EVERY_FILE
        taken_over = here.openings()[openings:]
        assert len(taken_over) >= 3
        if after == "true":
            assert not any(sum(opening.values()) for opening in taken_over), EVERY_STORE
        load.offer_the_rest_and_finish(here.job)
    load.assert_right()
