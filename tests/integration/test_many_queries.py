"""Thirty stateful queries in one application: planned, shown, and answered, though an executor is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mooring.testing.cluster import SparkCluster
from tests.integration import answers
from tests.integration.load import JOB, Load, batches_in, first_plan_for, is_at_rest
from tests.integration.outputs import counted, read_sink
from tests.integration.warm import STANDBY

QUERIES, PARTITIONS = 30, 2
NAMES = {f"counts{number}" for number in range(QUERIES)}


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
            status = load.status()
            shown = Counter(task["name"].partition("/")[0] for task in status["tasks"] if task["mode"] == "Active")
            return {query["name"] for query in status["queries"]} == NAMES and shown == dict.fromkeys(NAMES, PARTITIONS)

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
