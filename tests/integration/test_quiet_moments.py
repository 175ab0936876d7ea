"""What work in the background waits for: an executor without tasks. Here the driver runs the tasks, in one JVM."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from tests.integration.copied_store import DOORS, scala_object, scala_session


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    with scala_session(jvm, "moments", {}) as session:
        yield session


BEGUN, SLEPT = "mooring.test.begun", "mooring.test.slept"


class Job(Thread):
    """One task that sleeps for so long; it sleeps when this has been made."""

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


def test_one_comes_when_the_tasks_have_ended(jvm: Any, session: Any) -> None:
    job = Job(jvm, session, 700)
    assert not job.has_slept()
    _await_one(jvm)
    assert job.has_slept()
    job.join()


def test_before_much_work_a_longer_batch_is_waited_for(jvm: Any, session: Any) -> None:
    job = Job(jvm, session, 2_500)
    _await_one(jvm)
    assert not job.has_slept()
    _await_one(jvm, "awaitLong")
    assert job.has_slept()
    job.join()


def test_where_tasks_run_all_the_time_it_is_not_waited_for(jvm: Any, session: Any) -> None:
    job = Job(jvm, session, 8_000)
    for _ in range(10):
        _await_one(jvm)
    assert not job.has_slept()
    job.join()


def _await_one(jvm: Any, how: str = "await") -> None:
    getattr(scala_object(jvm, f"{DOORS}.QuietMoments"), how)()  # `await` is a word of Python's
