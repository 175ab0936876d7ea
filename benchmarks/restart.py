"""The application is started again on the hosts it ran on: how long until its state is open, and until it commits.

For each size of state the state is built once, by stock Spark, and left as RocksDB leaves state that has been written
for long: compacted. (Written by one batch it is a few large files of level 0; a few restarts more, and RocksDB compacts
all of it right after each opening, on the cores that open the other partitions.) Each side gets copies of that
checkpoint and runs one batch on each, so that the hosts have seen it. Then each is started again a few times, in turns
over sides, storages and sizes, as the machine's speed drifts over minutes. Every run is one batch of a few rows.

    open-seconds           Loading to Loaded of every state store's first opening, added up over the partitions
    open-slowest-seconds   the slowest of these
    open-cold-seconds      of these, the first in each executor's JVM, added up: loads classes, the native library
    open-warm-seconds      the others, added up
    open-<part>-seconds    find the snapshot, bring its files, open RocksDB, the rest; added up over the partitions
    first-commit-seconds   from spark-submit to the first batch's file in the checkpoint's commits
    start-to-query-seconds   of that, up to the query's start: JVMs, context, session
    query-to-commit-seconds  the rest
    planning-seconds, add-batch-seconds  of the rest, the first batch's planning and its jobs
    remote-bytes           bytes of snapshots, SST and log files read from the checkpoint
    compaction-bytes       bytes that RocksDB read to compact files, from the openings to the commit
    remote-calls           calls to the slow storage for the stores while they were opened
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.built_state import build, copy_for
from benchmarks.commits import commits_in
from benchmarks.executor_log import Opening
from benchmarks.figures import Row, row
from benchmarks.machine import this_machine
from benchmarks.say import say
from benchmarks.sides import CHANGELOG, Run, Side, StartedRun, mooring, stock
from benchmarks.storage.kinds import Storage, storage
from mooring.testing.cluster import SparkCluster

ROWS_AFTER_RESTART = 800

Measured = dict[str, float]
"""Figure to value, of one restart."""


@dataclass(frozen=True)
class Plan:
    """What one call of the benchmark goes through."""

    sizes_gb: tuple[float, ...]
    restarts: int
    """Of each copy of the state; it takes RocksDB four small files to compact everything."""

    copies: Mapping[str, tuple[int, int]]
    """Storage to the copies that stock has there, and each other side: short openings scatter more."""

    hosts: int = 2
    changelog: bool = False
    cold_hosts: tuple[int, ...] = (0,)
    """How many of the hosts have lost what they kept when the application is started again; each number by itself."""
    is_warm: bool = False
    """Whether the JVMs have run such a query before, with little state: then nothing is said of each opening."""


@dataclass
class Subject:
    """One side with checkpoints of its own, and what was measured of it: figure to its values."""

    size_gb: float
    where: Storage
    side: Side
    cold_hosts: int
    checkpoints: Sequence[Path]
    measured: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


QUICK = Plan(sizes_gb=(0.1,), restarts=2, copies={"raw": (1, 1), "slow": (1, 1)})
FULL = Plan(sizes_gb=(0.1, 0.5, 1.0), restarts=2, copies={"raw": (1, 1), "slow": (1, 3)})

UNITS = {"remote-bytes": "bytes", "compaction-bytes": "bytes", "remote-calls": "calls"}


def measure(plan: Plan, sides: Sequence[Side] = (), keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on a cluster of its own, stock and Mooring or other `sides`, of which one is stock.

    `keep` is a directory for its files, else it is a temporary one.
    """
    sides = sides or (stock(), mooring())
    copies = {storage(name): number for name, number in plan.copies.items()}
    machine = this_machine()
    directory = keep or Path(tempfile.mkdtemp(prefix="mooring-restart-"))
    try:
        cluster = SparkCluster(
            hosts=plan.hosts, cores_per_host=1, executor_memory="1g", work_dir=directory / "cluster", host_memory="2g"
        )
        with cluster:
            subjects = [
                Subject(
                    size,
                    where,
                    side,
                    cold,
                    [
                        directory / f"{size}-{where.name}-{side.name}-{cold}-{n}" / "ck"
                        for n in range(of_stock if side.name == stock().name else of_others)
                    ],
                )
                for size in plan.sizes_gb
                for where, (of_stock, of_others) in copies.items()
                for cold in plan.cold_hosts
                for side in sides
            ]
            _prepare(cluster, subjects, directory, plan)
            for number in range(plan.restarts):
                for subject in subjects:
                    for checkpoint in subject.checkpoints:
                        _measure_once(cluster, subject, checkpoint, plan, number + 1)
        rows = [
            line
            for size in plan.sizes_gb
            for where in copies
            for cold in plan.cold_hosts
            for line in _rows(
                [one for one in subjects if (one.size_gb, one.where, one.cold_hosts) == (size, where, cold)], plan
            )
        ]
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return {"name": "restart", "machine": machine, "rows": rows}


