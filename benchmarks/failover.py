"""One of three executors is killed (kill -9) while a query works: how long until the next commit.

For each size of state the state is built once, by stock Spark, and each side works on a copy of that checkpoint: a
batch of a few rows every second, that opens and commits all partitions. Each application has several kills, one after
the other; in between the executor comes back, some batches pass, and with standbys every copy catches up. The one that
is killed has an even share of the partitions, or what is nearest to it. What is counted is the first batch that had to
open a lost partition on another executor; the parts are those of the partition that was open last.

    kill-to-commit-seconds   from the kill to that batch's file in the checkpoint's commits
    detection-seconds        of that, until the driver says that the executor is lost
    scheduling-seconds       from there until the task starts on another executor
    open-seconds             Loading to Loaded of its state store
    catch-up-seconds         the rest
    before-open-seconds      of the rest, from the start of the task until Loading: what a cold JVM has to load
    shuffle-wait-seconds     how long at most another executor waited before it asked the dead one again for blocks of
                             a shuffle (spark.shuffle.io.retryWait): its slot is taken meanwhile
    open-all-seconds         Loading to Loaded, of all lost partitions in that batch, added up
    return-gap-seconds       the longest time between two commits after that one, while the executor comes back
    remote-bytes             bytes of state that their tasks read from the checkpoint
    lost-partitions          how many partitions the killed executor had
    in-new-jvm               how many of them were opened by an executor that came after the kill
    batch-p50                time of a batch, of all batches of an application

An executor can be told to go as well, as its host will (SIGPWR, a cloud's notice): it ends its tasks, gets no new ones,
and leaves; then the host is gone. Later it comes back, and gets its share when its copies have caught up.

    worst-over-median        the longest batch from the notice until the host is gone and three commits more, to
                             batch-p50
    return-worst-over-median the same, from then until the new executor works
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.batches import Batch, batches_in, longest
from benchmarks.built_state import build, copy_for
from benchmarks.commits import commits_in
from benchmarks.executor_log import parse_file
from benchmarks.figures import Row, percentile, row
from benchmarks.machine import this_machine
from benchmarks.say import say
from benchmarks.sides import CHANGELOG, PARTITIONS, Side, StartedRun, mooring, mooring_standby, stock
from benchmarks.storage.kinds import Storage, storage
from benchmarks.takeover import Kill, Logs, figures_of, holders, losses, victim
from mooring.cli.records import Records
from mooring.errors import ClusterError
from mooring.testing.cluster import SparkCluster
from mooring.testing.hosts import ExecutorProcess
from mooring.testing.probes import wait_until

HOSTS = 3
ROWS_A_BATCH = 80
KILLED_AFTER = (0.2, 0.5, 0.8)
"""Seconds from a commit to the kill, one kill after the other: a batch begins every second."""

Measured = dict[str, list[float]]
UNITS = {
    "remote-bytes": "bytes",
    "lost-partitions": "partitions",
    "in-new-jvm": "partitions",
    "worst-over-median": "x",
    "return-worst-over-median": "x",
}
SIDES = (stock, mooring, mooring_standby)
DECOMMISSION = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "5s",
}
"""What those set who have executors told to go: their shuffle files move to others first. Spark looks whether that is
done every 30 s by default; the shorter time is the benchmark's patience."""


@dataclass(frozen=True)
class Case:
    """One comparison: what is done to each application, in this order."""

    storage: str
    changelog: bool
    faults: tuple[str, ...]
    """Each `executor`, `host` (the Worker and its executor), or `notice` (a host whose executor is told to go first).
    Twice as often with standbys: how flat the time is over sizes is asked of them, and single ones scatter."""
    sizes_gb: tuple[float, ...] = ()
    """Those of the plan's for which it is done; all when empty."""

    def faults_of(self, side: Side) -> tuple[str, ...]:
        """What is done to an application of this side."""
        return self.faults * 2 if side.keeps_copies else self.faults


@dataclass(frozen=True)
class Plan:
    """What one call of the benchmark goes through."""

    sizes_gb: tuple[float, ...]
    cases: tuple[Case, ...]
    batches_first: int
    """Batches before the first kill: the first ones load classes and compile code."""
    batches_between: int
    """Batches after the executor has come back, before the next kill."""

    def cases_of(self, size_gb: float) -> list[Case]:
        """What is done with state of this size."""
        return [case for case in self.cases if not case.sizes_gb or size_gb in case.sizes_gb]


