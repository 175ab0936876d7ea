"""One of three executors is killed (kill -9) while a query works: how long until the next commit.

For each size of state the state is built once, by stock Spark, and each side works on a copy of that checkpoint: a
batch of a few rows every second, that opens and commits all partitions. Each application has several kills, one after
the other; in between the executor comes back, some batches pass, and with standbys every copy catches up. The one that
is killed has an even share of the partitions, or what is nearest to it. What is counted is the first batch that had to
open a lost partition on another executor; the parts are those of the partition that was open last.

    kill-to-commit-seconds   from the kill to that batch's file in the checkpoint's commits
    next-commit-seconds      from the kill to the next commit at all: sooner where the batch under way has done already
                             what the killed executor was to do
    detection-seconds        of the first, until the driver says that the executor is lost
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
and leaves; then the host is gone. Later it comes back, and gets its share when its copies have caught up. The next
notice comes when its JVM is warm: until then it compiles code on the processors that all share here; and then at some
moment of a minute, as Spark's maintenance of the state stores comes once a minute. Executors have two cores each for
this, so that the two that are left have as many turns for the partitions as the three had.

    worst-over-median        the longest batch from the notice until the host is gone and three commits more, to
                             batch-p50
    quiet-worst-over-median  the longest of the ten batches before the notice, to batch-p50: how far they scatter by
                             themselves
    as-long-when-quiet       of the stretches of as many batches among the sixty before the notice, the share that has a
                             batch as long as the longest of the notice's: near 0 when a notice makes a batch longer, on
                             average a half when it does not
    return-worst-over-median the longest batch from when the host is gone until the new executor works, to batch-p50
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
"""How often Spark uploads the snapshots of all stores of an executor, which some batches feel. The executors begin to
count with their first store: notices after so many batches each would meet that every time, or never."""

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
    """One comparison: what is done to each application, in this order."""

    storage: str
    changelog: bool
    faults: tuple[str, ...]
    """Each `executor`, `host` (Worker and executor), or `notice` (a host whose executor is told to go first)."""
    sizes_gb: tuple[float, ...] = ()
    """Those of the plan's for which it is done; all when empty."""
    batches_between: int = 5
    """Batches after the executor has come back and has its share, before the next fault."""
    times_with_standbys: int = 2
    """How often all of them are done with standbys: how flat the time is over sizes is asked of these, and single ones
    scatter, by when in a batch they come too."""
    cores: int = 1
    """Of each executor. With two, two executors have as many turns for the eight partitions as three have."""
    load: Load = LOAD

    def faults_of(self, side: Side) -> tuple[str, ...]:
        """What is done to an application of this side."""
        return self.faults * (self.times_with_standbys if side.keeps_copies else 1)


@dataclass(frozen=True)
class Plan:
    """What one call of the benchmark goes through."""

    sizes_gb: tuple[float, ...]
    cases: tuple[Case, ...]
    batches_first: int
    """Batches before the first kill: the first ones load classes and compile code, and take longer."""

    def cores(self) -> list[int]:
        """For each a cluster of its own; those of most cores first."""
        return sorted({case.cores for case in self.cases}, reverse=True)

    def cases_of(self, cores: int, size_gb: float) -> list[Case]:
        """What is done with state of this size, on a cluster whose executors have so many cores."""
        return [case for case in self.cases if case.cores == cores and (not case.sizes_gb or size_gb in case.sizes_gb)]


QUICK = Plan((0.1,), (Case("raw", False, ("executor",) * 2),), batches_first=10)
FULL = Plan(
    (0.1, 0.5, 1.0),
    (
        Case("raw", True, ("executor", "host") * 2),
        Case("slow", True, ("executor", "host") * 2, times_with_standbys=3),
        # As steady has it: until some 80 to 110 the batches get shorter, the quiet ones too, as code is compiled.
        Case("slow", True, ("notice",) * 3, sizes_gb=(0.5,), batches_between=110, cores=2),
        Case("slow", True, ("notice",) * 3, sizes_gb=(0.5,), batches_between=30, cores=2, load=BUSY),
    ),
    batches_first=80,
)


def run(quick: bool) -> dict[str, Any]:
    """What the command line calls."""
    return measure(QUICK if quick else FULL)


def measure(plan: Plan, sides: Sequence[Callable[[], Side]] = SIDES, keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on a cluster of three hosts; `keep` is a directory for its files, else a temporary one."""
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
    """What was done, and the figures of it; at the end those of the whole application."""
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
        gone_at = max(working.commits().values())  # the batch that begins then meets the JVMs that start
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
    """Seconds from the begin of a batch, of the one in which they begin anew, until the fault of this number comes.

    However many faults there are, they are spread nearly evenly over that second, in the same order for every side and
    size: what a fault costs depends on how far the batch is. Batches begin at whole seconds, if those before took less
    than one.
    """
    return (0.5 + number * GOLDEN_RATIO) % 1.0


def _figures(working: Working, side: Side, kill: Kill) -> dict[str, float]:
    """What it took to go on. ClusterError when the logs do not tell."""
    noticed = losses(working.submission.log)
    try:
        return figures_of(kill, working.logs(), noticed, working.commits(), side.name == "stock")
    except ValueError as error:
        raise ClusterError(f"{side.name}: {error}") from error


@dataclass(frozen=True)
class Notice:
    """When an executor was told to go, when it was gone, and when the one in its place worked; since 1970."""

    at: float
    gone_at: float
    back_at: float

    def before(self, batches: Sequence[Batch]) -> list[Batch]:
        """Those that had ended."""
        return [batch for batch in batches if batch.end <= self.at]

    def figures(self, batches: Sequence[Batch], median: float, quiet: Sequence[Batch]) -> dict[str, float]:
        """How long the longest batch was before it, until the executor was gone, and after that, to the median.

        `quiet`: what to compare it with besides, where that is long enough.
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
