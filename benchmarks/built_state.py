"""Builds state of a given size, once, with stock Spark. Each side then works on a copy of that checkpoint."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.say import say
from benchmarks.sides import StartedRun, stock
from benchmarks.storage.kinds import Storage, raw_storage
from mooring.testing.cluster import SparkCluster

ROW_BYTES = 2112
"""About the size of one row of jobs/built_query.py in RocksDB."""

COMPACTED = {"spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "true"}
"""Compacts the state at its commit, as RocksDB does over time. Otherwise RocksDB compacts it after later openings."""


def build(cluster: SparkCluster, checkpoint: Path, size_gb: float, conf: dict[str, str]) -> None:
    """Make a checkpoint on the local disk with `size_gb` of state, in one batch."""
    rows = int(size_gb * 1e9 / ROW_BYTES)
    say(f"building {size_gb} GB of state: {rows} rows")
    args = [str(checkpoint), str(rows), "cold"]
    StartedRun(cluster, stock(), raw_storage(), "restart_job.py", args, conf | COMPACTED).finish()


def copy_for(where: Storage, source: Path, target: Path) -> None:
    """Copy a checkpoint for a storage. On a local disk the copy has Hadoop's hidden checksum files, elsewhere not."""
    copy_checkpoint(source, target, hidden_files=where.name == "raw")


def copy_checkpoint(source: Path, target: Path, hidden_files: bool) -> None:
    """Make a second checkpoint with the same content. It has hard links, because Spark never changes a written file.

    `hidden_files` keeps the checksum files that Hadoop writes on a local disk only.
    """
    left_out = None if hidden_files else shutil.ignore_patterns(".*.crc")
    shutil.copytree(source, target, ignore=left_out, copy_function=lambda a, b: os.link(a, b))