QUICK = Plan((0.1,), (Case("raw", False, ("executor",) * 2),), batches_first=10, batches_between=5)
FULL = Plan(
    (0.1, 0.5, 1.0),
    (
        Case("raw", True, ("executor",) * 3 + ("host",) * 2),
        Case("slow", True, ("executor",) * 3 + ("host",) * 3),
        Case("slow", True, ("notice",) * 3, sizes_gb=(0.5,)),
    ),
    batches_first=20,
    batches_between=5,
)


def run(quick: bool) -> dict[str, Any]:
    """What the command line calls."""
    return measure(QUICK if quick else FULL)


def measure(plan: Plan, sides: Sequence[Callable[[], Side]] = SIDES, keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on a cluster of three hosts; `keep` is a directory for its files, else a temporary one."""
    machine = this_machine()
    rows: list[Row] = []
    directory = keep or Path(tempfile.mkdtemp(prefix="mooring-failover-"))
    try:
        work = directory / "cluster"
        with SparkCluster(
            hosts=HOSTS, cores_per_host=1, executor_memory="1g", work_dir=work, host_memory="2g"
        ) as cluster:
            for size in plan.sizes_gb:
                built = directory / f"built-{size}"
                build(cluster, built, size, {})
                for case in plan.cases_of(size):
                    rows += _compare(cluster, [make() for make in sides], built, size, case, plan)
                shutil.rmtree(built)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return {"name": "failover", "machine": machine, "rows": rows}


def _compare(
    cluster: SparkCluster, sides: Sequence[Side], built: Path, size: float, case: Case, plan: Plan
) -> list[Row]:
    measured: dict[tuple[str, str], Measured] = {}  # what was killed, figure -> side -> values
    for side in sides:
        checkpoint = built.parent / f"{size}-{case.storage}-{case.changelog}-{side.name}" / "ck"
        copy_for(storage(case.storage), built, checkpoint)
        os.sync()  # what the run before has written would go to the disk during this one
        for what, seen in _faults(cluster, side, checkpoint, case, plan):
            told = ", ".join(f"{figure} {value:.3g}" for figure, value in seen.items())
            say(f"{size} GB {case.storage} changelog={case.changelog} {side.name} {what}: {told}")
            for figure, value in seen.items():
                measured.setdefault((what, figure), {}).setdefault(side.name, []).append(value)
        _forget(cluster, checkpoint.parent)
    varied = {"storage": case.storage, "state_gb": size, "changelog": case.changelog}
    return [
        row(figure, UNITS.get(figure, "s"), values, **varied, what=what) for (what, figure), values in measured.items()
    ]


def _forget(cluster: SparkCluster, directory: Path) -> None:
    """No application is up: let go of a checkpoint and of what the hosts keep of it, gigabytes each."""
    shutil.rmtree(directory)
    for host in cluster.hosts.values():
        for kept in host.local_store.iterdir():
            shutil.rmtree(kept) if kept.is_dir() else kept.unlink()


def _faults(
    cluster: SparkCluster, side: Side, checkpoint: Path, case: Case, plan: Plan
) -> Iterator[tuple[str, dict[str, float]]]:
    """What was done, and the figures of it; at the end those of the whole application."""
    working = _Working(cluster, side, storage(case.storage), checkpoint, case)
    last_host = ""
    notices: list[Notice] = []
    working.wait_until_steady(plan.batches_first)
    for number, what in enumerate(case.faults_of(side)):
        chosen, lost = working.choose(last_host)
        last_host = chosen.host
        working.wait_for_commits(1)
        time.sleep(KILLED_AFTER[number % len(KILLED_AFTER)])
        at = time.time()
        if what == "notice":
            chosen.decommission()
            wait_until(lambda gone=chosen: not gone.is_alive, "the executor to leave", timeout=120, interval=0.01)
        else:
            chosen.kill()
        if what != "executor":
            cluster.kill_host(last_host)
        working.wait_for_commits(3)
        gone_at = time.time()
        if what != "executor":
            cluster.revive_host(last_host)
        working.wait_until_steady(plan.batches_between)
        if what == "notice":
            notices.append(Notice(at, gone_at, time.time()))
        else:
            yield what, working.figures_of(Kill(at, chosen.id, lost))
    batches = working.finish()
    median = percentile([batch.seconds for batch in batches], 50)
    for notice in notices:
        yield "notice", notice.figures(batches, median)
    for what in dict.fromkeys(case.faults):
        yield what, {"batch-p50": median}


@dataclass(frozen=True)
class Notice:
    """When an executor was told to go, when it was gone, and when the one in its place worked; since 1970."""

    at: float
    gone_at: float
    back_at: float

    def figures(self, batches: Sequence[Batch], median: float) -> dict[str, float]:
        """How long the longest batch was, before and after that moment, to the median."""
        return {
            "worst-over-median": longest(batches, self.at, self.gone_at) / median,
            "return-worst-over-median": longest(batches, self.gone_at, self.back_at) / median,
        }


class _Working:
    """One side's application: an executor with one core on each of three hosts."""

    def __init__(self, cluster: SparkCluster, side: Side, where: Storage, checkpoint: Path, case: Case) -> None:
        self._cluster, self._side, self._checkpoint = cluster, side, checkpoint
        self._stop = checkpoint.with_name("stop")
        args = [where.uri(checkpoint), str(ROWS_A_BATCH), str(self._stop)]
        conf = {CHANGELOG: str(case.changelog).lower(), **(DECOMMISSION if "notice" in case.faults else {})}
        self._run = StartedRun(cluster, side, where, "failover_job.py", args, conf)

    def wait_until_steady(self, batches: int) -> None:
        """All executors are there, so many batches have passed since, and the copies, if any, have caught up."""
        job = self._run.submission
        job.wait_for_executors(HOSTS, timeout=120)
        goal = max(commits_in(self._checkpoint)) + batches
        job.wait_until(lambda: max(commits_in(self._checkpoint)) >= goal, f"{batches} more batches", timeout=180)
        if self._side.keeps_copies:
            job.wait_until(self._are_copies_caught_up, "the copies to catch up", timeout=180)

    def _are_copies_caught_up(self) -> bool:
        records = Records(str(self._checkpoint.parent / "_mooring" / "failover"))
        return are_caught_up(records.status_if_any())

    def choose(self, last_host: str) -> tuple[ExecutorProcess, frozenset[int]]:
        """An executor with about an even share of the partitions, where possible not on that host; and its share."""
        alive = {one.id: one for one in self._cluster.executors(self._run.submission.application)}
        partitions = holders(self._logs())
        chosen = alive[victim(partitions, {id: one.host for id, one in alive.items()}, last_host)]
        return chosen, frozenset(partition for partition, executor in partitions.items() if executor == chosen.id)

    def figures_of(self, kill: Kill) -> dict[str, float]:
        """What it took to go on. ClusterError when the logs do not tell."""
        driver = self._run.submission.log
        try:
            return figures_of(
                kill, self._logs(), losses(driver), commits_in(self._checkpoint), self._side.name == "stock"
            )
        except ValueError as error:
            raise ClusterError(f"{self._side.name}: {error}") from error

    def finish(self) -> list[Batch]:
        """End the application; its batches."""
        self._stop.touch()
        return batches_in(self._run.finish().answer["progress"])

    def _logs(self) -> Logs:
        files = self._run.log_files(self._run.submission.application)
        return {file.parent.name: parse_file(file) for file in files}

    def wait_for_commits(self, count: int) -> None:
        """Return at once when so many more are there."""
        goal = max(commits_in(self._checkpoint)) + count
        wait_until(
            lambda: max(commits_in(self._checkpoint)) >= goal,
            f"{count} more commits",
            timeout=180,
            interval=0.02,
            story=self._run.submission.process.story,
        )


def are_caught_up(status: Mapping[str, Any]) -> bool:
    """Whether every partition has a copy that is at most one version behind: the next batch is always under way."""
    copies = [task for task in status.get("tasks", ()) if task["mode"] == "Standby"]
    return len(copies) == PARTITIONS and all(
        copy["local-bytes"] and (copy["lag-versions"] or 0) <= 1 for copy in copies
    )
