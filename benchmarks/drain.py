"""A drain flushes many open windows or sessions at once. Stock Spark can only stop, so it is measured beside.

Each row opens a window or session of its own, which nothing in the input closes. A batch reads one file. When half of
the files are processed, Mooring is asked to drain the query. Stock Spark is asked to process all available input and to
stop; its windows stay open in the state. There are three hosts, with one executor of one core each.

    end-seconds          from the request until the query has ended
    freeze-seconds       of that, until the sources are frozen: the agent looks for requests once a second here, and a
                         running batch is not cut off
    catch-up-seconds     from the freeze until all earlier input was processed
    flush-seconds        from there until the last batch was committed and the marker was written
    flush-batches        batches that flushed rows
    rows-out             rows in the output, with stock Spark and with Mooring
    state-rows-left      rows of state in the checkpoint at the end
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.commits import commits_in
from benchmarks.figures import Row, row
from benchmarks.machine import this_machine
from benchmarks.say import say
from benchmarks.sides import Side, StartedRun, mooring, stock
from benchmarks.storage.kinds import storage
from benchmarks.working import hosts_for
from mooring.cli.records import CommandRecords
from mooring.errors import ClusterError
from mooring.testing.cluster import SparkCluster

FILES = 10
SIDES: tuple[Callable[[], Side], ...] = (stock, mooring)
UNITS = {"flush-batches": "batches", "rows-out": "rows", "state-rows-left": "rows"}
POLL = {"spark.mooring.drain.poll.interval": "1s"}

Measured = dict[str, float]
"""Figure to value, for one application."""


@dataclass(frozen=True)
class Plan:
    """The comparisons of one call of the benchmark."""

    kinds: tuple[str, ...]
    rows: tuple[int, ...]
    rounds: int


QUICK = Plan(("windows",), (10_000,), rounds=1)
FULL = Plan(("windows", "sessions"), (100_000, 1_000_000), rounds=2)


def run(quick: bool) -> dict[str, Any]:
    """The entry point for the command line."""
    return measure(QUICK if quick else FULL)


def measure(plan: Plan, keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on a cluster of three hosts, with its files in `keep`, or in a temporary directory."""
    machine = this_machine()
    rows: list[Row] = []
    with hosts_for("drain", keep) as (cluster, directory):
        for kind in plan.kinds:
            for count in plan.rows:
                rows += _compare(cluster, directory, kind, count, plan.rounds)
    return {"name": "drain", "machine": machine, "rows": rows}


def _compare(cluster: SparkCluster, directory: Path, kind: str, count: int, rounds: int) -> list[Row]:
    measured: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds):
        for make in SIDES if number % 2 == 0 else SIDES[::-1]:
            side = make()
            seen = _ended(cluster, directory / f"{kind}-{count}-{side.name}", side, kind, count)
            say(f"{count} {kind} {side.name}: " + ", ".join(f"{figure} {value:g}" for figure, value in seen.items()))
            for figure, value in seen.items():
                measured.setdefault(figure, {}).setdefault(side.name, []).append(value)
    return [row(figure, UNITS.get(figure, "s"), values, kind=kind, rows=count) for figure, values in measured.items()]


def _ended(cluster: SparkCluster, directory: Path, side: Side, kind: str, count: int) -> Measured:
    """The figures of one application. ClusterError when a drain did not write each row exactly once."""
    checkpoint, where = directory / "checkpoint", storage("raw")
    directory.mkdir(parents=True)
    arguments = [str(checkpoint), str(directory), kind, str(count), str(FILES)]
    conf = POLL if side.name == "mooring" else {}
    started = StartedRun(cluster, side, where, "drain_job.py", arguments, conf)
    submission = started.submission
    submission.wait_until(lambda: len(commits_in(checkpoint)) >= FILES // 2, "half of the input", timeout=600)
    requested_at = time.time()
    if side.name == "stock":
        (directory / "stop").touch()
    else:
        CommandRecords(str(directory / "_mooring" / "drain")).client().drain(submission.application)
    answer = started.finish().answer
    seen = {"end-seconds": answer["ended"] - requested_at, "rows-out": answer["rows-out"]}
    if side.name == "stock":
        seen["state-rows-left"] = answer["state-rows"]
    else:
        marker = json.loads((checkpoint / "_mooring/drained.json").read_text())
        frozen, caught_up, over = (marker[moment] / 1000 for moment in ("frozen-at", "caught-up-at", "at"))
        seen |= {
            "freeze-seconds": frozen - requested_at,
            "catch-up-seconds": caught_up - frozen,
            "flush-seconds": over - caught_up,
            "flush-batches": marker["flush-batches"],
            "state-rows-left": marker["state-rows-left"],
        }
        if (answer["rows-out"], answer["values"], answer["total"]) != (count, count, count * (count - 1) // 2):
            raise ClusterError(f"of {count} {kind} came out: {answer}")
    shutil.rmtree(directory)
    return seen
