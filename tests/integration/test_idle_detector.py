"""Background work waits until its executor is idle. Here the driver runs the tasks, in one JVM."""

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


def test_a_wait_ends_when_the_tasks_have_ended(jvm: Any, session: Any) -> None:
    job = Job(jvm, session, 700)
    assert not job.has_slept()
    _await_idle(jvm)
    assert job.has_slept()
    job.join()


def test_where_tasks_run_all_the_time_waits_end_before_the_tasks(jvm: Any, session: Any) -> None:
    job = Job(jvm, session, 8_000)
    for _ in range(10):
        _await_idle(jvm)
    assert not job.has_slept()
    job.join()


def test_maintenance_uploads_a_snapshot_after_a_task_of_some_seconds_has_ended(
    jvm: Any, session: Any, tmp_path: Path
) -> None:
    with closing(Store(jvm, session, tmp_path)) as store:
        store.commit_until(2)
        store.copy(1)
        store.copy_becomes_owner()  # so the owner is an instance with Mooring
        store.commit(with_snapshot=True)
        job = Job(jvm, session, 2_500)
        store.upload_snapshot()
        assert job.has_slept() and store.snapshots() == [3]
        job.join()


def _await_idle(jvm: Any) -> None:
    getattr(scala_object(jvm, f"{CORE_SHIMS}.IdleDetector"), "await")()  # `await` is a keyword of Python
