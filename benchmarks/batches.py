"""The batches of a query, as its progress tells of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any


@dataclass(frozen=True)
class Batch:
    """One batch; times in seconds, the start since 1970."""

    start: float
    seconds: float
    rows: int
    progress: Mapping[str, Any] = field(repr=False)

    @property
    def end(self) -> float:
        """When it was committed."""
        return self.start + self.seconds

    @property
    def operator(self) -> Any:
        """What its first stateful operator says of itself."""
        return self.progress["stateOperators"][0]


def batches_in(progress: Iterable[Mapping[str, Any]]) -> list[Batch]:
    """The batches of a query's progress, in its order."""
    return [
        Batch(
            datetime.fromisoformat(one["timestamp"].rstrip("Z")).replace(tzinfo=timezone.utc).timestamp(),
            one["durationMs"]["triggerExecution"] / 1000,
            one["numInputRows"],
            one,
        )
        for one in progress
    ]


def longest(batches: Sequence[Batch], start: float, end: float) -> float:
    """The time of the longest batch that was under way between two moments. ValueError when none was."""
    return max(batch.seconds for batch in under_way(batches, start, end))


def under_way(batches: Sequence[Batch], start: float, end: float) -> list[Batch]:
    """Those that were between two moments."""
    return [batch for batch in batches if batch.start < end and batch.end > start]
