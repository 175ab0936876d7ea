"""What work in the background waits for: an executor without tasks. Here the driver runs the tasks, in one JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.copied_store import DOORS, scala_object, scala_session
from tests.integration.sleeping import Job


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    with scala_session(jvm, "moments", {}) as session:
        yield session


def test_one_comes_when_the_tasks_have_ended(jvm: Any, session: Any) -> None:
    job = Job(jvm, session, 700)
    assert not job.has_slept()
    _await_one(jvm)
    assert job.has_slept()
    job.join()


def test_where_tasks_run_all_the_time_it_is_not_waited_for(jvm: Any, session: Any) -> None:
    job = Job(jvm, session, 8_000)
    for _ in range(10):
        _await_one(jvm)
    assert not job.has_slept()
    job.join()


def _await_one(jvm: Any) -> None:
    getattr(scala_object(jvm, f"{DOORS}.QuietMoments"), "await")()  # a word of Python's
