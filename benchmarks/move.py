"""One processor of three, or all of them one after the other, moves to another executor while a query works.

Stock Spark builds the state once for each size. Each side works on a copy of that checkpoint, on `slow` storage with
changelog checkpointing. Batches have a fixed number of rows, start every one, two or four seconds, and open and commit
all partitions. Loads differ in the work for each row.

Mooring places a processor on the next host of three, so that each goes where it has not been. Stock Spark has no moves.
There an executor gets a notice (SIGPWR, with `spark.decommission.enabled`) and leaves, and a new executor takes its
tasks. For one processor this is the executor whose share of the partitions is nearest to an even one.

A change begins during a batch, after a number of quiet batches. It is over when Mooring has written the last final
status. With stock Spark it is over when the last executor is gone and the driver has another one for it. Five more
batches count.

    worst-over-median        the longest batch from the first request until five commits after the end of the change,
                             over the median of the quiet batches before
    worst-batch-seconds      that longest batch
    quiet-p50                that median
    quiet-worst-over-median  the longest of the quiet batches over that median: the usual scatter
    change-seconds           from the first request until the change was over
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks.batches import Batch, longest
from benchmarks.figures import Row, percentile
from benchmarks.machine import this_machine
from benchmarks.part import WHOLE, Part
from benchmarks.sides import CHANGELOG, Side, in_turn, mooring, stock
from benchmarks.storage.kinds import storage
from benchmarks.working import DECOMMISSION, HOSTS, Load, Seen, Working, built_states, compared, hosts_for, tell_to_go
from mooring.errors import ClusterError
from mooring.placement import StatusCode
from mooring.testing.cluster import SparkCluster
from mooring.testing.hosts import ExecutorProcess

ONE, ALL = "one processor", "all processors"
CORES = 8
"""The cores of each executor. Each task has a slot of its own, even while a host has two processors."""

BATCHES_AFTER = 5
ASKED_AFTER = (0.3, 0.9, 1.5)
"""Seconds from the start of a batch to the first request; each change takes the next value."""

MOST_SECONDS = 600.0
"""The longest wait for the final status of one request."""

LIGHT = Load("light", rows=400)
"""A batch takes half a second. Chance delays of a tenth of a second are a fifth of that."""

STEADY = Load("steady", rows=400, outputs=2000, every_seconds=4)
"""A batch takes 1.6 to three seconds of each four: the processors are busy, and keep up with the input."""

APART = Load("apart", rows=400, every_seconds=2, wait_ms=25)
"""A batch takes two seconds, most of it without CPU time, which all hosts share. All tasks run at once."""

BUSY = Load("busy", rows=400, outputs=2000)
"""The batches of `STEADY` without pauses. All other work takes longer then, and the batches too."""

SIDES = (stock, mooring)
UNITS = {"worst-over-median": "x", "quiet-worst-over-median": "x"}


@dataclass(frozen=True)
class Case:
    """One comparison: the changes in each application, in this order."""

    storage: str
    load: Load
    changes: tuple[str, ...]
    """Each is `ONE` or `ALL`. At most four changes, three of them `ONE`, so that each processor goes where it has not
    been."""
    batches_first: int
    """Batches before all others. Early batches load classes and compile code, and take longer."""
    batches_quiet: int
    """Batches that each change is compared with. As many pass during a change, so that both maxima are comparable."""
    changelog: bool = True


@dataclass(frozen=True)
class Plan:
    """The comparisons of one call of the benchmark."""

    sizes_gb: tuple[float, ...]
    cases: tuple[Case, ...]
    rounds: int
    """How often each side runs, each time with a new application."""
    batches_between: int
    """Batches after a change that do not count, such as the first ones of the new executor."""


QUICK = Plan((0.1,), (Case("slow", LIGHT, (ONE,), batches_first=10, batches_quiet=5),), rounds=1, batches_between=0)
FULL = Plan(
    (0.5, 1.0),
    (
        # The JVMs compile much code until some 130 to 190 short batches have passed: some quiet batches take half as
        # long again. Batches of the other loads do more work, so fewer are needed.
        Case("slow", LIGHT, (ONE, ONE, ONE, ALL), batches_first=200, batches_quiet=30),
        Case("slow", APART, (ONE, ONE, ONE, ALL), batches_first=100, batches_quiet=15),
        Case("slow", STEADY, (ONE, ONE, ONE, ALL), batches_first=100, batches_quiet=15),
        Case("slow", BUSY, (ONE, ONE, ONE, ALL), batches_first=200, batches_quiet=30),
    ),
    rounds=2,
    batches_between=8,
)


def run(quick: bool, part: Part = WHOLE) -> dict[str, Any]:
    """The entry point for the command line."""
    return measure(part.of(QUICK if quick else FULL))


def measure(plan: Plan, sides: Sequence[Callable[[], Side]] = SIDES, keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on a cluster of three hosts, with its files in `keep`, or in a temporary directory."""
    machine = this_machine()
    rows: list[Row] = []
    with hosts_for("move", keep, CORES) as (cluster, directory):
        for size, built in built_states(cluster, directory, plan.sizes_gb):
            for case in plan.cases:
                observe = partial(_changes, cluster, case=case, plan=plan)
                varied = {
                    "storage": case.storage,
                    "state_gb": size,
                    "changelog": case.changelog,
                    "load": case.load.name,
                }
                rows += compared(cluster, in_turn(sides, plan.rounds), built, observe, UNITS, **varied)
    return {"name": "move", "machine": machine, "rows": rows}


