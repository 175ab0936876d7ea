"""One of three executors is killed (kill -9) while a query works. How long is it until the next commit?

Stock Spark builds the state once for each size, and each side works on a copy of that checkpoint. A batch of a few rows
every second opens and commits all partitions. Each application has several kills, one after the other. In between, the
executor comes back, some batches pass, and with standbys every copy catches up. The killed executor has an even share
of the partitions, or the share nearest to that. The measured batch is the first one that had to open a lost partition
on another executor. The parts of its time are those of the partition that was opened last.

    kill-to-commit-seconds   from the kill to that batch's file in the checkpoint's commits
    next-commit-seconds      from the kill to the next commit of any batch: sooner where the tasks of the killed
                             executor in the running batch were already done
    detection-seconds        of the first, until the driver logs that the executor is lost
    scheduling-seconds       from there until the task starts on another executor
    open-seconds             Loading to Loaded of its state store
    catch-up-seconds         the rest
    before-open-seconds      of the rest, from the start of the task until Loading: a cold JVM loads code here
    shuffle-wait-seconds     the longest wait of another executor before it asked the dead one again for blocks of a
                             shuffle (spark.shuffle.io.retryWait): its slot is occupied meanwhile
    open-all-seconds         Loading to Loaded, summed over all lost partitions in that batch
    return-gap-seconds       the longest time between two later commits, while the executor comes back
    remote-bytes             bytes of state that the tasks of lost partitions read from the checkpoint
    lost-partitions          partitions of the killed executor
    in-new-jvm               of these, partitions that an executor from after the kill opened
    batch-p50                time of a batch, over all batches of an application

An executor can also get a notice that its host will go (SIGPWR, as from a cloud). It ends its tasks, gets no new ones,
and leaves; then the host is killed. Later the host comes back, and gets its share when its copies have caught up. The
next notice comes when its JVM is warm, because until then the JVM compiles code on processors that all hosts share. It
comes at a random moment of a minute, because Spark's maintenance of state stores runs once a minute. Executors have two
cores each here, so that the two remaining executors have as many slots for the partitions as the three need.

    worst-over-median        the longest batch from the notice until three commits after the host is gone, over
                             batch-p50
    quiet-worst-over-median  the longest of the ten batches before the notice, over batch-p50: the usual scatter
    as-long-when-quiet       the sixty batches before the notice have stretches as long as the notice's; this is the
                             share of stretches with a batch as long as the notice's longest: near 0 when a notice makes
                             a batch longer, about a half when it does not
    return-worst-over-median the longest batch from when the host is gone until the new executor works, over batch-p50
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.batches import Batch, longest, under_way
from benchmarks.figures import Row, percentile
from benchmarks.machine import this_machine
from benchmarks.move import BUSY
from benchmarks.sides import CHANGELOG, Side, mooring, mooring_standby, mooring_standby_files, stock
from benchmarks.storage.kinds import storage
from benchmarks.takeover import Kill, figures_of, losses
from benchmarks.working import DECOMMISSION, Load, Seen, Working, built_states, compared, hosts_for, tell_to_go
from mooring.errors import ClusterError
from mooring.testing.cluster import SparkCluster

LOAD = Load("light", rows=80)
QUIET_BATCHES = 10
GOLDEN_RATIO = (5**0.5 - 1) / 2

COMPARED_BATCHES = 60

MAINTENANCE_SECONDS = 60.0
"""The time between two uploads of an executor's snapshots by Spark, which make some batches longer. The first one comes
this long after the executor's first store. Notices after a fixed number of batches would meet an upload always, or
never."""

UNITS = {
    "remote-bytes": "bytes",
    "lost-partitions": "partitions",
    "in-new-jvm": "partitions",
    "worst-over-median": "x",
    "quiet-worst-over-median": "x",
    "as-long-when-quiet": "x",
    "return-worst-over-median": "x",
}
SIDES = (stock, mooring, mooring_standby_files, mooring_standby)


@dataclass(frozen=True)
class Case:
    """One comparison: the faults of each application, in this order."""

    storage: str
    changelog: bool
    faults: tuple[str, ...]
    """Each is `executor`, `host` (Worker and executor), or `notice` (a host whose executor gets a notice first)."""
    sizes_gb: tuple[float, ...] = ()
    """The plan's sizes for which this case runs; all sizes when empty."""
    batches_between: int = 5
    """Batches between the return of the executor and the next fault."""
    times_with_standbys: int = 2
    """How often all faults are repeated with standbys. Whether the time depends on the size is judged by these, and
    single values scatter, also with the moment in a batch."""
    cores: int = 1
    """The cores of each executor. With two, two executors have as many slots for the eight partitions as three need."""
    load: Load = LOAD

    def faults_of(self, side: Side) -> tuple[str, ...]:
        """The faults of an application of this side."""
        return self.faults * (self.times_with_standbys if side.keeps_copies else 1)


@dataclass(frozen=True)
class Plan:
    """The comparisons of one call of the benchmark."""

    sizes_gb: tuple[float, ...]
    cases: tuple[Case, ...]
    batches_first: int
    """Batches before the first kill. Early batches load classes and compile code, and take longer."""

    def cores(self) -> list[int]:
        """The numbers of cores, largest first; each number has a cluster of its own."""
        return sorted({case.cores for case in self.cases}, reverse=True)

    def cases_of(self, cores: int, size_gb: float) -> list[Case]:
        """The cases for state of this size, on a cluster whose executors have this number of cores."""
        return [case for case in self.cases if case.cores == cores and (not case.sizes_gb or size_gb in case.sizes_gb)]


