"""A key's first event sets a timer, which sets another one an hour later, and that one a third."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

HOUR_MS = 3_600_000
LAST = 3


class Chain(StatefulProcessor):
    """For each timer of a key: its number."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.fired = handle.getValueState("fired", "number LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        if not self.fired.exists():
            self.fired.update((0,))
            now = timerValues.getCurrentProcessingTimeInMs()
            at = max(now, timerValues.getCurrentWatermarkInMs()) + HOUR_MS
            self.handle.registerTimer(at)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        number = self.fired.get()[0] + 1
        if number == LAST:
            self.fired.clear()
        else:
            self.fired.update((number,))
            self.handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() + HOUR_MS)
        yield Row(key=key[0], timer=number)

    def close(self) -> None:
        """Nothing is open."""
