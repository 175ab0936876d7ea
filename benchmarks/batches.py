"""The batches of a query, read from its progress reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any


@dataclass(frozen=True)
class Batch:
    """One batch. `seconds` is its duration; `start` is in seconds since the epoch."""

    start: float
    seconds: float
    rows: int
    progress: Mapping[str, Any] = field(repr=False)

    @property
    def end(self) -> float:
        """The time of the commit, in seconds since the epoch."""
        return self.start + self.seconds

    @property
    def operator(self) -> Any:
        """The progress of the first stateful operator."""
        return self.progress["stateOperators"][0]


def batches_in(progress: Iterable[Mapping[str, Any]]) -> list[Batch]:
    """The batches in a query's progress reports, in their order."""
    return [
        Batch(
            datetime.fromisoformat(report["timestamp"].rstrip("Z")).replace(tzinfo=timezone.utc).timestamp(),
            report["durationMs"]["triggerExecution"] / 1000,
            report["numInputRows"],
            report,
        )
        for report in progress
    ]


def longest(batches: Sequence[Batch], start: float, end: float) -> float:
    """The duration of the longest batch that ran between two moments. ValueError when none ran."""
    return max(batch.seconds for batch in under_way(batches, start, end))


def under_way(batches: Sequence[Batch], start: float, end: float) -> list[Batch]:
    """The batches that ran between two moments."""
    return [batch for batch in batches if batch.start < end and batch.end > start]
