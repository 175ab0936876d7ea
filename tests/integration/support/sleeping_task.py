"""A task that sleeps in the JVM of the test."""

from __future__ import annotations

from threading import Thread
from typing import Any

from mooring.testing.probes import wait_until

BEGUN, SLEPT = "mooring.test.begun", "mooring.test.slept"


class Job(Thread):
    """A job with one task that sleeps for `milliseconds`. The task is sleeping when the constructor returns."""

    def __init__(self, jvm: Any, session: Any, milliseconds: int) -> None:
        super().__init__(daemon=True)
        self._jvm, self._session, self._milliseconds = jvm, session, milliseconds
        for name in (BEGUN, SLEPT):
            jvm.java.lang.System.clearProperty(name)
        self.start()
        wait_until(lambda: self._has(BEGUN) or not self.is_alive(), "the job's task", interval=0.01)
        assert self._has(BEGUN), "the job runs no task"

    def run(self) -> None:
        begins, has_slept = (
            f"java_method('java.lang.System', 'setProperty', '{name}', 'yes')" for name in (BEGUN, SLEPT)
        )
        sleeps = f"java_method('java.lang.Thread', 'sleep', bigint({self._milliseconds}))"
        self._session.sql(f"SELECT {begins}, {sleeps}, {has_slept} FROM range(0, 1, 1, 1)").collect()

    def has_slept(self) -> bool:
        return self._has(SLEPT)

    def _has(self, name: str) -> bool:
        return self._jvm.java.lang.System.getProperty(name) is not None
