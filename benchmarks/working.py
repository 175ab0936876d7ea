"""An application that works on while something is done to it: state that was built before, batches of one size.

For benchmarks that kill, end or move what works. Each side works on a copy of the same checkpoint; there are three
hosts unless a benchmark asks for others, and on each one executor, with one core unless it asks for more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.batches import Batch, batches_in
from benchmarks.built_state import build, copy_for
from benchmarks.commits import commits_in
from benchmarks.executor_log import parse_file
from benchmarks.figures import Row, row
from benchmarks.say import say
from benchmarks.sides import PARTITIONS, Side, StartedRun
from benchmarks.storage.kinds import Storage, storage
from benchmarks.takeover import Logs, holders, victim
from mooring.cli.records import Records
from mooring.client import MooringClient
from mooring.testing.cluster import SparkCluster
from mooring.testing.hosts import ExecutorProcess
from mooring.testing.probes import wait_until
from mooring.testing.submission import Submission

HOSTS = 3
DECOMMISSION = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "5s",
}
"""What those set who have executors told to go: their shuffle files move to others first. Spark looks whether that is
done every 30 s by default; the shorter time is the benchmark's patience."""


@dataclass(frozen=True)
class Load:
    """What an application has to do in each batch."""

    name: str
    rows: int
    """Of 2 KB, that come in."""
    outputs: int = 1
    """How many rows each of them becomes after the state: most of what a batch takes, where there are many."""
    every_seconds: int = 1
    """A batch begins at each multiple of so many, or when the one before is over, if that takes longer."""
    wait_ms: int = 0
    """For so long each row of output is waited for: a host that works on it with processors of its own, which here all
    hosts would share."""


Seen = tuple[str, Mapping[str, float]]
"""What was done to an application, and the figures of it."""


@contextmanager
def hosts_for(
    name: str, keep: Path | None = None, cores: int = 1, hosts: int = HOSTS
) -> Iterator[tuple[SparkCluster, Path]]:
    """A cluster for the benchmark of this name, and a directory for its checkpoints: `keep`, else a temporary one.

    `cores` is how many tasks an executor runs at once, and each host has one.
    """
    directory = keep or Path(tempfile.mkdtemp(prefix=f"mooring-{name}-"))
    try:
        work = directory / "cluster"
        with SparkCluster(
            hosts, cores_per_host=cores, executor_memory="1g", work_dir=work, host_memory="2g"
        ) as cluster:
            yield cluster, directory
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)


def built_states(cluster: SparkCluster, directory: Path, sizes_gb: Iterable[float]) -> Iterator[tuple[float, Path]]:
    """One size after the other, with a checkpoint that holds as much, which is gone when the next one is asked for."""
    for size in sizes_gb:
        built = directory / f"built-{size}"
        build(cluster, built, size, {})
        yield size, built
        shutil.rmtree(built)


def compared(
    cluster: SparkCluster,
    sides: Sequence[Side],
    built: Path,
    observe: Callable[[Side, Path], Iterable[Seen]],
    units: Mapping[str, str],
    **varied: Any,
) -> list[Row]:
    """Rows of what is observed of each side, each time on a new copy of the built checkpoint, which `observe` is given.

    `varied` is what tells the rows from others, `storage` among it. The unit of a figure that is not among `units` is
    a second. A side may come several times.
    """
    measured: dict[tuple[str, str], dict[str, list[float]]] = {}  # what was done, figure -> side -> values
    told = " ".join(f"{name}={value}" for name, value in varied.items())
    for number, side in enumerate(sides):
        checkpoint = built.parent / f"{number}-{side.name}" / "ck"
        copy_for(storage(varied["storage"]), built, checkpoint)
        os.sync()  # what the run before has written would go to the disk during this one
        for what, seen in observe(side, checkpoint):
            say(f"{told} {side.name} {what}: {', '.join(f'{figure} {value:.3g}' for figure, value in seen.items())}")
            for figure, value in seen.items():
                measured.setdefault((what, figure), {}).setdefault(side.name, []).append(value)
        _forget(cluster, checkpoint.parent)
    return [
        row(figure, units.get(figure, "s"), values, **varied, what=what) for (what, figure), values in measured.items()
    ]


def _forget(cluster: SparkCluster, directory: Path) -> None:
    """No application is up: let go of a checkpoint and of what the hosts keep of it, gigabytes each."""
    shutil.rmtree(directory)
    for host in cluster.hosts.values():
        for kept in host.local_store.iterdir():
            shutil.rmtree(kept) if kept.is_dir() else kept.unlink()


