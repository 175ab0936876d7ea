"""An application starts again on the hosts on which it ran. How long is it until its state is open, and it commits?

Stock Spark builds the state once for each size, and compacts it, as RocksDB does over time. (State that is written by
one batch has a few large files of level 0. After a few restarts RocksDB compacts all of it after each opening, on the
cores that open the other partitions.) Each side gets copies of that checkpoint and runs one batch on each, so that the
hosts have the files. Then each copy is started again a few times. Sides, storages and sizes take turns, because the
machine's speed drifts over minutes. Every run is one batch of a few rows.

    open-seconds           Loading to Loaded of every state store's first opening, summed over the partitions
    open-slowest-seconds   the slowest of these
    open-cold-seconds      of these, the sum of the first in each JVM, which loads classes and the native library
    open-warm-seconds      the sum of the others
    open-<part>-seconds    find the snapshot, get its files, open RocksDB, the rest; summed over the partitions
    first-commit-seconds   from spark-submit to the first batch's file in the checkpoint's commits
    start-to-query-seconds   of that, until the query's start: JVMs, context, session
    query-to-commit-seconds  the rest
    planning-seconds, add-batch-seconds  of the rest, the first batch's planning and its jobs
    remote-bytes           bytes of snapshots, SST and log files read from the checkpoint
    compaction-bytes       bytes that RocksDB read to compact files, from the openings to the commit
    remote-calls           calls to the slow storage for the stores during their openings
"""

from __future__ import annotations

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
"""Figure to value, for one restart."""


@dataclass(frozen=True)
class Plan:
    """The comparisons of one call of the benchmark."""

    sizes_gb: tuple[float, ...]
    restarts: int
    """Restarts of each copy of the state. With four small files RocksDB would compact everything."""

    copies: Mapping[str, tuple[int, int]]
    """Storage to the number of copies for stock, and for each other side: short openings scatter more."""

    hosts: int = 2
    changelog: bool = False
    cold_hosts: tuple[int, ...] = (0,)
    """Numbers of hosts whose local stores are emptied before a start; each number is a case."""
    is_warm: bool = False
    """Whether the JVMs first run such a query with little state. Then there are no figures of openings."""


@dataclass
class Subject:
    """One side with its own checkpoints; `measured` maps each figure to its values."""

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
    """Run the plan on a cluster of its own, with stock and Mooring, or with other `sides` that include stock.

    Its files are in `keep`, or in a temporary directory.
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
            for line in _rows([subject for subject in subjects if _case_of(subject) == (size, where, cold)], plan)
        ]
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return {"name": "restart", "machine": machine, "rows": rows}


def _case_of(subject: Subject) -> tuple[float, Storage, int]:
    return subject.size_gb, subject.where, subject.cold_hosts


def _prepare(cluster: SparkCluster, subjects: Sequence[Subject], directory: Path, plan: Plan) -> None:
    for size in plan.sizes_gb:
        built = directory / f"built-{size}" / "ck"
        build(cluster, built, size, _conf(plan))
        for subject in (candidate for candidate in subjects if candidate.size_gb == size):
            for checkpoint in subject.checkpoints:
                copy_for(subject.where, built, checkpoint)
    for subject in subjects:
        for checkpoint in subject.checkpoints:
            _restart(cluster, subject, checkpoint, replace(plan, is_warm=False))  # the hosts keep its files


def _measure_once(cluster: SparkCluster, subject: Subject, checkpoint: Path, plan: Plan, number: int) -> None:
    for host in list(cluster.hosts.values())[: subject.cold_hosts]:
        _forget(host.local_store, checkpoint)
    seen = figures_of(_restart(cluster, subject, checkpoint, plan), checkpoint, subject.side.name)
    shutil.rmtree(checkpoint.with_name(f"{checkpoint.name}-warm"), ignore_errors=True)
    if plan.is_warm:  # the log has the openings of both queries
        seen = {figure: value for figure, value in seen.items() if not figure.startswith("open-")}
    text = ", ".join(f"{figure} {value:g}" for figure, value in seen.items())
    cold = f" {subject.cold_hosts} hosts cold" if subject.cold_hosts else ""
    say(f"{subject.size_gb} GB {subject.where.name} {subject.side.name}{cold} {number}: {text}")
    for figure, value in seen.items():
        subject.measured[figure].append(value)


def _forget(local_store: Path, checkpoint: Path) -> None:
    """Remove the files that a host keeps of the checkpoint. No application may run."""
    for owner in local_store.glob("*/OWNER"):
        if owner.read_text().endswith(str(checkpoint)):
            shutil.rmtree(owner.parent)


def _rows(subjects: Sequence[Subject], plan: Plan) -> list[Row]:
    """The rows of one size on one storage, for the figures that every side has."""
    what = {"storage": subjects[0].where.name, "state_gb": subjects[0].size_gb, "changelog": plan.changelog}
    if plan.cold_hosts != (0,):
        what["cold_hosts"] = subjects[0].cold_hosts
    figures = [figure for figure in subjects[0].measured if all(subject.measured[figure] for subject in subjects)]
    return [
        row(figure, UNITS.get(figure, "s"), {each.side.name: each.measured[figure] for each in subjects}, **what)
        for figure in figures
    ]


def _restart(cluster: SparkCluster, subject: Subject, checkpoint: Path, plan: Plan) -> Run:
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
    """The entry point for the command line."""
    return measure(QUICK if quick else FULL)
