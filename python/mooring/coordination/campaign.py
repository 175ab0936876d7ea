"""What every election needs of a candidate: a thread that looks again and again, and a term that ends by the clock."""

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
"""Of the silence after which another may lead: how long a term lasts from when its renewal was sent, and how often
that is."""

_RETRY_SECONDS = 0.5
_RESIGN_SECONDS = 10.0


class _End:
    """The last of a candidate's news."""


def clock() -> float:
    """Seconds, also those in which this process or its host slept."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Campaign(LeaderLock, Generic[Term]):
    """One candidate. What it looks at, and how a term is begun and renewed, is `_step`, on this candidate's thread."""

    def __init__(self, name: str, report: Report, now: Callable[[], float]) -> None:
        """`name` is for people."""
        self._name, self._report, self._now = name, report, now
        self._changed = threading.Condition()
        self._term: Term | None = None
        self._term_ends = 0.0
        self._contested = False
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._listeners: list[LeaderListener] = []
        self._news: queue.SimpleQueue[Leadership | _End | None] = queue.SimpleQueue()

    def campaign(self) -> None:
        """Take part; the election runs on a thread of this candidate."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mooring-leader-lock", daemon=True)
            self._thread.start()
            threading.Thread(target=self._tell, name="mooring-leader-news", daemon=True).start()

    @property
    def leadership(self) -> Term | None:
        """The term, unless it may be over by the clock."""
        with self._changed:
            return self._term if self._now() < self._term_ends else None

    @property
    def seconds_left(self) -> float:
        """For how long this candidate leads at least; 0 when it does not."""
        with self._changed:
            return max(0.0, self._term_ends - self._now())

    @property
    def is_contested(self) -> bool:
        """Whether there were other candidates when this one looked last."""
        return self._contested

    def wait(self, timeout: float) -> Leadership | None:
        """The term, as soon as it begins."""
        with self._changed:
            self._changed.wait_for(lambda: self._now() < self._term_ends, timeout)
        return self.leadership

    def on_change(self, listener: LeaderListener) -> Cancel:
        """Tell of each beginning and end from now on."""
        self._listeners.append(listener)

        def cancel() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return cancel

    def resign(self) -> None:
        """End the term at once, then withdraw; where that can not be said in time, this candidate's silence says it."""
        self._stopped.set()
        self._end_term()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_RESIGN_SECONDS)

    @abstractmethod
    def _step(self) -> float:
        """One look at the election; returns after how many seconds to look again if nothing happens.

        Whatever it raises ends the term; it is called again after a moment.
        """

    @abstractmethod
    def _withdraw(self) -> None:
        """Take the candidate away."""

    @property
    def _is_connected(self) -> bool:
        """False where it is known that the election can not be reached: no term begins then."""
        return True

    def _run(self) -> None:
        said = False
        while not self._stopped.is_set():
            self._woken.clear()
            try:
                seconds, said = self._step(), False
            except Exception as error:  # a candidate whose thread has died could never lead again
                self._end_term()
                if not said and not self._stopped.is_set():
                    self._report(f"{self._name} takes no part in the election for now: {error}")
                seconds, said = _RETRY_SECONDS, True
            self._woken.wait(seconds)
        try:
            if not said:  # else nobody answers: the silence will say it
                self._withdraw()
        except Exception as error:  # there is nobody to raise it to
            self._report(f"{self._name} could not say that it resigns; its silence will: {error}")
        self._news.put(_End())

    def _set_term(self, term: Term, ends: float) -> None:
        """The term began, or was renewed, and lasts until `ends`."""
        with self._changed:
            if self._stopped.is_set() or not self._is_connected:
                return
            if self._term is None:
                self._news.put(term)
            elif self._now() >= self._term_ends:
                self._woken.set()
                return  # renewed too late: whoever asked meanwhile was told that it is over, so it is
            self._term, self._term_ends = term, ends
            self._changed.notify_all()

    def _end_if_over(self) -> None:
        """End a term that ran out while we slept."""
        if self._term is not None and self.leadership is None:
            self._end_term()

    def _end_term(self) -> None:
        with self._changed:
            if self._term is not None:
                self._news.put(None)
            self._term, self._term_ends = None, 0.0

    def _tell(self) -> None:
        while not isinstance(news := self._news.get(), _End):
            for listener in list(self._listeners):
                try:
                    listener(news)
                except Exception as error:  # a listener's mistake is no reason to lead or not to lead
                    self._report(f"a listener of the leader lock failed: {error!r}")
