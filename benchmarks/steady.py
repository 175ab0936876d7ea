"""A stream at full load, for a few hundred batches of a fixed size. Do local files and the placing of tasks cost time?

The speed of a shared machine drifts by a tenth within minutes, which is more than the sides differ. So both
applications run at once, each with its own executors, and take turns of five batches. While one works, the driver of
the other is paused (SIGSTOP). Only batches that lie completely within a turn count. The first batches of a run compile
code and do not count. With changelog checkpointing off, every commit uploads the store's new files before the batch can
end, so the cost of keeping files would show there. With it on, commits write changelogs, and a background thread
uploads.

    throughput               rows a second, over all turns of a run: both sides meet the same drift of the machine
    throughput-to-first      the throughput of a run over that of the first side's run beside it. Judge by this one: the
                             ratio of medians compares runs that were not side by side
    batch-p50, batch-p95     time of a batch, over the batches of a run
    all-p50, all-p95         the same over the batches of all runs: a single run has some three above its p95
    commit-p50               commit of the state stores in a batch, summed over the partitions
    file-sync-p50            of that, upload (changelog off)
    zip-p50                  of that, upload of the snapshot's archive (changelog off)
    changelog-commit-p50     of that, writing changelogs (changelog on)
    upload-p50               upload of one snapshot by the background thread (changelog on)
    keeping-per-file         of a commit, Mooring's own calls that keep the file, by its own clock: the mean over all
                             files, also the first ones; a commit uploads two or more for each partition
    busiest-executor         the greater share of the eight partitions on two executors. Stock leaves it to chance; with
                             uneven shares commits more often have a core of their own
    read-per-committed-byte  bytes that the standbys read from the checkpoint, for each byte of RocksDB's files that was
                             committed to it (changelog off)
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.batches import Batch, batches_in
from benchmarks.commits import commits_in
from benchmarks.figures import Row, percentile, row
from benchmarks.machine import this_machine
from benchmarks.say import say
from benchmarks.sides import (
    CHANGELOG,
    Run,
    Side,
    StartedRun,
    mooring,
    mooring_beside_delta,
    mooring_catalogued,
    mooring_standby,
    mooring_without_copies,
    stock,
)
from benchmarks.storage.kinds import storage
from mooring.cli.records import CommandRecords
from mooring.errors import ClusterError
from mooring.testing.cluster import SparkCluster

BATCHES_A_TURN = 5

Measured = dict[str, list[float]]

_METRICS = {
    "file-sync-p50": "rocksdbCommitFileSyncLatencyMs",
    "zip-p50": "rocksdbSaveZipFilesLatencyMs",
    "changelog-commit-p50": "rocksdbChangeLogWriterCommitLatencyMs",
}


_OF_ONE_SIDE = ("throughput-to-first", "read-per-committed-byte", "keeping-per-file")


@dataclass(frozen=True)
class Case:
    """One comparison: each side runs `batches`, in each of the `rounds` with a new application."""

    storage: str
    changelog: bool
    batches: int
    rounds: int = 1
    rows: int = 40_000
    keys: int = 400_000
    left_out: int = 100  # until then batches get shorter, as code is compiled
    sides: tuple[Callable[[], Side], ...] = (stock, mooring)


QUICK = (
    Case("raw", False, batches=60, left_out=20),
    Case("raw", True, batches=60, left_out=20),
    Case("raw", False, batches=60, left_out=20, sides=(stock, mooring_standby)),
)
FULL = (
    # Applications of one side differ in how their code was compiled, and in where stock put its tasks. So each side has
    # more than one.
    Case("raw", False, batches=300, rounds=2),
    Case("raw", True, batches=200, rounds=2),
    Case("slow", False, batches=150, rounds=2),
    # What does keeping files cost? Both sides place tasks evenly, so that commits meet the same contention.
    Case("raw", False, batches=200, rounds=2, sides=(mooring_without_copies, mooring)),
    Case("raw", False, batches=200, rounds=2, sides=(stock, mooring_standby)),
    Case("raw", True, batches=200, rounds=2, sides=(stock, mooring_standby)),
    # What does the catalogue of committed state cost?
    Case("raw", True, batches=200, sides=(mooring_beside_delta, mooring_catalogued)),
)


def run(quick: bool) -> dict[str, Any]:
    """The entry point for the command line."""
    return measure(QUICK if quick else FULL)


def measure(cases: Sequence[Case], keep: Path | None = None) -> dict[str, Any]:
    """Run the cases on a cluster of two hosts, with its files in `keep`, or in a temporary directory."""
    directory = keep or Path(tempfile.mkdtemp(prefix="mooring-steady-"))
    rows: list[Row] = []
    machine = this_machine()
    try:
        work = directory / "cluster"
        with SparkCluster(hosts=2, cores_per_host=2, executor_memory="1g", work_dir=work, host_memory="2g") as cluster:
            for case in cases:
                rows += _compare(cluster, case, directory)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return {"name": "steady", "machine": machine, "rows": rows}


def _compare(cluster: SparkCluster, case: Case, directory: Path) -> list[Row]:
    measured: dict[str, dict[str, list[float]]] = {}
    times: Measured = {make().name: [] for make in case.sides}
    for number in range(case.rounds):
        order = case.sides if number % 2 == 0 else case.sides[::-1]
        # New checkpoints, because the hosts still keep files of the earlier rounds.
        checkpoints = Path(tempfile.mkdtemp(prefix="round-", dir=directory))
        sides = [_Working(cluster, make(), case, checkpoints) for make in order]
        _take_turns(sides)
        for side in sides:
            finished = side.finish()
            alone = counted(finished, side.turns, case)
            times[side.name] += [batch.seconds for turn in alone for batch in turn]
            seen = figures_of(finished, alone, case) | side.figures_of_standbys(finished)
            text = ", ".join(f"{figure} {percentile(values, 50):g}" for figure, values in seen.items())
            say(f"{case.storage} changelog={case.changelog} {side.name}: {text}")
            for figure, values in seen.items():
                measured.setdefault(figure, {}).setdefault(side.name, []).extend(values)
    first = case.sides[0]().name
    measured["throughput-to-first"] = to_first(measured["throughput"], first)
    for percent in (50, 95):
        measured[f"all-p{percent}"] = {side: [percentile(values, percent)] for side, values in times.items()}
    what = {
        "storage": case.storage,
        "changelog": case.changelog,
        "batches": len(times[first]),
    }
    complete = {
        figure: values
        for figure, values in measured.items()
        if len(values) == len(case.sides) or figure in _OF_ONE_SIDE
    }
    return [row(figure, _unit(figure), values, **what) for figure, values in complete.items()]


def to_first(runs: Mapping[str, Sequence[float]], first: str) -> Measured:
    """For every other side, the value of each run over that of the first side's run beside it."""
    return {
        side: [value / beside for value, beside in zip(values, runs[first], strict=True)]
        for side, values in runs.items()
        if side != first
    }


