"""What work in the background waits for: an executor without tasks. Here the driver runs the tasks, in one JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.sleeping_task import Job
from tests.integration.support.store_with_open_copy import CORE_SHIMS, Store, scala_object, scala_session


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    changelogs = {
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    }
    with scala_session(jvm, "moments", changelogs) as session:
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


def test_a_snapshot_is_uploaded_when_a_task_of_some_seconds_has_ended(jvm: Any, session: Any, tmp_path: Path) -> None:
    with closing(Store(jvm, session, tmp_path)) as store:
        store.commit_until(2)
        store.copy(1)
        store.owner_is_the_copy()  # Mooring's own instance
        store.commit(with_snapshot=True)
        job = Job(jvm, session, 2_500)
        store.upload_snapshot()
        assert job.has_slept() and store.snapshots() == [3]
        job.join()


def _await_one(jvm: Any) -> None:
    getattr(scala_object(jvm, f"{CORE_SHIMS}.IdleDetector"), "await")()  # a word of Python's
