"""Two attempts of one task on one executor, in Spark 4.0: there the thread that has loaded a store is its owner.

An aggregation loads its store twice in each task, and rolls it back twice when the task fails. The next attempt of the
task may wait to become the owner, or be the owner, by then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from tests.integration.support import rocksdb_of_line as rocksdb
from tests.integration.support.store_with_open_copy import STATE, STATE_SHIMS, scala_object, session_with_undo

pytestmark = [
    pytest.mark.one_jvm,
    pytest.mark.heavy,
    pytest.mark.skipif(rocksdb.LINE != "4.0", reason="only in Spark 4.0 a store has an owner"),
]

OWNER_IS_AWAITED_S = 8
CONF = {
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.rocksdb.lockAcquireTimeoutMs": str(OWNER_IS_AWAITED_S * 1000),
}


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    with session_with_undo(jvm, "attempts", CONF) as session:
        yield session


@pytest.fixture
def stores(jvm: Any, session: Any, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Opens the store with Mooring, by a name for the instance's directory."""
    access = scala_object(jvm, f"{STATE_SHIMS}.CheckpointAccess").of(session)
    conf = scala_object(jvm, f"{STATE}.RocksDBConf").apply(access.stores())
    shims = jvm.org.apache.spark.sql.execution.streaming.state.shims
    path = jvm.org.apache.hadoop.fs.Path((tmp_path / "state" / "0" / "0").as_uri())
    opened = []

    def new_store(name: str) -> Any:
        working = jvm.java.io.File(str(tmp_path / name))
        watcher = jvm.io.mooring.standby.StoreWatcher(path, True, False)
        place = (path.toString(), conf, working, access.hadoopConf(), name, False, True, 0)
        opened.append(shims.RocksDBShim(watcher, rocksdb.arguments(jvm, *place)))
        return opened[-1]

    yield new_store
    for store in opened:
        store.close()


class Attempt:
    """An attempt of a task: a thread of its own in the JVM. What it raises is raised by `ended`."""

    def __init__(self, jvm: Any, work: Callable[[], None]) -> None:
        self._jvm, self._work = jvm, work
        self._jvm_thread: Any = None
        self._raised: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._jvm_thread = self._jvm.java.lang.Thread.currentThread()
        try:
            self._work()
        except Exception as error:  # raised in the thread of the test
            self._raised = error

    def waits_for_the_owner(self) -> bool:
        frames = self._jvm_thread.getStackTrace() if self._jvm_thread else []
        return any(frame.getMethodName() == "acquire" for frame in frames)

    def ended(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self._raised is not None:
            raise self._raised


@contextmanager
def task_of_this_thread(jvm: Any) -> Iterator[Any]:
    contexts = scala_object(jvm, "org.apache.spark.TaskContext")
    task = contexts.empty()
    contexts.setTaskContext(task)
    try:
        yield task
    finally:
        contexts.unset()


def test_an_attempt_loads_its_store_again_while_the_next_attempt_waits(jvm: Any, stores: Callable[[str], Any]) -> None:
    store = stores("both")

    def next_attempt() -> None:
        rocksdb.load(jvm, store, 0, None)
        rocksdb.put(store, b"key", b"next")
        rocksdb.commit(store)

    rocksdb.load(jvm, store, 0, None, read_only=True)
    other = Attempt(jvm, next_attempt)
    wait_until(other.waits_for_the_owner, "the next attempt to wait for the owner", 10)
    began = time.monotonic()
    rocksdb.load(jvm, store, 0, None)
    assert time.monotonic() - began < OWNER_IS_AWAITED_S / 2
    rocksdb.put(store, b"key", b"first")
    rocksdb.commit(store)
    other.ended()
    assert rocksdb.pairs(store) == {b"key": b"next"}


def test_the_second_roll_back_of_an_attempt_leaves_the_writes_of_the_next_one(
    jvm: Any, stores: Callable[[str], Any]
) -> None:
    store = stores("both")
    rocksdb.load(jvm, store, 0, None)
    rocksdb.put(store, b"a", b"1")
    first = rocksdb.commit(store)._2().stateStoreCkptId().get()
    is_rolled_back, rolls_back_again = threading.Event(), threading.Event()

    def killed_attempt() -> None:
        with task_of_this_thread(jvm) as task:
            rocksdb.load(jvm, store, 1, first)
            task.markInterrupted("killed")
            store.rollback()
            is_rolled_back.set()
            rolls_back_again.wait(20)
            store.rollback()

    other = Attempt(jvm, killed_attempt)
    assert is_rolled_back.wait(20)
    rocksdb.load(jvm, store, 1, first)
    rocksdb.put(store, b"b", b"2")
    rolls_back_again.set()
    wait_until(other.waits_for_the_owner, "the second roll-back to wait for the owner", 10)
    rocksdb.put(store, b"c", b"3")
    second = rocksdb.commit(store)._2().stateStoreCkptId().get()
    other.ended()
    read = stores("another host")
    rocksdb.load(jvm, read, 2, second, read_only=True)
    assert rocksdb.pairs(read) == {b"a": b"1", b"b": b"2", b"c": b"3"}
