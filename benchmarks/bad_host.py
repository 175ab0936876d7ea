"""One of two hosts is bad for a while. How long are the batches, with Spark's own remedies switched on?

A query removes duplicates, batch after batch, on two hosts with one executor of one core each. `spark.locality.wait`
has Spark's default of 3 s.

- `excluded`: with `spark.excludeOnFailure.enabled`, tasks with state fail on one host in two batches. Spark then gives
  that executor no more tasks in this application. The twelve batches after that are measured.
- `outrun`: with `spark.speculation`, each row waits on one host in every third batch. Each task there takes three
  seconds more. Eighteen batches are measured, from the first slow one on.

    seconds                 the sum over the measured batches
    batch-p50, batch-worst  the time of one batch
    speculated-tasks        tasks that Spark considered slow
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.batches import batches_in
from benchmarks.figures import Row, percentile, row
from benchmarks.machine import this_machine
from benchmarks.say import say
from benchmarks.sides import BOTH_EXECUTORS, PARTITIONS, Side, StartedRun, in_turn, mooring, stock
from benchmarks.storage.kinds import storage
from benchmarks.working import hosts_for
from mooring.testing.cluster import SparkCluster

FIRST_BAD = 10
"""The first batch in which the host is bad. By then the JVMs have compiled most of the code."""

ROWS = 50 * PARTITIONS
SIDES: tuple[Callable[[], Side], ...] = (stock, mooring)
UNITS = {"speculated-tasks": "tasks"}
_SPECULATABLE = re.compile(r"Marking task .* as speculatable")


@dataclass(frozen=True)
class Harm:
    """A way in which the host is bad (`what`), in each `every`-th batch from `FIRST_BAD` to `last`."""

    name: str
    what: str
    last: int
    every: int
    measured: range
    """The numbers of the measured batches."""
    conf: dict[str, str] = field(hash=False)


EXCLUDED = Harm(
    "excluded",
    "fails",
    last=FIRST_BAD + 1,
    every=1,
    measured=range(FIRST_BAD + 2, FIRST_BAD + 14),
    conf={"spark.excludeOnFailure.enabled": "true", "spark.excludeOnFailure.timeout": "1h"},
)
OUTRUN = Harm(
    "outrun",
    f"waits:{3000 * PARTITIONS // ROWS}",
    last=FIRST_BAD + 17,
    every=3,
    measured=range(FIRST_BAD, FIRST_BAD + 18),
    conf={
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "300ms",
    },
)


@dataclass(frozen=True)
class Plan:
    """The comparisons of one call of the benchmark."""

    harms: tuple[Harm, ...]
    rounds: int
    """How often each side runs, each time with a new application."""


QUICK = Plan((EXCLUDED,), rounds=1)
FULL = Plan((EXCLUDED, OUTRUN), rounds=3)


def run(quick: bool) -> dict[str, Any]:
    """The entry point for the command line."""
    return measure(QUICK if quick else FULL)


def measure(plan: Plan, keep: Path | None = None) -> dict[str, Any]:
    """Run the plan on a cluster of two hosts, with its files in `keep`, or in a temporary directory."""
    machine = this_machine()
    rows: list[Row] = []
    with hosts_for("bad-host", keep, hosts=2) as (cluster, directory):
        for harm in plan.harms:
            measured: dict[str, dict[str, list[float]]] = {}
            for number, side in enumerate(in_turn(SIDES, plan.rounds)):
                figures = _figures(cluster, side, directory / f"{harm.name}-{number}", harm)
                say(f"{harm.name} {side.name}: " + ", ".join(f"{name} {value:g}" for name, value in figures.items()))
                for name, value in figures.items():
                    measured.setdefault(name, {}).setdefault(side.name, []).append(value)
            rows += [row(name, UNITS.get(name, "s"), values, harm=harm.name) for name, values in measured.items()]
    return {"name": "bad_host", "machine": machine, "rows": rows}


def _figures(cluster: SparkCluster, side: Side, checkpoint: Path, harm: Harm) -> dict[str, float]:
    """The figures of one application."""
    bad = sorted(cluster.hosts)[-1]
    words = [checkpoint, ROWS, harm.measured[-1] + 1, bad, harm.what, FIRST_BAD, harm.last, harm.every]
    conf = {**BOTH_EXECUTORS, **harm.conf}
    started = StartedRun(cluster, side, storage("raw"), "bad_host_job.py", [str(word) for word in words], conf)
    answer = started.finish().answer
    seconds = [
        batch.seconds for batch in batches_in(answer["progress"]) if int(batch.progress["batchId"]) in harm.measured
    ]
    assert len(seconds) == len(harm.measured), f"batches {list(harm.measured)} of {len(answer['progress'])}"
    return {
        "seconds": sum(seconds),
        "batch-p50": percentile(seconds, 50),
        "batch-worst": max(seconds),
        "speculated-tasks": float(len(_SPECULATABLE.findall(started.submission.log))),
    }
