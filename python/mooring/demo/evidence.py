"""Reads a query from outside: its checkpoint's logs, Spark's event log, and the agent's status record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from mooring.errors import MetadataStoreMissing
from mooring.records.records import ReadRecords

_PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


@dataclass(frozen=True)
class Checkpoint:
    """The logs of a query with one file source that reads one file a batch."""

    directory: Path

    def commits(self) -> dict[int, float]:
        """Batch number to the moment of its commit, in seconds since the epoch."""
        return {batch: path.stat().st_mtime for batch, path in _numbered(self.directory / "commits")}

    def last_commit(self) -> int:
        """The newest batch that is committed; -1 for none."""
        return max((batch for batch, _ in _numbered(self.directory / "commits")), default=-1)

    def running_batch(self) -> int | None:
        """The batch that is planned and not yet committed."""
        planned = max((batch for batch, _ in _numbered(self.directory / "offsets")), default=-1)
        return planned if planned > self.last_commit() else None

    def files_committed(self) -> int:
        """The number of input files in committed batches: the offset of the file source is one less."""
        path = self.directory / "offsets" / str(self.last_commit())
        if not path.is_file():
            return 0
        source = path.read_text().splitlines()[-1]
        return int(json.loads(source)["logOffset"]) + 1


def progress_reports(event_logs: Path) -> list[dict[str, Any]]:
    """Each `StreamingQueryProgress` of a query with state, over all applications, in order of the batches."""
    reports = [
        report for path in sorted(event_logs.iterdir()) for report in _progress_in(path) if report["stateOperators"]
    ]
    return sorted(reports, key=lambda report: int(report["batchId"]))


def input_rows(report: dict[str, Any]) -> int:
    """The rows that the batch read."""
    return sum(int(source["numInputRows"]) for source in report["sources"])


def batch_seconds(report: dict[str, Any]) -> float:
    """The time that the batch took, in seconds."""
    return float(report["durationMs"]["triggerExecution"]) / 1000


def began_at(report: dict[str, Any]) -> float:
    """When the batch began, in seconds since the epoch."""
    return datetime.fromisoformat(report["timestamp"].replace("Z", "+00:00")).timestamp()


def state_bytes(report: dict[str, Any]) -> int:
    """The size of the state's SST files as RocksDB reports it, over all operators and partitions."""
    return sum(int(operator["customMetrics"].get("rocksdbSstFileSize", 0)) for operator in report["stateOperators"])


def state_rows(report: dict[str, Any]) -> int:
    """The rows in the state, over all operators and partitions."""
    return sum(int(operator["numRowsTotal"]) for operator in report["stateOperators"])


def status_record(records: ReadRecords) -> dict[str, Any]:
    """The newest status record of the agent; empty before there is one."""
    try:
        text = records.status()
    except MetadataStoreMissing:  # the agent has not made the store yet
        return {}
    return json.loads(text) if text else {}


def _progress_in(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if _PROGRESS in line and line.endswith("\n"):
                report = json.loads(line)["progress"]
                if "addBatch" in report["durationMs"]:
                    yield report


def _numbered(directory: Path) -> list[tuple[int, Path]]:
    return [(int(path.name), path) for path in directory.glob("[0-9]*") if path.name.isdigit()]
