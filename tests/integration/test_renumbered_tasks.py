"""Tasks whose numbers are not those of their state's partitions: a union and a coalesce number them anew."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.cluster import SparkCluster
from tests.integration.support import answers
from tests.integration.support.file_fed_job import JOB, PARTITIONS, Load, batches_in, first_plan_for, is_at_rest
from tests.integration.support.job_outputs import counted, read_sink

QUERIES = ("counts", "beside")


class Renumbered(Load):
    job = JOB.with_name("renumbered.py")
    answer = staticmethod(answers.renumbered)

    def committed_by(self, query: str) -> int:
        return len(batches_in(self.checkpoint.with_name(query), "commits"))

    def has_seen_all(self) -> bool:
        """All that was offered is committed, and the status is of that."""
        is_over = self.is_answered(self.written - 1) and all(is_at_rest(self.checkpoint.with_name(q)) for q in QUERIES)
        return is_over and self.counter("batches") == sum(map(self.committed_by, QUERIES))

    def has_committed_after(self, committed: dict[str, int]) -> bool:
        """Whether each query has committed more batches than these."""
        return all(self.committed_by(query) > batches for query, batches in committed.items())

    def tasks_of(self, query: str, status: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """By partition."""
        named = {task["name"].partition("/Partition "): task for task in status["tasks"]}
        return {int(partition): task for (name, _, partition), task in named.items() if name == query}

    def hosts_that_committed(self, cluster: SparkCluster, query: str) -> dict[int, set[str]]:
        """By partition, the hosts that keep the newest version of the state. Its writer keeps it."""
        checkpoint = self.checkpoint.with_name(query)
        key = hashlib.sha256(f"file:{checkpoint}".encode()).hexdigest()[:32]
        found: dict[int, set[str]] = {}
        for address, host in cluster.hosts.items():
            for kept in (host.directory / "mooring" / key).rglob(f"{self.committed_by(query)}_*~*"):
                (partition,) = re.findall(r"/(\d+)/default/", str(kept))
                found.setdefault(int(partition), set()).add(address)
        return found


@pytest.mark.heavy
def test_the_status_says_where_each_state_partition_ran(tmp_path: Path) -> None:
    load = Renumbered(tmp_path, files=6)
    with SparkCluster(hosts=2, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        load.offer(2)
        job = load.submit(cluster, first_plan_for(2))
        job.wait_until(load.has_seen_all, "the first files", 120)
        before, committed = load.status()["counters"], {query: load.committed_by(query) for query in QUERIES}
        load.offer(1)
        job.wait_until(lambda: load.has_committed_after(committed) and load.has_seen_all(), "one file more", 120)
        status = load.status()

        planned_at = {task: one["location"] for one in status["processors"] for task in one["tasks"]}
        assert Counter(planned_at.values()) == {"127.0.0.2": PARTITIONS, "127.0.0.3": PARTITIONS}
        not_placed: dict[str, set[int]] = {}
        for query in QUERIES:
            tasks, hosts = load.tasks_of(query, status), load.hosts_that_committed(cluster, query)
            assert all(task["location"] in hosts[partition] for partition, task in tasks.items())
            not_placed[query] = {p for p, task in tasks.items() if hosts[p] != {planned_at[task["name"]]}}
            assert not_placed[query] == {p for p, task in tasks.items() if task.get("not-placed")}
        assert not not_placed["beside"]
        assert not_placed["counts"], "three tasks can not hold the halves of two operators' sixteen partitions"

        asked, obeyed = (
            status["counters"][name] - before[name] for name in ("preferred-host-requests", "placed-as-planned")
        )
        beside = PARTITIONS * (load.committed_by("beside") - committed["beside"])
        counts = load.committed_by("counts") - committed["counts"]
        assert beside + counts <= asked == obeyed < beside + 2 * PARTITIONS * counts
        load.offer_the_rest_and_finish(job)
    for query, rows in load.answer(load.events).items():
        assert counted(rows) == counted(read_sink(load.output.with_name(query))), query
