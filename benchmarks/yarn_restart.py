"""An application on YARN starts again. How long is it until its executors are there, and until it commits?

There are six NodeManagers and three executors. Stock Spark builds the state once for each size. In each deploy mode
each side gets a copy of that checkpoint, and runs on it once, so that hosts have its files. Then it is started again,
in turn with the other side. Each round has three starts of each side:

    usual       all hosts are there
    host-gone   a host of the run before is lost
    host-full   a host of the run before has no room

Stock Spark asks YARN for executors on any hosts. Mooring asks for them on the hosts of the run before. YARN's scheduler
waits for wanted hosts, as docs/quick-start/yarn.md has it. Every run is one batch of a few rows.

    master-seconds           from spark-submit until the application master has registered with the driver
    first-executor-seconds   from spark-submit until the first executor has registered
    all-executors-seconds    the same of the last of three
    first-commit-seconds     from spark-submit to the first batch's file in the checkpoint's commits
    hosts-of-last-run        how many of the three hosts are hosts of the run before
    remote-bytes             bytes of snapshots, SST and log files read from the checkpoint
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.built_state import COMPACTED, ROW_BYTES, copy_for
from benchmarks.commits import commits_in
from benchmarks.executor_log import lines_of
from benchmarks.figures import row
from benchmarks.machine import this_machine
from benchmarks.part import WHOLE, Part
from benchmarks.say import say
from benchmarks.sides import JOBS, Run, Side, StartedRun, mooring, stock
from benchmarks.storage.kinds import raw_storage
from benchmarks.working import Load
from mooring.errors import ClusterError
from mooring.testing.yarn import YarnCluster

HOSTS, EXECUTORS = 6, 3
HOST_MEMORY_MB = 4000
"""Room for three executors, or for a driver and two executors."""

SMALLEST_MB = 128
"""Room for no executor: the smallest container of the cluster."""

KEEPS_LOCALITY = {
    "yarn.scheduler.capacity.node-locality-delay": str(HOSTS),
    "yarn.scheduler.capacity.rack-locality-additional-delay": str(HOSTS),
}
USUAL, GONE, FULL_HOST = "usual", "host-gone", "host-full"
UNITS = {"hosts-of-last-run": "hosts", "remote-bytes": "bytes"}

CLIENT, CLUSTER = Load("client", rows=800), Load("cluster", rows=800)
"""The deploy modes."""

_MASTER = re.compile(r"ApplicationMaster registered as ")
_EXECUTOR = re.compile(r"Registered executor .* with ID \d+")
_HOST = re.compile(r"Registering block manager .*BlockManagerId\(\d+, ([^,]+),")

Measured = dict[str, float]
"""Figure to value, for one start."""


@dataclass(frozen=True)
class Case:
    """The starts of each round in one deploy mode."""

    load: Load
    starts: tuple[str, ...] = (USUAL, GONE, FULL_HOST)


@dataclass(frozen=True)
class Plan:
    """The comparisons of one call of the benchmark."""

    sizes_gb: tuple[float, ...]
    rounds: int
    cases: tuple[Case, ...]


QUICK = Plan(sizes_gb=(0.002,), rounds=1, cases=(Case(CLIENT), Case(CLUSTER, (USUAL,))))
FULL = Plan(sizes_gb=(0.002, 0.05), rounds=5, cases=(Case(CLIENT), Case(CLUSTER)))


@dataclass
class Subject:
    """One side with its own checkpoint, and the hosts of its last run."""

    side: Side
    checkpoint: Path
    hosts: Sequence[str] = ()
    measured: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """Kind of start and figure to the values."""

    def start(self, cluster: YarnCluster, load: Load) -> Measured:
        """Start the application, wait for its end, and measure."""
        run = started(cluster, self.side, self.checkpoint, load)
        ended = run.finish()
        seen, hosts = figures_of(ended, run.submission.log, self.checkpoint, self.side.name, self.hosts)
        self.hosts = hosts
        return seen


def measure(plan: Plan, keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on a cluster of its own. Its files are in `keep`, or in a temporary directory."""
    machine = this_machine()
    directory = keep or Path(tempfile.mkdtemp(prefix="mooring-yarn-restart-"))
    rows: list[dict[str, Any]] = []
    try:
        with YarnCluster(
            HOSTS,
            work_dir=directory / "cluster",
            conf={"spark.executor.instances": str(EXECUTORS)},
            host_memory_mb=HOST_MEMORY_MB,
            scheduler=KEEPS_LOCALITY,
        ) as cluster:
            for size_gb in plan.sizes_gb:
                built = directory / f"built-{size_gb}" / "ck"
                say(f"building {size_gb} GB of state")
                built_by = Load("client", rows=int(size_gb * 1e9 / ROW_BYTES))
                started(cluster, stock(), built, built_by, COMPACTED).finish()
                for case in plan.cases:
                    subjects = [
                        Subject(side, directory / f"{size_gb}-{case.load.name}-{side.name}" / "ck")
                        for side in (stock(), mooring())
                    ]
                    for subject in subjects:
                        copy_for(raw_storage(), built, subject.checkpoint)
                    _measure_case(cluster, subjects, case, plan.rounds, f"{size_gb} GB {case.load.name}")
                    rows += _rows(subjects, size_gb, case)
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    return {"name": "yarn_restart", "machine": machine, "rows": rows}