@dataclass(frozen=True)
class Turn:
    """A time in which one application worked and the other was paused, in seconds since the epoch."""

    start: float
    end: float


class _Working:
    """One side's application: an executor with one core on each host."""

    def __init__(self, cluster: SparkCluster, side: Side, case: Case, directory: Path) -> None:
        where = storage(case.storage)
        self.name = side.name
        self._keeps_nothing = side.keeps_nothing
        self._keeps_standbys = side.keeps_copies and not case.changelog
        self.turns: list[Turn] = []
        self._checkpoint = directory / f"{case.storage}-{case.changelog}-{side.name}"
        args = [where.uri(self._checkpoint), str(case.rows), str(case.keys), str(case.batches)]
        conf = {CHANGELOG: str(case.changelog).lower(), "spark.executor.cores": "1", "spark.cores.max": "2"}
        self._run = StartedRun(cluster, side, where, "steady_job.py", args, conf)

    @property
    def is_at_work(self) -> bool:
        return self._run.submission.is_running

    def committed(self) -> int:
        """The number of committed batches, by the newest entry: Spark removes old entries."""
        return 1 + max(commits_in(self._checkpoint), default=-1)

    def work(self, batches: int, counts: bool = True) -> None:
        """Let the application commit `batches` more, or end, and then pause it. The other one must be paused."""
        self._run.submission.process.resume()
        start, goal = time.time(), self.committed() + batches
        while self.is_at_work and self.committed() < goal:
            time.sleep(0.02)
        if counts:
            self.turns.append(Turn(start, time.time()))
        self.rest()

    def rest(self) -> None:
        if self.is_at_work:
            self._run.submission.process.pause()

    def finish(self) -> Run:
        finished = self._run.finish(timeout=60)
        kept = sum(log.kept[0] for log in finished.logs)
        if self._keeps_nothing and kept:
            raise ClusterError(f"the hosts of {self.name} have kept {kept} files: this compares nothing")
        shutil.rmtree(self._checkpoint)
        return finished

    def figures_of_standbys(self, finished: Run) -> Measured:
        """The cost of the standbys' reads, for a run with standbys and changelog off; else empty."""
        if not self._keeps_standbys:
            return {}
        counters = CommandRecords(str(self._checkpoint.parent / "_mooring" / "steady")).status()["counters"]
        committed = sum(
            batch.operator["customMetrics"]["rocksdbBytesCopied"] for batch in batches_in(finished.answer["progress"])
        )
        return {"read-per-committed-byte": [counters["standby-bytes-remote"] / committed]}


