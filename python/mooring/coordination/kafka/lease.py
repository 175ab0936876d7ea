"""What candidates write of themselves, and how long each of them has been silent. Pure.

leader/lease                the term of who leads: renewed again and again, and marked when it is given up
leader/candidate/<token>    one that waits, written again and again
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

PREFIX = "leader/"
LEASE = f"{PREFIX}lease"
CANDIDATE = f"{PREFIX}candidate/"

_SILENCE_MS = (100, 600_000)


@dataclass(frozen=True)
class Lease:
    """Who leads, until nothing was heard of it for `silence_ms`. No two that are made are equal."""

    leader: str
    token: str
    epoch: str
    """The same as long as terms of one candidate follow each other."""
    silence_ms: int
    renewal: str = field(default_factory=lambda: _drawn())
    """Drawn anew each time, so that no two texts are alike."""
    ended: bool = False
    """Given up: another may lead at once."""

    def renewed(self) -> Lease:
        """The same term, a little later."""
        return replace(self, renewal=_drawn())

    def text(self) -> bytes:
        """As it stands in the topic."""
        return json.dumps(
            {
                "leader": self.leader,
                "token": self.token,
                "epoch": self.epoch,
                "silence-ms": self.silence_ms,
                "renewal": self.renewal,
                "ended": self.ended,
            }
        ).encode()


def read_lease(text: bytes | None) -> Lease | None:
    """None when there is none, or one that nobody of us wrote: it keeps nobody from leading."""
    try:
        found = json.loads(text or b"")
        low, high = _SILENCE_MS
        return Lease(
            str(found["leader"]),
            str(found["token"]),
            str(found["epoch"]),
            min(max(int(found["silence-ms"]), low), high),
            str(found["renewal"]),
            bool(found["ended"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _drawn() -> str:
    return os.urandom(6).hex()


class Silence:
    """Since when each record is as it is now, by the clock of who looks: what others' clocks say does not count."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[bytes, float]] = {}

    def look(self, records: Mapping[str, bytes], at: float) -> None:
        """All records, as they were read before the time `at`, in seconds."""
        known = self._seen
        self._seen = {
            key: known[key] if key in known and known[key][0] == text else (text, at) for key, text in records.items()
        }

    def of(self, key: str, now: float) -> float:
        """For how many seconds a record has been seen unchanged; 0 for one that was not there at the last look."""
        return now - self._seen[key][1] if key in self._seen else 0.0
