"""A thread that does one thing again and again, whose fault is not lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mooring.errors import ClusterError

_log = logging.getLogger(__name__)


class ControlLoop:
    """Calls `step` every `interval_s` from `start` to `stop`.

    An `OSError` of a step, such as a refused connection, is logged, and the next step comes as usual. Any other error
    ends the loop: `on_fault` is called, and `check` raises.
    """

    def __init__(self, name: str, step: Callable[[], None], on_fault: Callable[[], None], interval_s: float) -> None:
        """Nothing is started."""
        self._name = name
        self._step = step
        self._on_fault = on_fault
        self._interval_s = interval_s
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._fault: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 60.0) -> None:
        """End the thread, after its step. `ClusterError` when the step does not end in time."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise ClusterError(f"{self._name} does not end")

    def check(self) -> None:
        """`ClusterError` when the loop has ended by a fault."""
        if self._fault is not None:
            raise ClusterError(f"{self._name} has failed: {self._fault!r}") from self._fault

    def _run(self) -> None:
        while not self._ends.wait(self._interval_s):
            try:
                self._step()
            except OSError as error:
                _log.warning("%s: %s", self._name, error)
            except BaseException as error:  # whatever it is: `check` raises it in the thread of the test
                _log.exception("%s has failed", self._name)
                self._fault = error
                self._on_fault()
                return
