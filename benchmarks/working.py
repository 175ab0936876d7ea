"""A working application with existing state and batches of one size, for benchmarks that kill, end or move something.

Each side works on a copy of the same checkpoint. By default there are three hosts, with one executor of one core each.
"""

from __future__ import annotations

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
from mooring.cli.records import CommandRecords
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
"""The usual settings for executors that get notices: their shuffle files move to other executors first. Spark checks
every 30 s by default whether that is done; here it checks more often."""


@dataclass(frozen=True)
class Load:
    """The work of an application in each batch."""

    name: str
    rows: int
    """Input rows, of 2 KB each."""
    outputs: int = 1
    """Output rows for each input row, made after the state. When there are many, they take most of a batch's time."""
    every_seconds: int = 1
    """A batch begins at each multiple of this time, or later, when the batch before is over."""
    wait_ms: int = 0
    """A wait for each output row. It stands for work of a host with its own CPUs, as here all hosts share theirs."""


Seen = tuple[str, Mapping[str, float]]
"""The name of what was done to an application, and the figures of it."""


@contextmanager
def hosts_for(
    name: str, keep: Path | None = None, cores: int = 1, hosts: int = HOSTS
) -> Iterator[tuple[SparkCluster, Path]]:
    """A cluster for the benchmark of this name, and a directory for its checkpoints: `keep`, else a temporary one.

    Each host has one executor, which runs `cores` tasks at once.
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
    """Each size with a checkpoint of that size. The checkpoint is removed before the next size is built."""
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
    """Call `observe` for each side, with a new copy of the built checkpoint, and make rows of its figures.

    `varied` has the other columns of the rows, with `storage` among them. A figure that is not in `units` is in
    seconds. A side may come several times.
    """
    measured: dict[tuple[str, str], dict[str, list[float]]] = {}  # what was done, figure -> side -> values
    case = " ".join(f"{name}={value}" for name, value in varied.items())
    for number, side in enumerate(sides):
        checkpoint = built.parent / f"{number}-{side.name}" / "ck"
        copy_for(storage(varied["storage"]), built, checkpoint)
        for what, seen in observe(side, checkpoint):
            say(f"{case} {side.name} {what}: {', '.join(f'{figure} {value:.3g}' for figure, value in seen.items())}")
            for figure, value in seen.items():
                measured.setdefault((what, figure), {}).setdefault(side.name, []).append(value)
        _forget(cluster, checkpoint.parent)
    return [
        row(figure, units.get(figure, "s"), values, **varied, what=what) for (what, figure), values in measured.items()
    ]


def _forget(cluster: SparkCluster, directory: Path) -> None:
    """Remove a checkpoint, and the files that the hosts keep of it. No application may run."""
    shutil.rmtree(directory)
    for host in cluster.hosts.values():
        for kept in host.local_store.iterdir():
            shutil.rmtree(kept) if kept.is_dir() else kept.unlink()


class Working:
    """One side's running application, on its own checkpoint."""

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
        """Start the application; `hosts` is the number of hosts that are up."""
        self.hosts = hosts
        self._cluster, self._side, self._checkpoint = cluster, side, checkpoint
        self._stop = checkpoint.with_name("stop")
        numbers = (load.rows, load.outputs, load.every_seconds, load.wait_ms)
        args = [where.uri(checkpoint), *map(str, numbers), str(self._stop)]
        self._run = StartedRun(cluster, side, where, "working_job.py", args, conf)

    @property
    def submission(self) -> Submission:
        """The application's driver."""
        return self._run.submission

    def wait_until_steady(self, batches: int) -> None:
        """Wait until all executors are there, then for `batches` more, and until the copies, if any, have caught up."""
        job = self.submission
        job.wait_for_executors(self.hosts, timeout=120)
        goal = max(self.commits()) + batches
        job.wait_until(lambda: max(self.commits()) >= goal, f"{batches} more batches", timeout=120 + 12 * batches)
        if self._side.keeps_copies:
            job.wait_until(
                lambda: is_settled(self.status(), self.hosts), "an even plan whose copies are caught up", timeout=180
            )

    def wait_for_commits(self, count: int) -> None:
        """Wait for `count` more commits."""
        goal = max(self.commits()) + count
        self._wait_until(lambda: max(self.commits()) >= goal, f"{count} more commits")

    def wait_for_batch(self) -> None:
        """Wait until the next batch has begun."""
        begun = self._checkpoint / "offsets" / str(max(self.commits()) + 1)
        self._wait_until(begun.exists, "the next batch")

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what, timeout=180, interval=0.02, story=self.submission.process.story)

    def executors(self) -> dict[str, ExecutorProcess]:
        """The executors that are alive, by id, also those that are not registered with the driver yet."""
        return {executor.id: executor for executor in self._cluster.executors(self.submission.application)}

    def choose(self, last_host: str) -> tuple[ExecutorProcess, frozenset[int]]:
        """An executor with about an even share, if possible not on `last_host`; and the partitions of its share."""
        alive = self.executors()
        partitions = holders(self.logs())
        chosen = alive[victim(partitions, {id: executor.host for id, executor in alive.items()}, last_host)]
        return chosen, frozenset(partition for partition, executor in partitions.items() if executor == chosen.id)

    def commits(self) -> dict[int, float]:
        """Batch to the time of its commit, in seconds since the epoch."""
        return commits_in(self._checkpoint)

    def logs(self) -> Logs:
        """The logs of the executors so far, by executor id."""
        files = self._run.log_files(self.submission.application)
        return {file.parent.name: parse_file(file) for file in files}

    def status(self) -> dict[str, Any]:
        """The status of Mooring's agent; empty before there is one."""
        return self._records().status_if_any()

    def client(self) -> MooringClient:
        """A client for requests to Mooring's agent."""
        return self._records().client()

    def _records(self) -> CommandRecords:
        return CommandRecords(str(self._checkpoint.parent / "_mooring" / "working"))

    def finish(self) -> list[Batch]:
        """End the application, and return its batches."""
        self._stop.touch()
        return batches_in(self._run.finish().answer["progress"])


def tell_to_go(executor: ExecutorProcess) -> None:
    """Send an executor the notice that its host will go, and wait for its end. For applications with `DECOMMISSION`."""
    executor.decommission()
    wait_until(lambda: not executor.is_alive, "the executor to leave", timeout=120, interval=0.01)


def is_even(status: Mapping[str, Any], hosts: int = HOSTS) -> bool:
    """Whether there is a processor for each host, and all have even shares of the tasks."""
    shares = [len(processor["tasks"]) for processor in status.get("processors", ())]
    return len(shares) == hosts and max(shares) - min(shares) <= 1


def is_settled(status: Mapping[str, Any], hosts: int = HOSTS) -> bool:
    """Whether the processors have even shares, and every partition has a copy that is at most one version behind.

    The next batch is always running, so one version is no lag. A plan that is not even will change soon.
    """
    copies = [task for task in status.get("tasks", ()) if task["mode"] == "Standby"]
    return (
        is_even(status, hosts)
        and len(copies) == PARTITIONS
        and all(copy["local-bytes"] and (copy["lag-versions"] or 0) <= 1 for copy in copies)
    )
