"""Fifty short applications in a row on one checkpoint, as a scheduler starts them, beside stock Spark."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pytest

from mooring.testing.probes import wait_until
from tests.integration.support.restarted_job import FORMAT_KEY, PROVIDER_KEY, STOCK_ROCKSDB, Stages

pytestmark = [pytest.mark.heavy, pytest.mark.one_jvm]

RUNS = int(os.environ.get("MOORING_TEST_RUNS", "50"))
CONF = {
    PROVIDER_KEY: STOCK_ROCKSDB,
    FORMAT_KEY: "2",
    "spark.sql.streaming.minBatchesToRetain": "3",  # so that half of the runs suffice to see what stays
}


def files_in(directory: Path) -> int:
    return sum(path.is_file() for path in directory.rglob("*"))


def agents_of(stages: Stages) -> list[str]:
    """The processes of agents whose application has this local store."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if b"mooring.agent" in command and os.fsencode(stages.local_store) in environment:
            found.append(process.name)
    return found


def test_what_is_left_and_how_long_they_take_stays_as_it_is(tmp_path: Path) -> None:
    sides = {name: Stages(tmp_path / name, files=RUNS - 1) for name in ("mooring", "stock")}
    ours = sides["mooring"]
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    kept, records = [], []
    for number in range(RUNS):
        for name in sorted(sides, reverse=number % 2 == 1):
            began = time.monotonic()
            sides[name].run((number + 1) / RUNS, CONF, plugin=name == "mooring")
            seconds[name].append(time.monotonic() - began)
        wait_until(lambda: not agents_of(ours), "the agent to end", 20)
        kept.append(files_in(ours.local_store))
        records.append(files_in(ours.checkpoint.parent / "_mooring"))
    for name, took in seconds.items():
        halves = [statistics.median(took[: RUNS // 2]), statistics.median(took[RUNS // 2 :])]
        print(f"{name}: seconds a run {halves}, first {took[0]:.1f}")
    print(f"files in the local store {kept}, records {records}")
    for counts in (kept, records):
        assert max(counts[RUNS // 2 :]) <= 1.25 * max(counts[: RUNS // 2]), "else they would be twice as many"
    for stages in sides.values():
        stages.assert_right()
