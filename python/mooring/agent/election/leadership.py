"""One driver's part in the election among the drivers of one job, told to the JVM again and again.

The JVM lets a standby wait before its Spark context is ready, and asks for a fresh word before it writes what makes a
batch count; so the word is repeated while all is well, says until when it holds, and never waits for a store that does
not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from mooring.agent.election.handover import ELECTION
from mooring.errors import AgentError
from mooring.model.standing import LEADING, UNKNOWN, WAITING, Standing

TELL_EVERY_SECONDS = 1.0
_SUCCESSOR = "whose name is not known yet"


class Election(Protocol):
    """One candidate of an election; it takes part from the moment it is made until `close`."""

    @property
    def silence_seconds(self) -> float:
        """After how long a candidate that is silent loses the lead to another."""

    def standing(self) -> Standing:
        """What is known now."""

    def legacy(self) -> str:
        """What a later candidate of the same driver needs to take this one's place at once; a secret."""

    def close(self) -> None:
        """Stand down."""


class Listener(Protocol):
    """The calls of the JVM that a `LeadershipReporter` makes; `mooring.spark.bridge.JvmBridge` in production."""

    def report_standing(self, standing: Standing, said_at: float) -> bool:
        """Report the standing as it was at `said_at` (seconds since 1970). False when this driver has lost for good."""

    def keep_for_next_agent(self, name: str, text: str) -> None:
        """Keep a text for the next agent of this driver, under this name."""

    def warn(self, message: str) -> None:
        """Write a warning into the driver's log."""


class LeadershipReporter:
    """Tells the standing of one candidate until `close`, or until the driver has lost or does not answer.

    Two daemon threads: one tells, the other sees to it that a driver that hears nothing any more (its JVM hangs) does
    not keep the lead while another waits for it.
    """

    def __init__(
        self,
        election: Election,
        listener: Listener,
        every_seconds: float = TELL_EVERY_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._election = election
        self._listener = listener
        self._every, self._now = every_seconds, now
        self._ended, self._resigned = threading.Event(), threading.Event()
        self._left = ""
        self._failure = self._said = ""
        self._telling_since: float | None = None
        self.has_waited = False
        """Whether another driver led, at some time, since this one is there."""
        self._threads = [
            threading.Thread(target=self._run, name="mooring-leadership", daemon=True),
            threading.Thread(target=self._watch, name="mooring-leadership-watch", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def may_write(self) -> bool:
        """Whether what this driver knows may be kept for all: only while it leads, and never after it has lost."""
        return not self._resigned.is_set() and self._standing().state == LEADING

    def close(self) -> None:
        """Stand down, so that a standby takes over at once."""
        self._ended.set()
        for thread in self._threads:
            thread.join(2 * self._every)
        self._resign()

    def _resign(self) -> None:
        if not self._resigned.is_set():
            self._resigned.set()
            self._election.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._tell():
                    self._resign()
                    return
            except AgentError:  # the driver is gone; the main thread meets the same and ends the agent
                return
            self._ended.wait(self._every)

    def _watch(self) -> None:
        """A JVM that hangs would be led by an agent that lives; whoever waits is worth more."""
        while not self._ended.wait(self._every):
            since = self._telling_since
            hangs = since is not None and time.monotonic() - since > self._election.silence_seconds
            if hangs and self._standing().contested:
                self._resign()
                return

    def _tell(self) -> bool:
        said_at = self._now()
        standing = Standing(WAITING, _SUCCESSOR) if self._resigned.is_set() else self._standing()
        self.has_waited |= standing.state == WAITING
        self._telling_since = time.monotonic()
        takes_part = self._listener.report_standing(standing, said_at)
        if self._failure != self._said:
            self._said = self._failure
            self._listener.warn(self._failure)
        self._telling_since = None
        legacy = self._election.legacy()
        if legacy != self._left:
            self._listener.keep_for_next_agent(ELECTION, legacy)
            self._left = legacy
        return takes_part

    def _standing(self) -> Standing:
        try:
            return self._election.standing()
        except Exception as error:  # whatever it is: the JVM must hear that nothing is known, and go on to hear
            self._failure = self._failure or f"nothing is known of the election ({error!r})"
            return Standing(UNKNOWN)
