"""What one agent leaves to the next one of the same driver, so that the driver keeps its place in the election."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Final

ELECTION: Final = "election"
"""The name under which the driver keeps it."""


@dataclass(frozen=True)
class ElectionHandover:
    """A secret: who has it can take this candidate's place. It is kept in the driver's memory."""

    token: str = field(default_factory=lambda: os.urandom(16).hex())
    """Tells this driver from others."""
    epoch: str = ""
    """That of its last term; empty before the first."""
    session: tuple[int, bytes] | None = None
    """Id and password of its session in ZooKeeper."""

    def text(self) -> str:
        """The form in which the JVM keeps it."""
        session = self.session and [self.session[0], self.session[1].hex()]
        return json.dumps({"token": self.token, "epoch": self.epoch, "session": session})


def inherited(text: str) -> ElectionHandover:
    """What an agent before this one left; a new candidate when `text` is empty."""
    if not text:
        return ElectionHandover()
    found = json.loads(text)
    session = found["session"]
    return ElectionHandover(
        found["token"], found["epoch"], (session[0], bytes.fromhex(session[1])) if session else None
    )
