"""Thirty stateful queries in one application: planned, shown, and answered, though an executor is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.cluster import SparkCluster
from mooring.testing.probes import wait_until
from mooring.testing.servers import ChildProcess
from tests.integration.support import answers
from tests.integration.support.file_fed_job import JOB, Load, batches_in, first_plan_for, is_at_rest, status_in
from tests.integration.support.job_outputs import counted, read_sink
from tests.integration.support.job_with_warm_copies import STANDBY
from tests.integration.support.restarted_job import Stages

QUERIES, PARTITIONS = 30, 2
NAMES = {f"counts{number}" for number in range(QUERIES)}


def has_all(status: dict[str, Any]) -> bool:
    """Whether the status shows each query, and each of its tasks."""
    shown = Counter(task["name"].partition("/")[0] for task in status.get("tasks", []) if task["mode"] == "Active")
    names = {query["name"] for query in status.get("queries", [])}
    return names == NAMES and shown == dict.fromkeys(NAMES, PARTITIONS)


class Many(Load):
    job = JOB.with_name("many_queries.py")
    query = "counts0"

    def at_rest(self) -> bool:
        return all(is_at_rest(self.checkpoint.with_name(name)) for name in NAMES)

    def fewest(self) -> int:
        """The batches of the query that has committed the fewest."""
        return min(len(batches_in(self.checkpoint.with_name(name), "commits")) for name in NAMES)


@pytest.mark.heavy
@pytest.mark.parametrize("conf", [{}, STANDBY], ids=["no copies", "copies"])
def test_thirty_queries_through_a_kill(tmp_path: Path, conf: dict[str, str]) -> None:
    load = Many(tmp_path, files=6)
    own = {"spark.sql.shuffle.partitions": str(PARTITIONS), **first_plan_for(2), **conf}
    with SparkCluster(hosts=2, executor_memory="1g", work_dir=tmp_path / "cluster") as cluster:
        load.offer(2)
        job = load.submit(cluster, own)
        job.wait_until(lambda: load.fewest() >= 2 and load.at_rest(), "the first files", 300)

        def is_complete() -> bool:
            return has_all(load.status())

        job.wait_until(is_complete, "a status that has all queries and tasks", 60)
        assert load.sizes() == [QUERIES, QUERIES], "each query's two tasks are at different processors"
        before = load.fewest()
        load.offer(1)
        job.wait_until(lambda: load.fewest() > before, "batches of all queries", 120)
        cluster.kill_executor("127.0.0.3")
        load.offer(1)
        job.wait_until(lambda: load.fewest() > before + 1 and load.at_rest(), "batches after the kill", 300)
        job.wait_until(lambda: is_complete() and load.sizes() == [QUERIES, QUERIES], "an even plan again", 120)
        load.offer_the_rest_and_finish(job)
    expected = counted(answers.windowed_aggregation(load.events)["counts"])
    assert expected
    for name in sorted(NAMES):
        assert counted(read_sink(load.output.with_name(name))) == expected, name


@pytest.mark.heavy
def test_thirty_queries_in_one_process_are_all_shown(tmp_path: Path) -> None:
    stages, metadata = Stages(tmp_path, "many_queries", "counts0", files=3), str(tmp_path / "metadata")

    def until_shown(driver: ChildProcess) -> None:
        wait_until(lambda: has_all(status_in(metadata)), "a status that has all", 200, interval=1, story=driver.story)
        (stages.input / "STOP").touch()

    conf = {"spark.mooring.metadata": metadata, "spark.sql.shuffle.partitions": str(PARTITIONS)}
    stages.run(1.0, conf, during=until_shown)
    expected = counted(answers.windowed_aggregation(stages.input)["counts"])
    assert expected
    for name in sorted(NAMES):
        assert counted(read_sink(stages.outputs / name)) == expected, name
