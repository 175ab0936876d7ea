"""Is an upload slower because the host keeps the file? Uploads of stock Spark and of Mooring alternate.

A commit of a state store uploads an SST file, the archive of the snapshot and its checksum. Both sides do that in one
JVM, in turns, with the calls that Spark makes. Stock uses Hadoop's file system and Spark's checkpoint file manager;
Mooring uses its own, which wrap those. The order alternates from commit to commit, so that other work of the machine
affects both sides.

    upload               from the first call to the end of the last one
    upload-difference    how much longer Mooring's upload took than stock's just before or after it: means of blocks of
                         commits, negative where Mooring's was shorter
    keeping              after the uploads, before the version counts: writing archive and checksum to the host's disk
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.figures import row
from benchmarks.machine import this_machine
from benchmarks.say import say
from mooring.jar import jar_path

ARCHIVE_BYTES, CHECKSUM_BYTES = 17_000, 120
"""An archive of the benchmark `steady` has 17,046 bytes; a checksum is one line of JSON."""


@dataclass(frozen=True)
class Plan:
    """`commits` of each side count, after `left_out` that compile code; differences are means of `blocks` blocks."""

    sst_bytes: tuple[int, ...]
    commits: int
    left_out: int
    blocks: int


QUICK = Plan((1_000_000,), commits=40, left_out=20, blocks=4)
FULL = Plan((100_000, 1_000_000, 10_000_000), commits=300, left_out=50, blocks=10)


def run(quick: bool) -> dict[str, Any]:
    """The entry point for the command line."""
    return measure(QUICK if quick else FULL)


def measure(plan: Plan) -> dict[str, Any]:
    """Run the plan in a JVM and a directory of its own."""
    machine = this_machine()
    rows = []
    with _jvm() as jvm:
        for size in plan.sst_bytes:
            with tempfile.TemporaryDirectory(prefix="mooring-upload-") as name:
                rows += _compare(jvm, Path(name), size, plan)
    return {"name": "upload", "machine": machine, "rows": rows}


@contextmanager
def _jvm() -> Iterator[Any]:
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway(SparkConf(False).set("spark.driver.extraClassPath", str(jar_path())))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def _compare(jvm: Any, directory: Path, size: int, plan: Plan) -> list[dict[str, Any]]:
    sides = [Stock(jvm, directory / "stock"), Ours(jvm, directory / "ours")]
    content = os.urandom(size)
    uploads: dict[str, list[float]] = {side.name: [] for side in sides}
    keeping: list[float] = []
    for number in range(plan.left_out + plan.commits):
        for side in sides if number % 2 == 0 else sides[::-1]:
            seconds, after = side.commit(number, content)
            if number >= plan.left_out:
                uploads[side.name].append(seconds)
                keeping += [after] if side.name == "mooring" else []
    blocks = differences(uploads["stock"], uploads["mooring"], plan.blocks)
    what = {"sst-bytes": size}
    rows = [
        row("upload", "s", uploads, **what),
        row("upload-difference", "s", {"mooring": blocks}, **what),
        row("keeping", "s", {"mooring": keeping}, **what),
    ]
    say(f"SST files of {size} bytes: on average ours took {mean(blocks) * 1000:.2f} ms longer")
    return rows


def differences(stock: Sequence[float], ours: Sequence[float], blocks: int) -> list[float]:
    """How much longer ours took: the mean of each block of commits. Commits that fill no block are left out."""
    pairs = [own - other for other, own in zip(stock, ours, strict=True)]
    length = len(pairs) // blocks
    return [mean(pairs[start : start + length]) for start in range(0, length * blocks, length)]


class Stock:
    """A state store's directory in a checkpoint, written as stock Spark does it."""

    name = "stock"

    def __init__(self, jvm: Any, directory: Path) -> None:
        self._jvm = jvm
        self.state, self._working = directory / "checkpoint/state/0/1", directory / "working"
        for path in (self.state, self._working):
            path.mkdir(parents=True)
        self.conf = jvm.org.apache.hadoop.conf.Configuration()
        path = self.path(self.state)
        managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self.files = managers.create(path, self.conf)
        self.file_system = path.getFileSystem(self.conf)

    def path(self, path: Path) -> Any:
        """A path as an object of Hadoop."""
        return self._jvm.org.apache.hadoop.fs.Path(path.as_uri())

    def commit(self, version: int, content: bytes) -> tuple[float, float]:
        """Upload the files of a version. Returns the seconds of the upload, and of `complete` after it."""
        local, unique = self._working / f"{version:06}.sst", uuid.uuid4()
        local.write_bytes(content)
        source, target = self.path(local), self.path(self.state / f"{version:06}-{unique}.sst")
        archive, checksum = os.urandom(ARCHIVE_BYTES), os.urandom(CHECKSUM_BYTES)
        begin = time.perf_counter()
        self.file_system.copyFromLocalFile(source, target)
        self._write(f"{version}_{unique}.zip", archive)
        self._write(f"{version}_{unique}.zip.crc", checksum)
        uploaded = time.perf_counter()
        self.complete()
        over = time.perf_counter()
        local.unlink()
        return uploaded - begin, over - uploaded

    def _write(self, name: str, content: bytes) -> None:
        out = self.files.createAtomic(self.path(self.state / name), True)
        out.write(content)
        out.close()

    def complete(self) -> None:
        """Called when all files are uploaded; stock has nothing to do."""


class Ours(Stock):
    """A state store's directory, written with Mooring in a JVM whose host keeps the files."""

    name = "mooring"

    def __init__(self, jvm: Any, directory: Path) -> None:
        super().__init__(jvm, directory)
        store = jvm.io.mooring.localstore.HostStore.open(jvm.java.io.File(str(directory / "store")).toPath()).get()
        executors = jvm.java.lang.Class.forName("io.mooring.localstore.HostStores$").getField("MODULE$").get(None)
        executors.use(jvm.scala.Option.apply(store))
        path = self.path(self.state)
        self._host_files = store.filesOf(path).get()
        self._host_files.opening()  # as Mooring's state store does, which then calls `complete` for each version
        self._host_files.opened()
        self.files = jvm.io.mooring.MooringCheckpointFileManager(path, self.conf)
        reads = jvm.io.mooring.localstore.StoreReads.of(path)
        shared = jvm.io.mooring.localstore.SharedFileSystem
        self.file_system = shared(self.file_system, self._host_files, reads, None, True)

    def complete(self) -> None:
        """Keep the written files, as a commit does."""
        self._host_files.complete()
