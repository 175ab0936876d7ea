"""A copy whose task is about to come is advanced to the last commits elsewhere: in one JVM, on a real checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from tests.integration.support.host_store import SharedHostStore
from tests.integration.support.plugin_objects import private_field
from tests.integration.support.sleeping_task import Job
from tests.integration.support.store_with_open_copy import STATE_SHIMS, Store, scala_object, scala_session
from tests.integration.test_open_copies import CONF

QUERY, PARTITION = "of a test", 0


class Executor:
    """An executor that holds a copy of the store, and gets orders as from tasks of the replica query."""

    def __init__(
        self,
        jvm: Any,
        session: Any,
        store: Store,
        kept: SharedHostStore,
        unhurried_ms: int = 0,
        most_open: int = 4,
    ) -> None:
        self._jvm, self._store, self._kept = jvm, store, kept
        self._access = scala_object(jvm, f"{STATE_SHIMS}.CheckpointAccess").of(session)
        self._copies = jvm.io.mooring.standby.Copies(kept.store, 2**62, most_open, unhurried_ms)
        self._open = scala_object(jvm, f"{STATE_SHIMS}.OpenStores")

    def order(self, version: int, is_about_to_be_used: bool = False) -> int:
        """Order that version. The version that the copy has now; -1 for none."""
        option = self._jvm.scala.Option.apply
        path, unique_id = self._store.path.toString(), self._store.ids[version]
        stores = self._seq(self._jvm.io.mooring.restore.StoreVersion(path, version, option(unique_id), option(None)))
        order = self._jvm.io.mooring.standby.CopyOrder(PARTITION, version, stores, is_about_to_be_used)
        copies = self._copies.order(QUERY, self._seq(order), self._access)
        return int(copies.head().version()) if copies.nonEmpty() else -1

    def waits_until_at(self, version: int) -> None:
        wait_until(lambda: self.order(version) == version, f"a copy of version {version}")

    def has_open_copy(self) -> bool:
        return bool(self._open.has(self._store.path.toString()))

    def waits_until_open(self) -> None:
        wait_until(self.has_open_copy, "an open copy", interval=0.01)

    def task_came(self, version: int) -> None:
        self._copies.taskCame(self._store.path.toString(), version)

    def waits_until_fetched(self, version: int) -> None:
        kept = f"{self._store.changelog(version).name}~*"
        wait_until(lambda: any(self._kept.root.rglob(kept)), f"{kept} to be here", interval=0.01)

    def has_missed_files(self) -> bool:
        copy = private_field(self._copies, "held").elements().nextElement()
        return bool(private_field(copy, "hasMissedFiles"))

    def forgets(self, version: int) -> None:
        for kept in self._kept.root.rglob(f"{self._store.changelog(version).name}~*"):
            kept.unlink()

    def _seq(self, one: Any) -> Any:
        found = self._jvm.java.util.ArrayList()
        found.add(one)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()

    def stop(self) -> None:
        self._copies.stop()


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    conf = {
        **CONF,
        "spark.sql.streaming.minBatchesToRetain": "100",
    }  # so that no copy is opened anew because of its age
    with scala_session(jvm, "copies about to be used", conf) as session:
        yield session


@pytest.fixture
def store(jvm: Any, session: Any, tmp_path: Path) -> Iterator[Store]:
    store = Store(jvm, session, tmp_path)
    for _ in range(7):
        store.commit()
    yield store
    store.close()


@contextmanager
def executor_of(jvm: Any, session: Any, store: Store, tmp_path: Path) -> Iterator[Executor]:
    """An executor with an open copy at version 3."""
    executor = Executor(jvm, session, store, SharedHostStore(jvm, tmp_path))
    try:
        executor.waits_until_at(3)
        executor.waits_until_open()
        yield executor
    finally:
        executor.stop()


@pytest.fixture
def executor(jvm: Any, session: Any, store: Store, tmp_path: Path) -> Iterator[Executor]:
    with executor_of(jvm, session, store, tmp_path) as executor:
        yield executor


def test_a_copy_that_is_not_held_any_more_is_advanced_until_its_task_comes(store: Store, executor: Executor) -> None:
    executor.order(4, is_about_to_be_used=True)
    executor.waits_until_fetched(4)
    executor.order(5, is_about_to_be_used=True)  # is carried out after the first order
    executor.waits_until_fetched(5)
    executor.order(6, is_about_to_be_used=True)
    executor.waits_until_fetched(6)
    for version in (1, 2, 3, 4, 5):
        store.changelog(version).unlink()
        executor.forgets(version)
    assert store.taken_over(7) == store.values[7]


def test_a_file_that_the_checkpoint_lacks_for_good_is_reported(jvm: Any, store: Store, executor: Executor) -> None:
    """For one order the version may just have been removed by maintenance."""
    topics = private_field(scala_object(jvm, "io.mooring.common.Log"), "loggedTopics")
    topic = f"copy-{QUERY}-java.io.FileNotFoundException"
    lost = store.changelog(5)
    kept = lost.rename(lost.with_suffix(".kept"))
    executor.order(5)
    wait_until(executor.has_missed_files, "the first order to be carried out")
    assert not topics.contains(topic), "the next order may be for a newer version"
    executor.order(5)
    wait_until(lambda: topics.contains(topic), "a line about the lost file")
    kept.rename(lost)
    executor.waits_until_at(5)
    assert not executor.has_missed_files()


@pytest.fixture
def executor_with_plain_files(jvm: Any, session: Any, store: Store, tmp_path: Path) -> Iterator[Executor]:
    """An executor with a copy at version 3 that is never open."""
    executor = Executor(jvm, session, store, SharedHostStore(jvm, tmp_path), most_open=0)
    executor.waits_until_at(3)
    yield executor
    executor.stop()


def test_plain_files_that_are_not_held_any_more_are_completed_until_their_task_comes(
    executor_with_plain_files: Executor,
) -> None:
    executor = executor_with_plain_files
    for version in (4, 5):
        executor.order(version, is_about_to_be_used=True)
        executor.waits_until_fetched(version)
        assert not executor.has_open_copy()


def test_a_copy_that_has_missed_the_version_of_a_snapshot_is_advanced(jvm: Any, session: Any, tmp_path: Path) -> None:
    with closing(Store(jvm, session, tmp_path)) as store:
        for _ in range(4):
            store.commit()
        with executor_of(jvm, session, store, tmp_path) as executor:
            store.upload_snapshot()
            store.commit()
            assert store.versions_named_by(5) == [4], "the snapshot's version is the first one"
            executor.waits_until_at(5)
            store.changelog(4).unlink()
            assert store.taken_over(5) == store.values[5]
            assert store.began_with == 0, "it was not opened anew from the snapshot"


@pytest.fixture
def unhurried(
    jvm: Any, session: Any, store: Store, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Executor]:
    executor = Executor(jvm, session, store, SharedHostStore(jvm, tmp_path), getattr(request, "param", 10_000))
    yield executor
    executor.stop()


def test_a_copy_is_opened_when_no_task_runs(jvm: Any, session: Any, unhurried: Executor) -> None:
    job = Job(jvm, session, 5_000)
    unhurried.order(3)
    unhurried.waits_until_open()
    assert job.has_slept()
    job.join()


@pytest.mark.parametrize("unhurried", [60_000], indirect=True)
def test_a_copy_is_opened_after_a_commit(jvm: Any, session: Any, unhurried: Executor) -> None:
    def goes_on(condition: Callable[[], bool], what: str) -> None:
        """Wait while one stage follows the other, as in long batches, with short moments without tasks between."""
        wait_until(lambda: Job(jvm, session, 300).join() or condition(), what, 15, interval=0.2)

    job = Job(jvm, session, 5_000)
    unhurried.order(3)
    unhurried.waits_until_fetched(2)  # the last of its files
    job.join()
    stages = count(1)
    goes_on(lambda: next(stages) == 4, "four stages")
    assert not unhurried.has_open_copy()
    versions = chain([4, 5, 6], repeat(7))
    goes_on(lambda: unhurried.order(next(versions)) >= 3, "an open copy")
    assert unhurried.has_open_copy()


def test_a_copy_whose_task_came_while_it_waited_is_not_opened(jvm: Any, session: Any, unhurried: Executor) -> None:
    job = Job(jvm, session, 5_000)
    unhurried.order(3)
    unhurried.waits_until_fetched(3)
    unhurried.task_came(3)
    job.join()
    unhurried.waits_until_at(3)
    assert not unhurried.has_open_copy()
