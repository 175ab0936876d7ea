"""The settings and shapes of applications that are not the usual ones. Is any of them slower with Mooring?

Two hosts with one executor of one core each, but for `local[*]`. A query counts and sums by key.

- `usual`: no further setting. It is what the others are compared with.
- `kryo`, `bounded-memory`, `unload-on-commit`, `row-checksums`: one of Spark's settings that change how state is sent,
  held or written.
- `processor`: `transformWithState` in Python, with fewer rows. `avro`: the same with state in Avro, which Spark allows
  for this operator only.
- `thirty-queries`: thirty queries in one application, with two partitions each.
- `two-sessions`: two queries, each in a session of its own, with eight and with four partitions.
- `local`: `local[*]`, and the query has no checkpoint location.

    to-first-batch        from the submission until each query has ended its first batch
    batch-p50, batch-p95  the time of one batch, over the batches after the first ones
    seconds               from the first of these batches to the end of the last, over all queries
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.batches import batches_in
from benchmarks.figures import Row, percentile, row
from benchmarks.machine import this_machine
from benchmarks.part import WHOLE, Part
from benchmarks.say import say
from benchmarks.sides import BOTH_EXECUTORS, Side, StartedRun, in_turn, mooring, stock
from benchmarks.storage.kinds import storage
from benchmarks.working import hosts_for
from mooring.cli.exits import BadUsage
from mooring.errors import nearest
from mooring.testing.cluster import SparkCluster

SIDES: tuple[Callable[[], Side], ...] = (stock, mooring)
STATE = "spark.sql.streaming.stateStore"


@dataclass(frozen=True)
class Load:
    """One application: its settings, its queries, and how many batches each of them has."""

    name: str
    conf: Mapping[str, str] = field(default_factory=dict, hash=False)
    queries: int = 1
    sessions: int = 1
    batches: int = 60
    left_out: int = 20
    """The first batches, which do not count: code is compiled."""
    rows: int = 10_000
    """Input rows of a batch."""
    operator: str = "aggregation"
    local: bool = False
    """Whether it runs in `local[*]` and its query has no checkpoint location."""


FULL = (
    Load("usual"),
    Load("kryo", {"spark.serializer": "org.apache.spark.serializer.KryoSerializer"}),
    Load(
        "bounded-memory",
        {f"{STATE}.rocksdb.boundedMemoryUsage": "true", f"{STATE}.rocksdb.maxMemoryUsageMB": "64"},
    ),
    Load("unload-on-commit", {f"{STATE}.unloadOnCommit": "true"}),
    Load("row-checksums", {f"{STATE}.rowChecksum.enabled": "true"}),
    Load("processor", operator="transformWithState", rows=300, batches=40),
    Load("avro", {f"{STATE}.encodingFormat": "avro"}, operator="transformWithState", rows=300, batches=40),
    Load("thirty-queries", {"spark.sql.shuffle.partitions": "2"}, queries=30, batches=8, left_out=2, rows=1000),
    Load("two-sessions", queries=2, sessions=2),
    Load("local", local=True),
)
QUICK = (Load("usual", batches=20, left_out=10), Load("local", batches=20, left_out=10, local=True))
ROUNDS = 2


def run(quick: bool, part: Part = WHOLE) -> dict[str, Any]:
    """The entry point for the command line."""
    loads = QUICK if quick else FULL
    names = [load.name for load in loads]
    for name in part.loads:
        if name not in names:
            raise BadUsage(f"no load {name!r}; expected one of {', '.join(names)}{nearest(name, names)}")
    if part.sizes_gb:
        raise BadUsage("--gb: the loads have no size of state; expected --load or --rounds")
    chosen = [load for load in loads if not part.loads or load.name in part.loads]
    return measure(chosen, part.rounds or (1 if quick else ROUNDS))


def measure(loads: Sequence[Load], rounds: int, keep: Path | None = None) -> dict[str, Any]:
    """Run the loads on a cluster of two hosts, with its files in `keep`, or in a temporary directory."""
    machine = this_machine()
    rows: list[Row] = []
    with hosts_for("settings", keep, hosts=2) as (cluster, directory):
        for load in loads:
            measured: dict[str, dict[str, list[float]]] = {}
            for number, side in enumerate(in_turn(SIDES, rounds)):
                figures = _figures(cluster, side, directory / f"{load.name}-{number}", load)
                say(f"{load.name} {side.name}: " + ", ".join(f"{name} {value:.3g}" for name, value in figures.items()))
                for name, value in figures.items():
                    measured.setdefault(name, {}).setdefault(side.name, []).append(value)
            rows += [row(name, "s", values, load=load.name) for name, values in measured.items()]
    return {"name": "settings", "machine": machine, "rows": rows}


def _figures(cluster: SparkCluster, side: Side, checkpoints: Path, load: Load) -> dict[str, float]:
    """The figures of one application."""
    where = storage("raw")
    words = [
        "none" if load.local else where.uri(checkpoints),
        "local[*]" if load.local else "submitted",
        str(load.queries),
        "one" if load.sessions == 1 else "two",
        str(load.batches),
        str(load.rows),
        load.operator,
    ]
    finished = StartedRun(
        cluster, side, where, "settings_job.py", words, {} if load.local else {**BOTH_EXECUTORS, **load.conf}
    ).finish()
    ran = batches_in(finished.answer["progress"])
    first = [batch for batch in ran if batch.progress["batchId"] == 0]
    counted = [batch for batch in ran if load.left_out <= batch.progress["batchId"] < load.batches]
    assert len(first) == load.queries, f"{len(first)} queries have told of their first batch, not {load.queries}"
    seconds = [batch.seconds for batch in counted]
    return {
        "to-first-batch": max(batch.end for batch in first) - finished.submitted,
        "batch-p50": percentile(seconds, 50),
        "batch-p95": percentile(seconds, 95),
        "seconds": max(batch.end for batch in counted) - min(batch.start for batch in counted),
    }
