"""The note in a checkpoint that says which application works on it.

The agent renews `<checkpoint>/_mooring/in-use.json` while the query runs. The note has the application and the time of
writing. When the application has died, its note gets old. Stock Spark writes no such note.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mooring.errors import CheckpointError

DIRECTORY: Final = "_mooring"
IN_USE: Final = "in-use.json"

RENEWED_EVERY_MS: Final = 10_000
OLD_AFTER_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Lease:
    """`application` worked on the checkpoint at `at_ms`, in milliseconds since the epoch."""

    application: str
    at_ms: int

    def as_json(self) -> bytes:
        """The content of the note."""
        return json.dumps({"application": self.application, "at": self.at_ms}).encode()

    def holds(self, now_ms: int) -> bool:
        """Whether the note is new enough to mean that the application still works on the checkpoint."""
        return now_ms - self.at_ms < OLD_AFTER_MS


def lease_on(checkpoint: Path) -> Lease | None:
    """The note in a checkpoint; None where there is none, or where its content makes no sense.

    Notes are written whole, so half a note is never read. CheckpointError when this user may not read it.
    """
    note = checkpoint / DIRECTORY / IN_USE
    try:
        form = json.loads(note.read_text())
        return Lease(str(form["application"]), int(form["at"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    except OSError as fault:
        raise CheckpointError(f"{note} can not be read: {fault.strerror}") from fault
