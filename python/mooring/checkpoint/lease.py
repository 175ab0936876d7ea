"""Whether an application works on a checkpoint: a note in it, which the agent renews while the query runs.

`<checkpoint>/_mooring/in-use.json`: the application, and when it was written. The note of one that has died gets old.
Stock Spark leaves no such note.
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
    """`application` has worked on the checkpoint at `at_ms`, milliseconds since the epoch."""

    application: str
    at_ms: int

    def as_json(self) -> bytes:
        """What the note holds."""
        return json.dumps({"application": self.application, "at": self.at_ms}).encode()

    def holds(self, now_ms: int) -> bool:
        """Whether it works on it still, as far as its note tells."""
        return now_ms - self.at_ms < OLD_AFTER_MS


def lease_on(checkpoint: Path) -> Lease | None:
    """The last note; None where there is none, or one that makes no sense: notes are written whole.

    CheckpointError when this user may not read it.
    """
    note = checkpoint / DIRECTORY / IN_USE
    try:
        form = json.loads(note.read_text())
        return Lease(str(form["application"]), int(form["at"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    except OSError as fault:
        raise CheckpointError(f"{note} can not be read: {fault.strerror}") from fault
