"""One processor of three, or all of them one after the other, goes to another executor while a query works.

For each size of state the state is built once, by stock Spark, and each side works on a copy of that checkpoint, on
`slow` storage with changelog checkpointing on: batches of a fixed number of rows, one each second, two or four, that
open and commit all partitions, with little work for each row and with much. Mooring is asked to place a processor on
the next host, in a circle of three, so that each goes where it has not been. Stock Spark has no moves, and makes the
same change with its own means: an executor is told to go (SIGPWR, with `spark.decommission.enabled`), leaves, and
another one takes over what it had. For one that is an executor with an even share of the partitions, or what is nearest
to it.

A change begins amid a batch, after a stretch of quiet batches. It is over when Mooring has given the last final status;
with stock Spark when the last executor is gone and the driver has another one in its place. Five batches more count.

    worst-over-median        the longest batch from the first request until five commits after the change was over, to
                             the median of the quiet batches before
    worst-batch-seconds      that longest batch
    quiet-p50                that median
    quiet-worst-over-median  the longest of the quiet batches, to that median: how far they scatter by themselves
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
"""Of each executor: on a host that has two processors for a while each task still has a slot of its own."""

BATCHES_AFTER = 5
ASKED_AFTER = (0.3, 0.9, 1.5)
"""Seconds from the start of a batch to the first request, one change after the other."""

MOST_SECONDS = 600.0
"""For how long the final status of one request is waited for."""

LIGHT = Load("light", rows=400)
"""A batch takes half a second, which chance delays of a tenth of a second are a fifth of."""

STEADY = Load("steady", rows=400, outputs=2000, every_seconds=4)
"""A batch takes 1.6 to three seconds of each four: processors that work, and that keep up with what comes in."""

APART = Load("apart", rows=400, every_seconds=2, wait_ms=25)
"""A batch takes two seconds, of which most keep no processor: all hosts share them. Tasks run at once."""

BUSY = Load("busy", rows=400, outputs=2000)
"""The batches of `STEADY` one after the other: all that is done beside them takes longer, and so do they."""

SIDES = (stock, mooring)
UNITS = {"worst-over-median": "x", "quiet-worst-over-median": "x"}


@dataclass(frozen=True)
class Case:
    """One comparison: what is changed in each application, in this order."""

    storage: str
    load: Load
    changes: tuple[str, ...]
    """Each `ONE` or `ALL`. Four after the other at the most, three of them of one: then each processor goes where it
    has not been."""
    batches_first: int
    """Batches before all others: the first ones load classes and compile code, and take longer."""
    batches_quiet: int
    """Batches that each change is compared with: as many as pass during a change, as the longest of more is longer."""
    changelog: bool = True


@dataclass(frozen=True)
class Plan:
    """What one call of the benchmark goes through."""

    sizes_gb: tuple[float, ...]
    cases: tuple[Case, ...]
    rounds: int
    """How often each side runs, every time with a new application."""
    batches_between: int
    """Batches after a change that count for nothing: the new executor's first ones, say."""


QUICK = Plan((0.1,), (Case("slow", LIGHT, (ONE,), batches_first=10, batches_quiet=5),), rounds=1, batches_between=0)
FULL = Plan(
    (0.5, 1.0),
    (
        # Until some 130 to 190 short batches have passed much is compiled still: of the quiet ones some take half as
        # long again. Those of the other loads do more each.
        Case("slow", LIGHT, (ONE, ONE, ONE, ALL), batches_first=200, batches_quiet=30),
        Case("slow", APART, (ONE, ONE, ONE, ALL), batches_first=100, batches_quiet=15),
        Case("slow", STEADY, (ONE, ONE, ONE, ALL), batches_first=100, batches_quiet=15),
        Case("slow", BUSY, (ONE, ONE, ONE, ALL), batches_first=200, batches_quiet=30),
    ),
    rounds=2,
    batches_between=8,
)


def run(quick: bool, part: Part = WHOLE) -> dict[str, Any]:
    """What the command line calls."""
    return measure(part.of(QUICK if quick else FULL))


def measure(plan: Plan, sides: Sequence[Callable[[], Side]] = SIDES, keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on a cluster of three hosts; `keep` is a directory for its files, else a temporary one."""
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
    """What was changed in one application, and the figures of it."""
    conf = {CHANGELOG: str(case.changelog).lower(), **DECOMMISSION}
    working = Working(cluster, side, storage(case.storage), checkpoint, case.load, conf)
    working.wait_until_steady(case.batches_first)
    means: Means = Notices(working) if side.name == "stock" else Requests(working)
    seen: list[tuple[str, Change]] = []
    for number, what in enumerate(case.changes):
        steps = means.steps(what, number)
        quiet_from = time.time()
        working.wait_for_commits(1 + case.batches_quiet)  # the one that is under way is not among them
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
    """When it was quiet before, when the first request was made, when all were over, and when no more batches count.

    Seconds since 1970.
    """

    quiet_from: float
    at: float
    over_at: float
    end: float

    def figures(self, batches: Sequence[Batch]) -> dict[str, float]:
        """Of all batches of the application. ClusterError when none was quiet."""
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
    """How a side makes a change."""

    def steps(self, what: str, number: int) -> Sequence[Callable[[], None]]:
        """The application's `number`th change, from 0: calls to be made in turn, each of which returns when it is over.

        Who is to go is settled now, so that the calls take no time for that.
        """


class Requests:
    """Mooring's means: a processor is placed on the host after its own."""

    def __init__(self, working: Working) -> None:
        self._working = working
        working.submission.wait_until(lambda: bool(self._found()), "a plan for all hosts", 120)
        self._order = self._found()

    def steps(self, what: str, number: int) -> Sequence[Callable[[], None]]:
        """Of one the processor of the first host, then that of the second and so on, as they were in the beginning."""
        chosen = self._order if what == ALL else (self._order[number % len(self._order)],)
        return [partial(self._move, processor) for processor in chosen]

    def _found(self) -> tuple[str, ...]:
        return one_on_each_host(self._working.status())

    def _move(self, processor: str) -> None:
        job = self._working.submission
        places = {one["id"]: one["location"] for one in self._working.status()["processors"]}
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
    """Stock Spark's means: an executor is told to go, and its Worker starts another one."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._last_host = ""

    def steps(self, what: str, number: int) -> Sequence[Callable[[], None]]:
        """Of one an executor with about an even share, where possible not on the host of last time."""
        if what == ALL:
            chosen = sorted(self._working.executors().values(), key=lambda one: one.host)
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
    """The processors that have tasks, in the order of their hosts; none while there is not one on each of three."""
    working = {one["location"]: str(one["id"]) for one in status.get("processors", ()) if one["tasks"]}
    return tuple(working[host] for host in sorted(working)) if len(working) == HOSTS else ()


def host_after(host: str, hosts: Iterable[str]) -> str:
    """The next one in the order of their names; after the last comes the first."""
    circle = sorted(set(hosts))
    return circle[(circle.index(host) + 1) % len(circle)]
