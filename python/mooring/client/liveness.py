"""Whether the application that a status is of still runs, as far as its records tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Final

SILENT_AFTER_MS: Final = 30_000
"""The agent writes the status every ten seconds at least."""

GIVEN_UP_AFTER_MS: Final = 120_000
"""An agent that has died is replaced within a minute: after that the application counts as ended."""


class Life(Enum):
    """What the records say."""

    ALIVE = "alive"
    SILENT = "silent"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Liveness:
    """`heard_ms` is when the agent wrote last, None where the status does not say it; both in ms since 1970.

    `ended_ms` is when the agent noted the end. Where its host died too nobody did: then the application is silent.
    """

    heard_ms: int | None
    ended_ms: int | None
    now_ms: int

    @property
    def life(self) -> Life:
        """Alive, silent for longer than an agent that lives is, or ended."""
        if self.ended_ms is not None:
            return Life.ENDED
        return Life.ALIVE if self._silent_ms < SILENT_AFTER_MS else Life.SILENT

    @property
    def is_given_up(self) -> bool:
        """Whether a request is of no use: it has ended, or was silent for so long that it must have."""
        return self.life is Life.ENDED or self._silent_ms >= GIVEN_UP_AFTER_MS

    @property
    def in_words(self) -> str:
        """For a message or a heading: since when it is so."""
        if self.ended_ms is not None:
            return f"ENDED at {shown_time(self.ended_ms)} ({ago(self.now_ms - self.ended_ms)})"
        if self.heard_ms is None:
            return "it is not known when it was last heard of"
        if self.life is Life.ALIVE:
            return f"as of {ago(self._silent_ms)}"
        return f"SILENT: last heard of at {shown_time(self.heard_ms)} ({ago(self._silent_ms)}); it may have ended"

    @property
    def _silent_ms(self) -> int:
        return 0 if self.heard_ms is None else max(0, self.now_ms - self.heard_ms)


def liveness_of(status: Mapping[str, Any], now_ms: int) -> Liveness:
    """By a status as the agent wrote it; `now_ms` by the clock of who asks."""
    return Liveness(_milliseconds(status.get("at")), _milliseconds(status.get("ended")), now_ms)


def shown_time(at_ms: int) -> str:
    """`2026-11-28 20:31:14 UTC`."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    except (OverflowError, OSError, ValueError):  # no such year: the record is damaged
        return f"{at_ms} ms after 1970"
    return f"{at.isoformat(sep=' ', timespec='seconds')[:19]} UTC"


def ago(milliseconds: int) -> str:
    """`3 minutes ago`; what is to come, by a clock that is ahead, is now."""
    seconds = max(0, milliseconds) / 1000
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _milliseconds(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