def _take_turns(sides: Sequence[_Working], most_seconds: float = 3000.0) -> None:
    """Let both start, then work in turn until both have ended. The order alternates: a, b, b, a, a, b."""
    deadline = time.monotonic() + most_seconds
    for side in sides:
        side.work(batches=1)
    for round_ in itertools.count():
        for side in sides if round_ % 2 == 0 else reversed(sides):
            if side.is_at_work:  # turns after the end of the other application do not count
                side.work(BATCHES_A_TURN, counts=all(each.is_at_work for each in sides))
        if not any(side.is_at_work for side in sides):
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"the applications did not end within {most_seconds:g} s")


def counted(finished: Run, turns: Iterable[Turn], case: Case) -> list[list[Batch]]:
    """The batches of each turn that count: they lie completely within it, and come after the first ones."""
    ran = batches_in(finished.answer["progress"])
    warm = [batch for batch in ran if case.left_out <= batch.progress["batchId"] < case.batches]
    alone = [[b for b in warm if turn.start <= b.start and b.end <= turn.end] for turn in turns]
    return [batches for batches in alone if len(batches) > 1]


def figures_of(finished: Run, alone: Sequence[Sequence[Batch]], case: Case) -> Measured:
    """The values of each figure. Spark sums times of stores over the partitions, so they can exceed a batch's time."""
    batches = list(itertools.chain.from_iterable(alone))
    times = [batch.seconds for batch in batches]
    figures = {
        "throughput": [sum(batch.rows for batch in batches) / sum(turn[-1].end - turn[0].start for turn in alone)],
        "batch-p50": [percentile(times, 50)],
        "batch-p95": [percentile(times, 95)],
        "commit-p50": [percentile([batch.operator["commitTimeMs"] / 1000 for batch in batches], 50)],
    }
    for figure, metric in _METRICS.items():
        values = [batch.operator["customMetrics"].get(metric, 0) / 1000 for batch in batches]
        if any(values):
            figures[figure] = [percentile(values, 50)]
    partitions = [len({opening.store for opening in log.openings}) for log in finished.logs]
    if any(partitions):
        figures["busiest-executor"] = [float(max(partitions))]
    uploads = [ms / 1000 for log in finished.logs for ms in log.upload_ms]
    if uploads and case.changelog:
        figures["upload-p50"] = [percentile(uploads, 50)]
    files = sum(log.kept[0] for log in finished.logs)
    if files:
        figures["keeping-per-file"] = [sum(log.kept[1] for log in finished.logs) / 1000 / files]
    return figures


def _unit(figure: str) -> str:
    units = {
        "throughput": "rows/s",
        "throughput-to-first": "x",
        "busiest-executor": "partitions",
        "read-per-committed-byte": "bytes/byte",
    }
    return units.get(figure, "s")