def _measure_case(cluster: YarnCluster, subjects: Sequence[Subject], case: Case, rounds: int, what: str) -> None:
    for subject in subjects:
        subject.start(cluster, case.load)  # the hosts keep its files
    for number in range(rounds):
        for start in case.starts:
            for subject in subjects if number % 2 == 0 else subjects[::-1]:
                with _met(cluster, start, subject.hosts[0]):
                    seen = subject.start(cluster, case.load)
                text = ", ".join(f"{figure} {value:g}" for figure, value in seen.items())
                say(f"{what} {start} {subject.side.name} {number + 1}: {text}")
                for figure, value in seen.items():
                    subject.measured.setdefault((start, figure), []).append(value)


@contextmanager
def _met(cluster: YarnCluster, start: str, host: str) -> Iterator[None]:
    """What the start meets at a host of the run before; at the end the host is as it was."""
    if start == USUAL:
        yield
    elif start == GONE:
        cluster.kill_host(host)
        cluster.wait_until_lost(host)
        yield
        cluster.revive_host(host)
    else:
        cluster.resize_host(host, SMALLEST_MB)
        yield
        cluster.resize_host(host, HOST_MEMORY_MB)


def started(
    cluster: YarnCluster, side: Side, checkpoint: Path, load: Load, conf: dict[str, str] | None = None
) -> StartedRun:
    """One application with one batch, in the deploy mode of the load."""
    settings = {
        "spark.submit.deployMode": load.name,
        "spark.submit.pyFiles": str(JOBS / "built_query.py"),
        "spark.sql.streaming.checkpointLocation": str(checkpoint.parent),  # Mooring's records are beside the checkpoint
        **(conf or {}),
    }
    args = [raw_storage().uri(checkpoint), str(load.rows), "cold"]
    return StartedRun(cluster, side, raw_storage(), "restart_job.py", args, settings)


def figures_of(
    run: Run, driver_log: str, checkpoint: Path, side: str, hosts_before: Sequence[str]
) -> tuple[Measured, list[str]]:
    """The figures of one start, and the hosts of its executors."""
    lines = list(lines_of(driver_log))
    masters = [line.ms / 1000 for line in lines if _MASTER.search(line.message)]
    times = [line.ms / 1000 for line in lines if _EXECUTOR.search(line.message)]
    hosts = sorted({found[1] for line in lines if (found := _HOST.search(line.message))})
    if len(times) < EXECUTORS or not masters:
        raise ClusterError(f"{len(times)} of {EXECUTORS} executors have registered with the driver")
    committed = commits_in(checkpoint)[run.answer["progress"][0]["batchId"]]
    seen = {
        "master-seconds": masters[0] - run.submitted,
        "first-executor-seconds": min(times[:EXECUTORS]) - run.submitted,
        "all-executors-seconds": max(times[:EXECUTORS]) - run.submitted,
        "first-commit-seconds": committed - run.submitted,
        "hosts-of-last-run": float(len(set(hosts) & set(hosts_before))),
        "remote-bytes": float(sum(log.remote_bytes(side == "stock") for log in run.logs)),
    }
    return seen, hosts


def _rows(subjects: Sequence[Subject], size_gb: float, case: Case) -> list[dict[str, Any]]:
    return [
        row(
            figure,
            UNITS.get(figure, "s"),
            {subject.side.name: subject.measured[start, figure] for subject in subjects},
            storage="raw",
            state_gb=size_gb,
            mode=case.load.name,
            start=start,
        )
        for start, figure in subjects[0].measured
    ]


def run(quick: bool, part: Part = WHOLE) -> dict[str, Any]:
    """The entry point for the command line."""
    return measure(part.of(QUICK if quick else FULL))
