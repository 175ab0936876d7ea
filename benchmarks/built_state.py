"""State of a size that is wanted, built once by stock Spark; each side works on a copy of that checkpoint."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.say import say
from benchmarks.sides import StartedRun, stock
from benchmarks.storage.kinds import Storage, raw_storage
from mooring.testing.cluster import SparkCluster

ROW_BYTES = 2112
"""One row of jobs/built_query.py in RocksDB, about."""

COMPACTED = {"spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "true"}
"""As RocksDB leaves state that has been written for long; else it compacts all of it right after later openings."""


def build(cluster: SparkCluster, checkpoint: Path, size_gb: float, conf: dict[str, str]) -> None:
    """Make a checkpoint on the local disk that holds `size_gb` of state, in one batch."""
    rows = int(size_gb * 1e9 / ROW_BYTES)
    say(f"building {size_gb} GB of state: {rows} rows")
    args = [str(checkpoint), str(rows), "cold"]
    StartedRun(cluster, stock(), raw_storage(), "restart_job.py", args, conf | COMPACTED).finish()


def copy_for(where: Storage, source: Path, target: Path) -> None:
    """A copy as a storage would have it: a local disk has Hadoop's hidden checksum files, others have not."""
    copy_checkpoint(source, target, hidden_files=where.name == "raw")


def copy_checkpoint(source: Path, target: Path, hidden_files: bool) -> None:
    """A second checkpoint with the same content. Hard links: what Spark has written there it never writes again.

    `hidden_files`: with the checksum files that Hadoop keeps on a local disk and nowhere else.
    """
    left_out = None if hidden_files else shutil.ignore_patterns(".*.crc")
    shutil.copytree(source, target, ignore=left_out, copy_function=lambda a, b: os.link(a, b))
