"""A stream at full load, for a few hundred batches of a fixed size: is keeping copies, and placing tasks, free?

Each run has a new checkpoint. The sides take turns, and so does who begins. The first batches of a run are left out:
they compile code. With changelog checkpointing off, every commit uploads the store's new files before the batch can
end, so copies would be felt there; with it on, commits write changelogs, and a background thread uploads.

    throughput               rows a second, over the batches of a run
    batch-p50, batch-p95     time of a batch, of a run's batches
    commit-p50               commit of the state stores in a batch, added up over the partitions
    file-sync-p50            of that, upload (changelog off)
    zip-p50                  of that, upload of the snapshot's archive (changelog off)
    changelog-commit-p50     of that, writing changelogs (changelog on)
    upload-p50               upload of one snapshot by the background thread (changelog on)
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Row, percentile, row
from benchmarks.machine import this_machine
from benchmarks.sides import Run, Side, mooring, run_job, stock
from benchmarks.storage.kinds import Storage, storage
from mooring.testing.cluster import SparkCluster

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

Measured = dict[str, float]

_METRICS = {
    "file-sync-p50": "rocksdbCommitFileSyncLatencyMs",
    "zip-p50": "rocksdbSaveZipFilesLatencyMs",
    "changelog-commit-p50": "rocksdbChangeLogWriterCommitLatencyMs",
}


@dataclass(frozen=True)
class Case:
    """One comparison: how many batches, and how often each side runs them."""

    storage: str
    changelog: bool
    batches: int
    rounds: int
    rows: int = 40_000
    keys: int = 400_000
    left_out: int = 10


QUICK = (Case("raw", False, batches=40, rounds=1), Case("raw", True, batches=40, rounds=1))
# Many short rounds: a shared machine's speed changes more from one minute to the next than the sides differ.
FULL = (
    Case("raw", False, batches=60, rounds=3),
    Case("raw", True, batches=60, rounds=3),
    Case("slow", False, batches=40, rounds=1),
)


def run(quick: bool) -> dict[str, Any]:
    """What the command line calls."""
    return measure(QUICK if quick else FULL)


def measure(cases: Sequence[Case], keep: Path | None = None) -> dict[str, Any]:
    """Run the cases on a cluster of two hosts; `keep` is a directory for its files, else a temporary one."""
    directory = keep or Path(tempfile.mkdtemp(prefix="mooring-steady-"))
    rows: list[Row] = []
    machine = this_machine()
    try:
        work = directory / "cluster"
        with SparkCluster(hosts=2, executor_memory="1g", work_dir=work, host_memory="2g") as cluster:
            for case in cases:
                rows += _compare(cluster, case, directory)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return {"name": "steady", "machine": machine, "rows": rows}


def _compare(cluster: SparkCluster, case: Case, directory: Path) -> list[Row]:
    where = storage(case.storage)
    sides = [stock(), mooring()]
    measured: dict[str, dict[str, list[float]]] = defaultdict(lambda: {"stock": [], "mooring": []})
    for number in range(case.rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            checkpoint = directory / f"{case.storage}-{case.changelog}-{side.name}-{number}"
            seen = figures_of(_one_run(cluster, side, where, checkpoint, case), case)
            told = ", ".join(f"{figure} {value:g}" for figure, value in seen.items())
            print(f"{where.name} changelog={case.changelog} {side.name}: {told}", file=sys.stderr, flush=True)
            for figure, value in seen.items():
                measured[figure][side.name].append(value)
            shutil.rmtree(checkpoint)
    what = {"storage": case.storage, "changelog": case.changelog, "batches": case.batches - case.left_out}
    complete = {figure: values for figure, values in measured.items() if all(values.values())}
    return [row(figure, _unit(figure), values, **what) for figure, values in complete.items()]


def _one_run(cluster: SparkCluster, side: Side, where: Storage, checkpoint: Path, case: Case) -> Run:
    args = [where.uri(checkpoint), str(case.rows), str(case.keys), str(case.batches)]
    conf = {CHANGELOG: str(case.changelog).lower()}
    return run_job(cluster, side, where, "steady_job.py", args, conf, timeout=3000)


def figures_of(finished: Run, case: Case) -> Measured:
    """The figures of one run. Spark adds a metric up over the partitions, so times of stores can exceed a batch's."""
    batches = [batch for batch in finished.answer["progress"] if batch["batchId"] >= case.left_out]
    batches = [batch for batch in batches if batch["batchId"] < case.batches]
    times = [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]
    first, last = (datetime.fromisoformat(batch["timestamp"].rstrip("Z")) for batch in (batches[0], batches[-1]))
    span = (last - first).total_seconds() + times[-1]
    figures = {
        "throughput": sum(batch["numInputRows"] for batch in batches) / span,
        "batch-p50": percentile(times, 50),
        "batch-p95": percentile(times, 95),
        "commit-p50": percentile([_operator(batch)["commitTimeMs"] / 1000 for batch in batches], 50),
    }
    for figure, metric in _METRICS.items():
        values = [_operator(batch)["customMetrics"].get(metric, 0) / 1000 for batch in batches]
        if any(values):
            figures[figure] = percentile(values, 50)
    uploads = [ms / 1000 for log in finished.logs for ms in log.upload_ms]
    if uploads and case.changelog:
        figures["upload-p50"] = percentile(uploads, 50)
    return figures


def _operator(batch: Any) -> Any:
    return batch["stateOperators"][0]


def _unit(figure: str) -> str:
    return "rows/s" if figure == "throughput" else "s"
