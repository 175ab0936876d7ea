"""A monitor that reads drain notifications again and again."""

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
    """The state of a monitor."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"


class DrainMonitor:
    """Calls a function once for each notification for one deployment, also for one that was written before the start.

    It reads the store at its start and then every `poll_interval` seconds, on a daemon thread that ends with `stop`.
    Notifications that can not be read are removed and reported. While the store is out of reach it tries again, and
    reports that once. The caller closes the store.
    """

    def __init__(
        self, store: MetadataStore, run_id: str, poll_interval: float = 5.0, report: Report = report_to_log
    ) -> None:
        self._store, self._run_id, self._poll_interval, self._report = store, run_id, poll_interval, report
        self._callback: Callback | None = None
        self._after_look: Callable[[], None] = _do_nothing
        self._state = MonitorState.INIT
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._delivered: set[DrainNotification] = set()
        self._is_cut_off = False

    @property
    def state(self) -> MonitorState:
        """INIT until `start`, RUNNING until `stop`."""
        return self._state

    def init(self, callback: Callback, looked: Callable[[], None] | None = None) -> None:
        """Set the function that is called on the monitor's thread; MooringError on a second call.

        `looked` is called after each look that has reached the store, after the callback.
        """
        with self._lock:
            if self._callback is not None:
                raise MooringError("this monitor has a callback already: make another monitor")
            self._callback = callback
            self._after_look = looked or _do_nothing

    def start(self) -> None:
        """Start the thread. MooringError before `init`; nothing happens unless the state is INIT."""
        with self._lock:
            if self._callback is None:
                raise MooringError("this monitor has no callback: call init first")
            if self._state is MonitorState.INIT:
                self._state = MonitorState.RUNNING
                self._thread = threading.Thread(target=self._run, name="mooring-drain-monitor", daemon=True)
                self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Stop the thread. Returns when no callback runs, or after `timeout` seconds. The callback may call this."""
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
            new = [notification for notification in found.of(self._run_id) if notification not in self._delivered]
            self._is_cut_off = False
        except MooringError as fault:  # the store is out of reach, or this driver does not lead
            if not self._is_cut_off:
                self._report(f"whether a drain is asked for can not be read now ({fault}): tried again")
            self._is_cut_off = True
            return
        if self._callback is not None and not self._end.is_set():
            try:
                if new:
                    self._callback(new)
                    self._delivered.update(new)
                self._after_look()
            except Exception as fault:  # an error of the callback must not end this thread, which calls it again
                self._report(f"a drain was asked for, and its callback failed ({fault}): it is called again")


def _do_nothing() -> None:
    """The default of `looked` in `init`."""
