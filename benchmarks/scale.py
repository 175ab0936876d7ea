"""Two hosts become four while a query works. How long is the longest batch until all four share the partitions?

Stock Spark builds the state once for each size. Each side works on a copy of that checkpoint, on `slow` storage with
changelog checkpointing. Batches have a fixed number of rows, start every one or four seconds, and open and commit all
partitions. Loads differ in the work for each row. Two of four hosts are down when the application starts. They come up
together during a batch, after a number of quiet batches, and the application gets an executor on each. With Mooring the
change is over when its plan is even on four. Stock Spark has no plan: there it is over when both executors are there.
Ten more batches count.

    worst-over-median        the longest batch from the start of the hosts until ten commits after the change, over the
                             median of the quiet batches before
    worst-batch-seconds      that longest batch
    quiet-p50                that median
    quiet-worst-over-median  the longest of the quiet batches over that median: the usual scatter
    change-seconds           from the start of the hosts until the change was over
    moves                    partitions that the plan gave to another processor; four is the least for eight
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import Row
from benchmarks.machine import this_machine
from benchmarks.move import BUSY, LIGHT, Change
from benchmarks.newcomers import coming_up
from benchmarks.part import WHOLE, Part
from benchmarks.sides import CHANGELOG, Side, in_turn, mooring, stock
from benchmarks.storage.kinds import storage
from benchmarks.working import Load, Seen, Working, built_states, compared, hosts_for, is_even
from mooring.testing.cluster import SparkCluster

BEFORE, AFTER = 2, 4
APART = Load("apart", rows=400, every_seconds=4, wait_ms=12)
"""A batch on two hosts takes three seconds of each four, most of it without CPU time, which all hosts share.

A host's tasks run one after the other."""

STORAGE = "slow"
BATCHES_AFTER = 10
ASKED_AFTER = 0.5
"""Seconds from the start of a batch until the hosts come up."""

MOST_SECONDS = 300.0
SIDES = (stock, mooring)
UNITS = {"worst-over-median": "x", "quiet-worst-over-median": "x", "moves": "partitions"}


@dataclass(frozen=True)
class Case:
    """One comparison; the fields are those of `move.Case`."""

    load: Load
    batches_first: int
    batches_quiet: int


@dataclass(frozen=True)
class Plan:
    """The comparisons of one call of the benchmark."""

    sizes_gb: tuple[float, ...]
    rounds: int
    """How often each side runs, each time with a new application."""
    cases: tuple[Case, ...]


QUICK = Plan((0.1,), rounds=1, cases=(Case(LIGHT, batches_first=10, batches_quiet=5),))
FULL = Plan(
    (0.5,),
    rounds=3,
    cases=(
        Case(LIGHT, batches_first=200, batches_quiet=30),
        Case(APART, batches_first=60, batches_quiet=15),
        Case(BUSY, batches_first=200, batches_quiet=30),
    ),
)


def run(quick: bool, part: Part = WHOLE) -> dict[str, Any]:
    """The entry point for the command line."""
    return measure(part.of(QUICK if quick else FULL))


def measure(plan: Plan, sides: Sequence[Callable[[], Side]] = SIDES, keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on a cluster of four hosts, with its files in `keep`, or in a temporary directory."""
    machine = this_machine()
    rows: list[Row] = []
    with hosts_for("scale", keep, hosts=AFTER) as (cluster, directory):
        for size, built in built_states(cluster, directory, plan.sizes_gb):
            for case in plan.cases:
                observe = partial(_grown, cluster, case=case)
                varied = {"storage": STORAGE, "state_gb": size, "changelog": True, "load": case.load.name}
                rows += compared(cluster, in_turn(sides, plan.rounds), built, observe, UNITS, **varied)
    return {"name": "scale", "machine": machine, "rows": rows}


def _grown(cluster: SparkCluster, side: Side, checkpoint: Path, case: Case) -> Iterator[Seen]:
    """The figures of one application."""
    later = sorted(cluster.hosts)[BEFORE:]
    for host in later:
        cluster.kill_host(host)
    working = Working(cluster, side, storage(STORAGE), checkpoint, case.load, {CHANGELOG: "true"}, hosts=BEFORE)
    working.wait_until_steady(case.batches_first)
    moves = _moves(working)
    quiet_from = time.time()
    working.wait_for_commits(1 + case.batches_quiet)  # the running batch does not count
    working.wait_for_batch()
    time.sleep(ASKED_AFTER)
    at = time.time()
    working.hosts = AFTER
    job = working.submission
    with coming_up(cluster, later, job.application):
        job.wait_for_executors(AFTER, timeout=120)
        if side.name != "stock":
            job.wait_until(lambda: is_even(working.status(), AFTER), "an even plan on four hosts", MOST_SECONDS)
        over_at = time.time()
        working.wait_for_commits(BATCHES_AFTER)
        end = time.time()
    moved = _moves(working) - moves
    figures = Change(quiet_from, at, over_at, end).figures(working.finish())
    yield "two hosts to four", figures if side.name == "stock" else {**figures, "moves": moved}


def _moves(working: Working) -> int:
    return int(working.status().get("counters", {}).get("moves", 0))