QUICK = Plan((0.1,), (Case("raw", False, ("executor",) * 2),), batches_first=10)
FULL = Plan(
    (0.1, 0.5, 1.0),
    (
        Case("raw", True, ("executor", "host") * 2),
        Case("slow", True, ("executor", "host") * 2, times_with_standbys=3),
        # As in `steady`: batches get shorter until some 80 to 110 have passed, because code is compiled.
        Case("slow", True, ("notice",) * 3, sizes_gb=(0.5,), batches_between=110, cores=2),
        Case("slow", True, ("notice",) * 3, sizes_gb=(0.5,), batches_between=30, cores=2, load=BUSY),
    ),
    batches_first=80,
)


def run(quick: bool) -> dict[str, Any]:
    """The entry point for the command line."""
    return measure(QUICK if quick else FULL)


def measure(plan: Plan, sides: Sequence[Callable[[], Side]] = SIDES, keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on clusters of three hosts, with the files in `keep`, or in a temporary directory."""
    machine = this_machine()
    rows: list[Row] = []
    for cores in plan.cores():
        sizes = [size for size in plan.sizes_gb if plan.cases_of(cores, size)]
        with hosts_for("failover", keep, cores) as (cluster, directory):
            for size, built in built_states(cluster, directory, sizes):
                for case in plan.cases_of(cores, size):
                    observe = partial(_faults, cluster, case=case, plan=plan)
                    varied = {"storage": case.storage, "state_gb": size, "changelog": case.changelog}
                    if case.load.outputs != LOAD.outputs:
                        varied["outputs"] = case.load.outputs
                    rows += compared(cluster, [make() for make in sides], built, observe, UNITS, **varied)
    return {"name": "failover", "machine": machine, "rows": rows}


def _faults(cluster: SparkCluster, side: Side, checkpoint: Path, case: Case, plan: Plan) -> Iterator[Seen]:
    """Each fault with its figures; at the end the figures of the whole application."""
    conf = {CHANGELOG: str(case.changelog).lower(), **(DECOMMISSION if "notice" in case.faults else {})}
    working = Working(cluster, side, storage(case.storage), checkpoint, case.load, conf)
    last_host = ""
    notices: list[Notice] = []
    working.wait_until_steady(max(plan.batches_first, case.batches_between))
    faults = case.faults_of(side)
    for number, what in enumerate(faults):
        if what == "notice":
            time.sleep(MAINTENANCE_SECONDS * (number + random.random()) / len(faults))
        chosen, lost = working.choose(last_host)
        last_host = chosen.host
        time.sleep((moment_of(number) - time.time()) % 1.0)
        at = time.time()
        if what == "notice":
            tell_to_go(chosen)
        else:
            chosen.kill()
        if what != "executor":
            cluster.kill_host(last_host)
        working.wait_for_commits(3)
        gone_at = max(working.commits().values())  # the next batch runs beside the JVMs that start
        if what != "executor":
            cluster.revive_host(last_host)
        working.wait_until_steady(case.batches_between)
        if what == "notice":
            notices.append(Notice(at, gone_at, time.time()))
        else:
            yield what, _figures(working, side, Kill(at, chosen.id, lost))
    batches = working.finish()
    median = percentile([batch.seconds for batch in batches], 50)
    for notice in notices:
        quiet = notice.before(batches)[-min(COMPARED_BATCHES, case.batches_between) :]
        yield "notice", notice.figures(batches, median, quiet)
    for what in dict.fromkeys(case.faults):
        yield what, {"batch-p50": median}


def moment_of(number: int) -> float:
    """The part of a second after the start of a batch at which the fault of this number comes.

    The cost of a fault depends on the progress of the batch. So faults are spread nearly evenly over the second, for
    any number of faults, and in the same order for every side and size. Batches start at whole seconds if the earlier
    ones took less than a second.
    """
    return (0.5 + number * GOLDEN_RATIO) % 1.0


def _figures(working: Working, side: Side, kill: Kill) -> dict[str, float]:
    """The figures of one kill. ClusterError when the logs do not have them."""
    noticed = losses(working.submission.log)
    try:
        return figures_of(kill, working.logs(), noticed, working.commits(), side.name == "stock")
    except ValueError as error:
        raise ClusterError(f"{side.name}: {error}") from error


@dataclass(frozen=True)
class Notice:
    """The times of the notice, of the executor's end, and of the next one's first work; seconds since the epoch."""

    at: float
    gone_at: float
    back_at: float

    def before(self, batches: Sequence[Batch]) -> list[Batch]:
        """The batches that ended before the notice."""
        return [batch for batch in batches if batch.end <= self.at]

    def figures(self, batches: Sequence[Batch], median: float, quiet: Sequence[Batch]) -> dict[str, float]:
        """The longest batch before the notice, until the executor was gone, and after that, each over the median.

        `quiet` are earlier batches for `as-long-when-quiet`, which is left out when there are too few of them.
        """
        worst = longest(batches, self.at, self.gone_at)
        count = len(under_way(batches, self.at, self.gone_at))
        stretches = [quiet[first : first + count] for first in range(len(quiet) - count + 1)]
        as_long = [stretch for stretch in stretches if max(batch.seconds for batch in stretch) >= worst]
        compared_with_quiet = {"as-long-when-quiet": len(as_long) / len(stretches)} if stretches else {}
        return compared_with_quiet | {
            "worst-over-median": worst / median,
            "quiet-worst-over-median": max(batch.seconds for batch in self.before(batches)[-QUIET_BATCHES:]) / median,
            "return-worst-over-median": longest(batches, self.gone_at, self.back_at) / median,
        }
