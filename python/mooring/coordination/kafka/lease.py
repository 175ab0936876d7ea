"""The records of candidates, and the time for which each record has not changed. Pure.

leader/lease                the leader's term: renewed again and again, and marked when the leader gives it up
leader/candidate/<token>    a waiting candidate: written again and again
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
    """The leader's term, which is over when the lease was not renewed for `silence_ms`."""

    leader: str
    token: str
    epoch: str
    """The same in successive terms of one candidate."""
    silence_ms: int
    renewal: str = field(default_factory=lambda: _random_text())
    """Random in each renewal, so that no two texts are equal."""
    ended: bool = False
    """Whether the leader has given up the term: another candidate may lead at once."""

    def renewed(self) -> Lease:
        """The same term with a new renewal."""
        return replace(self, renewal=_random_text())

    def text(self) -> bytes:
        """The JSON text in the topic."""
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
    """The lease in a text. None when there is none, or when the text is no lease; then any candidate may lead."""
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


def _random_text() -> str:
    return os.urandom(6).hex()


class Silence:
    """The time since which each record has not changed. Only the clock of this candidate is used."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[bytes, float]] = {}

    def look(self, records: Mapping[str, bytes], at: float) -> None:
        """Take in all records, which were read before the time `at`, in seconds."""
        known = self._seen
        self._seen = {
            key: known[key] if key in known and known[key][0] == text else (text, at) for key, text in records.items()
        }

    def of(self, key: str, now: float) -> float:
        """The seconds for which a record has not changed; 0 for one that was not there at the last look."""
        return now - self._seen[key][1] if key in self._seen else 0.0
