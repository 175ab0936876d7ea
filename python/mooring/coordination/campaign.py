"""The base of a candidate in an election: a thread that looks at the election again and again, and a timed term."""

from __future__ import annotations

import queue
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from mooring.coordination.leadership import LeaderListener, LeaderLock, Leadership
from mooring.metadata.store import Cancel, Report

Term = TypeVar("Term", bound=Leadership)

TERM, RENEWAL = 2 / 3, 1 / 4
"""Shares of the silence after which another candidate may lead: the length of a term, counted from when its renewal was
sent, and the time between two renewals."""

_RETRY_SECONDS = 0.5
_RESIGN_SECONDS = 10.0


class _End:
    """The last entry for the thread that calls the listeners."""


def clock() -> float:
    """A clock in seconds that also counts the time in which this process or its host slept."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Campaign(LeaderLock, Generic[Term]):
    """One candidate. A subclass looks at the election and begins or renews a term in `_step`, on its own thread."""

    def __init__(self, name: str, report: Report, now: Callable[[], float]) -> None:
        """`name` is for messages, `now` is a clock such as `clock`."""
        self._name, self._report, self._now = name, report, now
        self._changed = threading.Condition()
        self._term: Term | None = None
        self._term_ends = 0.0
        self._contested = False
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._listeners: list[LeaderListener] = []
        self._changes: queue.SimpleQueue[Leadership | _End | None] = queue.SimpleQueue()

    def campaign(self) -> None:
        """Take part; the election runs on a thread of this candidate."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mooring-leader-lock", daemon=True)
            self._thread.start()
            threading.Thread(target=self._call_listeners, name="mooring-leader-listeners", daemon=True).start()

    @property
    def leadership(self) -> Term | None:
        """The term; None when there is none, or when it may be over by the clock."""
        with self._changed:
            return self._term if self._now() < self._term_ends else None

    @property
    def seconds_left(self) -> float:
        """How long this candidate leads at least; 0 when it does not lead."""
        with self._changed:
            return max(0.0, self._term_ends - self._now())

    @property
    def is_contested(self) -> bool:
        """Whether there were other candidates at the last look."""
        return self._contested

    def wait(self, timeout: float) -> Leadership | None:
        """Wait for a term to begin; None when none has begun after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._now() < self._term_ends, timeout)
        return self.leadership

    def on_change(self, listener: LeaderListener) -> Cancel:
        """Call `listener` at each beginning and end of a term from now on."""
        self._listeners.append(listener)

        def cancel() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return cancel

    def resign(self) -> None:
        """End the term at once, then withdraw. If that fails, other candidates wait until this one's time is over."""
        self._stopped.set()
        self._end_term()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_RESIGN_SECONDS)

    @abstractmethod
    def _step(self) -> float:
        """Look at the election once; returns the seconds until the next look if nothing happens before.

        Any error ends the term, and the next look is half a second later.
        """

    @abstractmethod
    def _withdraw(self) -> None:
        """Remove the candidate from the election."""

    @property
    def _is_connected(self) -> bool:
        """False where the election is known to be out of reach; then no term begins."""
        return True

    def _run(self) -> None:
        is_cut_off = False
        while not self._stopped.is_set():
            self._woken.clear()
            try:
                seconds, is_cut_off = self._step(), False
            except Exception as error:  # a candidate whose thread has died could never lead again
                self._end_term()
                if not is_cut_off and not self._stopped.is_set():
                    self._report(f"{self._name} takes no part in the election for now: {error}")
                seconds, is_cut_off = _RETRY_SECONDS, True
            self._woken.wait(seconds)
        try:
            if not is_cut_off:  # otherwise the election can not be reached
                self._withdraw()
        except Exception as error:  # no caller could catch it on this thread
            self._report(f"{self._name} could not say that it resigns; its silence will: {error}")
        self._changes.put(_End())

    def _set_term(self, term: Term, ends: float) -> None:
        """Begin or renew the term, which lasts until `ends` on this candidate's clock."""
        with self._changed:
            if self._stopped.is_set() or not self._is_connected:
                return
            if self._term is None:
                self._changes.put(term)
            elif self._now() >= self._term_ends:
                self._woken.set()
                return  # renewed too late: `leadership` may have returned None meanwhile, so the term is over
            self._term, self._term_ends = term, ends
            self._changed.notify_all()

    def _end_if_over(self) -> None:
        """End a term that ran out while this process slept."""
        if self._term is not None and self.leadership is None:
            self._end_term()

    def _end_term(self) -> None:
        with self._changed:
            if self._term is not None:
                self._changes.put(None)
            self._term, self._term_ends = None, 0.0

    def _call_listeners(self) -> None:
        while not isinstance(change := self._changes.get(), _End):
            for listener in list(self._listeners):
                try:
                    listener(change)
                except Exception as error:  # an error of a listener must not change who leads
                    self._report(f"a listener of the leader lock failed: {error!r}")