class Working:
    """One side's application under way, on a checkpoint of its own."""

    def __init__(
        self,
        cluster: SparkCluster,
        side: Side,
        where: Storage,
        checkpoint: Path,
        load: Load,
        conf: Mapping[str, str],
        hosts: int = HOSTS,
    ) -> None:
        """Start it; `hosts` of the cluster are up."""
        self.hosts = hosts
        self._cluster, self._side, self._checkpoint = cluster, side, checkpoint
        self._stop = checkpoint.with_name("stop")
        numbers = (load.rows, load.outputs, load.every_seconds, load.wait_ms)
        args = [where.uri(checkpoint), *map(str, numbers), str(self._stop)]
        self._run = StartedRun(cluster, side, where, "working_job.py", args, conf)

    @property
    def submission(self) -> Submission:
        """Its driver."""
        return self._run.submission

    def wait_until_steady(self, batches: int) -> None:
        """All executors are there, so many batches have passed since, and the copies, if any, have caught up."""
        job = self.submission
        job.wait_for_executors(self.hosts, timeout=120)
        goal = max(self.commits()) + batches
        job.wait_until(lambda: max(self.commits()) >= goal, f"{batches} more batches", timeout=120 + 12 * batches)
        if self._side.keeps_copies:
            job.wait_until(
                lambda: is_settled(self.status(), self.hosts), "an even plan whose copies are caught up", timeout=180
            )

    def wait_for_commits(self, count: int) -> None:
        """Return at once when so many more are there."""
        goal = max(self.commits()) + count
        self._wait_until(lambda: max(self.commits()) >= goal, f"{count} more commits")

    def wait_for_batch(self) -> None:
        """Return at once when the next batch has begun."""
        begun = self._checkpoint / "offsets" / str(max(self.commits()) + 1)
        self._wait_until(begun.exists, "the next batch")

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what, timeout=180, interval=0.02, story=self.submission.process.story)

    def executors(self) -> dict[str, ExecutorProcess]:
        """Those that are alive, by id, whether or not the driver knows of them."""
        return {one.id: one for one in self._cluster.executors(self.submission.application)}

    def choose(self, last_host: str) -> tuple[ExecutorProcess, frozenset[int]]:
        """An executor with about an even share of the partitions, where possible not on that host; and its share."""
        alive = self.executors()
        partitions = holders(self.logs())
        chosen = alive[victim(partitions, {id: one.host for id, one in alive.items()}, last_host)]
        return chosen, frozenset(partition for partition, executor in partitions.items() if executor == chosen.id)

    def commits(self) -> dict[int, float]:
        """Batch to when it was committed, in seconds since 1970."""
        return commits_in(self._checkpoint)

    def logs(self) -> Logs:
        """What the executors have said so far, by id."""
        files = self._run.log_files(self.submission.application)
        return {file.parent.name: parse_file(file) for file in files}

    def status(self) -> dict[str, Any]:
        """What Mooring's agent says; empty before it has said anything."""
        return self._records().status_if_any()

    def client(self) -> MooringClient:
        """For requests to Mooring's agent."""
        return self._records().client()

    def _records(self) -> Records:
        return Records(str(self._checkpoint.parent / "_mooring" / "working"))

    def finish(self) -> list[Batch]:
        """End the application; its batches."""
        self._stop.touch()
        return batches_in(self._run.finish().answer["progress"])


def tell_to_go(executor: ExecutorProcess) -> None:
    """As its host does that will be gone soon; return when it has left. For applications with `DECOMMISSION`."""
    executor.decommission()
    wait_until(lambda: not executor.is_alive, "the executor to leave", timeout=120, interval=0.01)


def is_even(status: Mapping[str, Any], hosts: int = HOSTS) -> bool:
    """Whether so many processors have even shares."""
    shares = [len(processor["tasks"]) for processor in status.get("processors", ())]
    return len(shares) == hosts and max(shares) - min(shares) <= 1


def is_settled(status: Mapping[str, Any], hosts: int = HOSTS) -> bool:
    """Whether the processors have even shares, and every partition a copy that is at most one version behind.

    The next batch is always under way, so one version is no lag. A plan that is not even is about to change.
    """
    copies = [task for task in status.get("tasks", ()) if task["mode"] == "Standby"]
    return (
        is_even(status, hosts)
        and len(copies) == PARTITIONS
        and all(copy["local-bytes"] and (copy["lag-versions"] or 0) <= 1 for copy in copies)
    )
