"""One driver's part in the election among the drivers of one job, told to the JVM again and again.

The JVM lets a standby wait before its Spark context is ready, and asks for a fresh word before it writes what makes a
batch count; so the word is repeated while all is well, and never waits for a store that does not answer.
"""

from __future__ import annotations

import threading
from typing import Protocol

from mooring.errors import AgentError

TELL_EVERY_SECONDS = 1.0

LEADING, WAITING, UNKNOWN = "leading", "waiting", "unknown"


class Election(Protocol):
    """One candidate of an election; it takes part from the moment it is made until `close`."""

    def standing(self) -> tuple[str, str]:
        """`leading`, `waiting` or `unknown` (no live connection), and the name of the one who leads, if known."""

    def legacy(self) -> str:
        """What a later candidate of the same driver needs to take this one's place at once; a secret."""

    def close(self) -> None:
        """Stand down."""


class Listener(Protocol):
    """What is told; `mooring.spark.bridge.JvmBridge` in production."""

    def lead(self, state: str, leader: str) -> None:
        """Hear the standing."""

    def leave(self, text: str) -> None:
        """Keep the legacy for the next agent."""


class Helm:
    """Tells the standing of one candidate, on a daemon thread, until `close` or until the driver does not answer."""

    def __init__(self, election: Election, listener: Listener, every_seconds: float = TELL_EVERY_SECONDS) -> None:
        self._election = election
        self._listener = listener
        self._every = every_seconds
        self._ended = threading.Event()
        self._left = ""
        self._has_led = self._has_lost = False
        self._thread = threading.Thread(target=self._run, name="mooring-leadership", daemon=True)
        self._thread.start()

    def may_write(self) -> bool:
        """Whether what this driver knows may be kept for all: only while it leads, and never after it has lost."""
        return not self._has_lost and self._election.standing()[0] == LEADING

    def close(self) -> None:
        """Stand down, so that a standby takes over at once."""
        self._ended.set()
        self._thread.join(2 * self._every)
        self._election.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._tell()
            except AgentError:  # the driver is gone; the main thread meets the same and ends the agent
                return
            self._ended.wait(self._every)

    def _tell(self) -> None:
        state, leader = self._election.standing()
        self._has_led |= state == LEADING
        self._has_lost |= state == WAITING and self._has_led
        self._listener.lead(WAITING if self._has_lost else state, leader)
        legacy = self._election.legacy()
        if legacy != self._left:
            self._listener.leave(legacy)
            self._left = legacy