def _prepare(cluster: SparkCluster, subjects: Sequence[Subject], directory: Path, plan: Plan) -> None:
    for size in plan.sizes_gb:
        built = directory / f"built-{size}" / "ck"
        build(cluster, built, size, _conf(plan))
        for subject in (one for one in subjects if one.size_gb == size):
            for checkpoint in subject.checkpoints:
                copy_for(subject.where, built, checkpoint)
    for subject in subjects:
        for checkpoint in subject.checkpoints:
            _restart(cluster, subject, checkpoint, replace(plan, is_warm=False))  # the hosts get to know the state


def _measure_once(cluster: SparkCluster, subject: Subject, checkpoint: Path, plan: Plan, number: int) -> None:
    for host in list(cluster.hosts.values())[: subject.cold_hosts]:
        _forget(host.local_store, checkpoint)
    seen = figures_of(_restart(cluster, subject, checkpoint, plan), checkpoint, subject.side.name)
    shutil.rmtree(checkpoint.with_name(f"{checkpoint.name}-warm"), ignore_errors=True)
    if plan.is_warm:  # the log tells of the openings of both queries
        seen = {figure: value for figure, value in seen.items() if not figure.startswith("open-")}
    told = ", ".join(f"{figure} {value:g}" for figure, value in seen.items())
    cold = f" {subject.cold_hosts} hosts cold" if subject.cold_hosts else ""
    say(f"{subject.size_gb} GB {subject.where.name} {subject.side.name}{cold} {number}: {told}")
    for figure, value in seen.items():
        subject.measured[figure].append(value)


def _forget(local_store: Path, checkpoint: Path) -> None:
    """No application is up: what a host keeps of the checkpoint is gone."""
    for owner in local_store.glob("*/OWNER"):
        if owner.read_text().endswith(str(checkpoint)):
            shutil.rmtree(owner.parent)


def _rows(subjects: Sequence[Subject], plan: Plan) -> list[Row]:
    """Of one size on one storage, for the figures that every side has."""
    what = {"storage": subjects[0].where.name, "state_gb": subjects[0].size_gb, "changelog": plan.changelog}
    if plan.cold_hosts != (0,):
        what["cold_hosts"] = subjects[0].cold_hosts
    figures = [figure for figure in subjects[0].measured if all(one.measured[figure] for one in subjects)]
    return [
        row(figure, UNITS.get(figure, "s"), {one.side.name: one.measured[figure] for one in subjects}, **what)
        for figure in figures
    ]


def _restart(cluster: SparkCluster, subject: Subject, checkpoint: Path, plan: Plan) -> Run:
    os.sync()  # a gigabyte that the run before has downloaded would be written to the disk during this one
    args = [subject.where.uri(checkpoint), str(ROWS_AFTER_RESTART), "warm" if plan.is_warm else "cold"]
    return StartedRun(cluster, subject.side, subject.where, "restart_job.py", args, _conf(plan)).finish()


def _conf(plan: Plan) -> dict[str, str]:
    return {CHANGELOG: "true"} if plan.changelog else {}


def figures_of(restart: Run, checkpoint: Path, side: str) -> Measured:
    """The figures of one restart, from the logs of its executors and the time of its commit."""
    by_executor = [log.first_openings() for log in restart.logs]
    openings = [opening for opened in by_executor for opening in opened]
    cold = [min(opened, key=lambda opening: opening.began) for opened in by_executor if opened]
    batch = restart.answer["progress"][0]
    committed = commits_in(checkpoint)[batch["batchId"]]
    total = sum(opening.seconds for opening in openings)
    cold_seconds = sum(opening.seconds for opening in cold)
    figures = {
        "open-seconds": total,
        "open-slowest-seconds": max(opening.seconds for opening in openings),
        "open-cold-seconds": cold_seconds,
        "open-warm-seconds": total - cold_seconds,
        **{f"open-{part}-seconds": value for part, value in _parts(openings).items()},
        "first-commit-seconds": committed - restart.submitted,
        "start-to-query-seconds": restart.answer["query-start"] - restart.submitted,
        "query-to-commit-seconds": committed - restart.answer["query-start"],
        "planning-seconds": batch["durationMs"].get("queryPlanning", 0) / 1000,
        "add-batch-seconds": batch["durationMs"]["addBatch"] / 1000,
        "remote-bytes": float(sum(log.remote_bytes(side == "stock") for log in restart.logs)),
        "compaction-bytes": float(
            sum(operator["customMetrics"]["rocksdbTotalBytesReadByCompaction"] for operator in batch["stateOperators"])
        ),
    }
    calls = sum(sum(log.calls_within(opening).values()) for log in restart.logs for opening in log.first_openings())
    if any(log.slow_calls for log in restart.logs):
        figures["remote-calls"] = float(calls)
    return figures


def _parts(openings: list[Opening]) -> dict[str, float]:
    added: dict[str, float] = defaultdict(float)
    for opening in openings:
        for part, seconds in opening.parts().items():
            added[part] += seconds
    return added


def run(quick: bool) -> dict[str, Any]:
    """What the command line calls."""
    return measure(QUICK if quick else FULL)
