"""Looks again and again whether a drain is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import Enum

from mooring.drain.notification import DrainNotification
from mooring.drain.store import read_drain_notifications, remove_malformed
from mooring.errors import MooringError
from mooring.metadata import MetadataStore
from mooring.metadata.store import Report, report_to_log

Callback = Callable[[Sequence[DrainNotification]], None]


class MonitorState(Enum):
    """What a monitor does."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"


class DrainMonitor:
    """Calls back once for each notification for one deployment, also for one that was written before the start.

    It looks when it is started, and then every `poll_interval` seconds, on a daemon thread that ends with `stop`. What
    can not be read is removed and reported; while the store is out of reach it looks on, and says so once until it is
    back. The store stays its owner's.
    """

    def __init__(
        self, store: MetadataStore, run_id: str, poll_interval: float = 5.0, report: Report = report_to_log
    ) -> None:
        self._store, self._run_id, self._poll_interval, self._report = store, run_id, poll_interval, report
        self._callback: Callback | None = None
        self._looked: Callable[[], None] = _nothing
        self._state = MonitorState.INIT
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: set[DrainNotification] = set()
        self._is_cut_off = False

    @property
    def state(self) -> MonitorState:
        """INIT until `start`, RUNNING until `stop`."""
        return self._state

    def init(self, callback: Callback, looked: Callable[[], None] | None = None) -> None:
        """Who is to be called, on the monitor's thread; MooringError when it was told before.

        `looked` is called after each look that has reached the store, when the callback has heard what it found.
        """
        with self._lock:
            if self._callback is not None:
                raise MooringError("this monitor has a callback already: make another monitor")
            self._callback = callback
            self._looked = looked or _nothing

    def start(self) -> None:
        """Begin to look. MooringError without a callback; nothing happens unless the state is INIT."""
        with self._lock:
            if self._callback is None:
                raise MooringError("this monitor has nobody to call: call init first")
            if self._state is MonitorState.INIT:
                self._state = MonitorState.RUNNING
                self._thread = threading.Thread(target=self._run, name="mooring-drain-monitor", daemon=True)
                self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Look no more; returns when no call is under way, or after `timeout` seconds. The callback may call it."""
        with self._lock:
            self._state = MonitorState.STOPPED
            self._end.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        while not self._end.is_set():
            self._look()
            self._end.wait(self._poll_interval)

    def _look(self) -> None:
        try:
            found = read_drain_notifications(self._store)
            remove_malformed(self._store, found)
            for key, reason in found.malformed.items():
                self._report(f"the drain notification {key} can not be read and was removed: {reason}")
            asked = [one for one in found.of(self._run_id) if one not in self._told]
            self._is_cut_off = False
        except MooringError as fault:  # out of reach, or this driver does not lead
            if not self._is_cut_off:
                self._report(f"whether a drain is asked for can not be read now ({fault}): tried again")
            self._is_cut_off = True
            return
        if self._callback is not None and not self._end.is_set():
            try:
                if asked:
                    self._callback(asked)
                    self._told.update(asked)
                self._looked()
            except Exception as fault:  # the callback's own: this thread must live to call it again
                self._report(f"a drain was asked for, and who was told of it failed ({fault}): told again")


def _nothing() -> None:
    """For who is not asked."""