def _changes(cluster: SparkCluster, side: Side, checkpoint: Path, case: Case, plan: Plan) -> Iterator[Seen]:
    """Each change in one application, with its figures."""
    conf = {CHANGELOG: str(case.changelog).lower(), **DECOMMISSION}
    working = Working(cluster, side, storage(case.storage), checkpoint, case.load, conf)
    working.wait_until_steady(case.batches_first)
    means: Means = Notices(working) if side.name == "stock" else Requests(working)
    seen: list[tuple[str, Change]] = []
    for number, what in enumerate(case.changes):
        steps = means.steps(what, number)
        quiet_from = time.time()
        working.wait_for_commits(1 + case.batches_quiet)  # the running batch does not count
        working.wait_for_batch()
        time.sleep(ASKED_AFTER[number % len(ASKED_AFTER)])
        at = time.time()
        for step in steps:
            step()
        over_at = time.time()
        working.wait_for_commits(BATCHES_AFTER)
        seen.append((what, Change(quiet_from, at, over_at, time.time())))
        working.wait_until_steady(plan.batches_between)
    batches = working.finish()
    for what, change in seen:
        yield what, change.figures(batches)


@dataclass(frozen=True)
class Change:
    """The times of one change, in seconds since the epoch.

    `quiet_from` is the start of the quiet batches, `at` the first request, `over_at` the end of all requests, and `end`
    the end of the batches that count.
    """

    quiet_from: float
    at: float
    over_at: float
    end: float

    def figures(self, batches: Sequence[Batch]) -> dict[str, float]:
        """The figures of this change, from all batches of the application. ClusterError without a quiet batch."""
        quiet = [batch.seconds for batch in batches if self.quiet_from <= batch.start and batch.end <= self.at]
        if not quiet:
            raise ClusterError(f"no batch was quiet between {self.quiet_from:.1f} and {self.at:.1f}")
        median, worst = percentile(quiet, 50), longest(batches, self.at, self.end)
        return {
            "worst-over-median": worst / median,
            "worst-batch-seconds": worst,
            "quiet-p50": median,
            "quiet-worst-over-median": max(quiet) / median,
            "change-seconds": self.over_at - self.at,
        }


class Means(Protocol):
    """The way in which a side makes a change."""

    def steps(self, what: str, number: int) -> Sequence[Callable[[], None]]:
        """The calls of the application's `number`th change, counted from 0. Each returns when its step is over.

        The processors or executors are chosen here, so that the calls take no time for that.
        """


class Requests:
    """The changes of Mooring: a processor is placed on the host after its own."""

    def __init__(self, working: Working) -> None:
        self._working = working
        working.submission.wait_until(lambda: bool(self._found()), "a plan for all hosts", 120)
        self._order = self._found()

    def steps(self, what: str, number: int) -> Sequence[Callable[[], None]]:
        """For `ONE`, the processor that was on the first host at the start; with the next change that on the second."""
        chosen = self._order if what == ALL else (self._order[number % len(self._order)],)
        return [partial(self._move, processor) for processor in chosen]

    def _found(self) -> tuple[str, ...]:
        return one_on_each_host(self._working.status())

    def _move(self, processor: str) -> None:
        job = self._working.submission
        places = {processor["id"]: processor["location"] for processor in self._working.status()["processors"]}
        destination = host_after(places[processor], places.values())
        with self._working.client() as client:
            uuid = client.place_container(processor, destination, job.application)

            def is_over() -> bool:
                answer = client.container_status(uuid)
                return answer is None or answer.status_code.is_final

            job.wait_until(is_over, f"processor {processor} to come to {destination}", MOST_SECONDS)
            answer = client.container_status(uuid)
        if answer is None or answer.status_code is not StatusCode.SUCCEEDED:
            raise ClusterError(f"processor {processor} did not come to {destination}: {answer}")


class Notices:
    """The changes of stock Spark: an executor gets a notice and leaves, and its Worker starts another one."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._last_host = ""

    def steps(self, what: str, number: int) -> Sequence[Callable[[], None]]:
        """For `ONE`, an executor with about an even share, if possible on another host than last time."""
        if what == ALL:
            chosen = sorted(self._working.executors().values(), key=lambda executor: executor.host)
        else:
            chosen = [self._working.choose(self._last_host)[0]]
        self._last_host = chosen[-1].host
        return [partial(self._end, executor) for executor in chosen]

    def _end(self, executor: ExecutorProcess) -> None:
        tell_to_go(executor)
        job = self._working.submission

        def is_replaced() -> bool:
            there = job.executors()
            return executor.id not in there and len(there) == HOSTS

        job.wait_until(is_replaced, f"another executor in place of {executor.id}", 120)


def one_on_each_host(status: Mapping[str, Any]) -> tuple[str, ...]:
    """The processors with tasks, in the order of their hosts; empty unless each of the three hosts has one."""
    listed = status.get("processors", ())
    working = {processor["location"]: str(processor["id"]) for processor in listed if processor["tasks"]}
    return tuple(working[host] for host in sorted(working)) if len(working) == HOSTS else ()


def host_after(host: str, hosts: Iterable[str]) -> str:
    """The next host in the order of names; the first one follows the last."""
    circle = sorted(set(hosts))
    return circle[(circle.index(host) + 1) % len(circle)]
