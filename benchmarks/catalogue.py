"""The Delta catalogue of committed state while it grows: the time to read the newest batch, and the table's size.

A generator writes commit and offset logs as a query of eight partitions would, and the reports of its executors. The
agent's own keeper writes the table, with ten batches in an append, as with one batch a second and the default interval.
Unlike the default, no old rows are removed. Before each reading, Delta's cache of the table is cleared.

    latest-seconds         reading all rows of the newest batch
    append-seconds         one append of the last ten batches, with Delta's work after it
    rows, table-bytes      rows of the table, and the size of all its files, with the log and files replaced since
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import Row, row
from benchmarks.machine import this_machine
from benchmarks.say import say
from mooring.agent.checkpoints.catalogue_keeper import CatalogueKeeper
from mooring.catalogue.rows import TABLE
from mooring.checkpoint import state_table
from mooring.checkpoint.lease import DIRECTORY
from mooring.metadata.local_tree import LocalFileTree
from mooring.model import events
from mooring.spark.delta import DeltaTables

PARTITIONS = 8
BATCHES_AN_APPEND = 10
KEPT_IN_LOG = 100
QUERY = "00000000-0000-0000-0000-000000000001"
READINGS = 5

QUICK = (100, 300)
FULL = (100, 1_000, 10_000)


class Generator:
    """Writes the logs of a query, and the reports of its executors, batch by batch."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._facts: list[dict[str, Any]] = []
        self._before = [""] * PARTITIONS
        for log in ("commits", "offsets"):
            (checkpoint / log).mkdir(parents=True)

    def batch(self, number: int) -> None:
        """Write one more batch. The logs keep their last hundred entries."""
        ids = [str(uuid.uuid4()) for _ in range(PARTITIONS)]
        commit = {"nextBatchWatermarkMs": number * 1000, "stateUniqueIds": {"0": [[id] for id in ids]}}
        self._write("commits", number, f"v2\n{json.dumps(commit)}")
        begun = {"batchWatermarkMs": number * 1000, "batchTimestampMs": number * 1000, "conf": {}}
        self._write("offsets", number, f'v1\n{json.dumps(begun)}\n{{"clicks":{{"0":{number},"1":{number}}}}}')
        for partition, (id, base) in enumerate(zip(ids, self._before, strict=True)):
            self._facts.append(_committed(self._checkpoint, partition, number + 1, id, base))
        self._before = ids
        for log in ("commits", "offsets"):
            (self._checkpoint / log / str(number - KEPT_IN_LOG)).unlink(missing_ok=True)

    def take(self, most: int) -> str:
        """Up to `most` new reports, as the JSON of the JVM."""
        taken, self._facts = self._facts[:most], self._facts[most:]
        return json.dumps(taken)

    def _write(self, log: str, number: int, text: str) -> None:
        (self._checkpoint / log / str(number)).write_text(text)


def _committed(checkpoint: Path, partition: int, version: int, id: str, base: str) -> dict[str, Any]:
    return {
        "report": "version-committed",
        "store": f"{checkpoint}/state/0/{partition}",
        "host": "10.0.0.1",
        "version": version,
        "id": id,
        "base": base,
        "keys": version * 1000,
        "bytes": version * 100_000,
        "changelog": [{"name": f"{version}_{id}.changelog", "bytes": 123_456, "crc32c": version * 7919 % 2**32}],
    }


def run(quick: bool) -> dict[str, Any]:
    """The entry point for the command line."""
    directory = Path(tempfile.mkdtemp(prefix="mooring-catalogue-"))
    machine = this_machine()
    try:
        with state_table.session({"spark.driver.memory": "1g", "spark.master": "local[2]"}) as spark:
            rows = list(_measured(spark._jvm, directory / "checkpoint", QUICK if quick else FULL))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return {"name": "catalogue", "machine": machine, "rows": rows}


def _measured(jvm: Any, checkpoint: Path, sizes: tuple[int, ...]) -> Iterator[Row]:
    tables, made = DeltaTables(jvm), Generator(checkpoint)
    keeper = CatalogueKeeper(tables, made.take, LocalFileTree, say)
    conf = {
        "spark.mooring.checkpoint.catalog.interval": "1h",
        "spark.mooring.checkpoint.catalog.retain.batches": str(10 * sizes[-1]),
    }
    keeper.handle(events.ApplicationStarted(1, "application", "job", conf, "", is_catalogued=True))
    keeper.handle(events.QueryPlanned(1, QUERY, "run", "clicks", str(checkpoint), 0, {0: PARTITIONS}))
    table = checkpoint / DIRECTORY / TABLE
    took: list[float] = []
    for number in range(sizes[-1]):
        made.batch(number)
        if (number + 1) % BATCHES_AN_APPEND == 0:
            took.append(_seconds(keeper.write))
        if number + 1 in sizes:
            yield from _at(jvm, tables, table, number, took)
    keeper.end()


def _at(jvm: Any, tables: DeltaTables, table: Path, newest: int, took: list[float]) -> Iterator[Row]:
    latest = [_seconds(lambda: _read(jvm, tables, table, newest)) for _ in range(READINGS)]
    counted = (tables.select(str(table), ("count(*) AS rows",), "true") or [{}])[0]["rows"]
    size = sum(file.stat().st_size for file in table.rglob("*") if file.is_file())
    what = {"batches": newest + 1}
    say(f"{newest + 1} batches: latest {sorted(latest)[READINGS // 2]:.2f} s, {counted} rows, {size >> 10} KiB")
    yield row("latest-seconds", "s", {"mooring": latest}, **what)
    yield row("append-seconds", "s", {"mooring": took[-20:]}, **what)
    yield row("rows", "rows", {"mooring": [float(counted)]}, **what)
    yield row("table-bytes", "bytes", {"mooring": [float(size)]}, **what)


def _read(jvm: Any, tables: DeltaTables, table: Path, newest: int) -> None:
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    found = tables.select(str(table), ("*",), f"query = '{QUERY}' AND batch = {newest}")
    assert found is not None and len(found) == PARTITIONS


def _seconds(work: Any) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
