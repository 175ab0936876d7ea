"""Whether an application still runs, judged by its newest status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Final

SILENT_AFTER_MS: Final = 30_000
"""A status older than this is late: the agent writes one every ten seconds at least."""

GIVEN_UP_AFTER_MS: Final = 120_000
"""After this time without a status the application counts as ended: a dead agent is replaced within a minute."""


class Life(Enum):
    """What the status shows of the application."""

    ALIVE = "alive"
    SILENT = "silent"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Liveness:
    """The times by which an application is judged, in milliseconds since the epoch.

    `written_ms` is when the agent wrote the status, None where the status does not have it. `ended_ms` is when the
    agent noted the end, None where it did not. An agent that died with its host notes no end: the application is then
    silent.
    """

    written_ms: int | None
    ended_ms: int | None
    now_ms: int

    @property
    def life(self) -> Life:
        """Ended, alive, or silent: no status came for `SILENT_AFTER_MS`."""
        if self.ended_ms is not None:
            return Life.ENDED
        return Life.ALIVE if self._silent_ms < SILENT_AFTER_MS else Life.SILENT

    @property
    def is_given_up(self) -> bool:
        """Whether a request is of no use: the application has ended, or no status came for `GIVEN_UP_AFTER_MS`."""
        return self.life is Life.ENDED or self._silent_ms >= GIVEN_UP_AFTER_MS

    @property
    def in_words(self) -> str:
        """The life and since when, for a message or a heading."""
        if self.ended_ms is not None:
            return f"ENDED at {shown_time(self.ended_ms)} ({ago(self.now_ms - self.ended_ms)})"
        if self.written_ms is None:
            return "it is not known when it was last heard of"
        if self.life is Life.ALIVE:
            return f"as of {ago(self._silent_ms)}"
        return f"SILENT: last heard of at {shown_time(self.written_ms)} ({ago(self._silent_ms)}); it may have ended"

    @property
    def _silent_ms(self) -> int:
        return 0 if self.written_ms is None else max(0, self.now_ms - self.written_ms)


def liveness_of(status: Mapping[str, Any], now_ms: int) -> Liveness:
    """The liveness by a status of the agent; `now_ms` is the time of the caller's clock."""
    return Liveness(_milliseconds(status.get("at")), _milliseconds(status.get("ended")), now_ms)


class LivenessWatch:
    """Judges an application by statuses that are read one after the other. The clock of this machine may be ahead.

    A status that replaces another one was written between the two reads, whatever its time says. So the difference of
    the clocks is known from then on. `now_ms` is the clock of this machine.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._written_ms: int | None = None
        self._ahead_ms = 0

    def liveness_of(self, status: Mapping[str, Any]) -> Liveness:
        """The liveness by a status that has just been read."""
        now_ms, written_ms = self._now_ms(), _milliseconds(status.get("at"))
        if written_ms is not None:
            if self._written_ms is not None and written_ms > self._written_ms:
                self._ahead_ms = max(0, now_ms - written_ms)
            self._written_ms = written_ms
        return liveness_of(status, now_ms - self._ahead_ms)


def shown_time(at_ms: int) -> str:
    """A time as text, such as `2026-11-28 20:31:14 UTC`."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    except (OverflowError, OSError, ValueError):  # no such year: the record is damaged
        return f"{at_ms} ms after 1970"
    return f"{at.isoformat(sep=' ', timespec='seconds')[:19]} UTC"


def ago(milliseconds: int) -> str:
    """An age as text, such as `3 minutes ago`. A negative age, of a clock that is ahead, counts as 0."""
    seconds = max(0, milliseconds) / 1000
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _milliseconds(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
