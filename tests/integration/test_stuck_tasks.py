"""Tasks before state that began just before an executor was lost run again: in one JVM, where none is really lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from tests.integration.support.store_with_open_copy import SCHEDULER_SHIMS, scala_object, scala_session

BEGUN, QUERY, REPLICA = "mooring.test.begun", "sql.streaming.queryId", "mooring.replica.of"
numbers = count(7)


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    with scala_session(jvm, "stuck", {"spark.sql.adaptive.enabled": "false"}) as session:
        Job(jvm, session, 0).ends()  # the next one's code is compiled
        yield session


@pytest.fixture
def stuck(jvm: Any, session: Any) -> Iterator[Any]:
    listener = jvm.io.mooring.standby.StuckTasks(session.sparkContext())
    scala_object(jvm, f"{SCHEDULER_SHIMS}.ListenerShim").add(session.sparkContext(), listener)
    yield listener
    listener.stop()
    session.sparkContext().removeSparkListener(listener)
    for name in (QUERY, REPLICA):
        session.sparkContext().setLocalProperty(name, None)


class Job:
    """One task that sleeps for so long before it writes a shuffle, if it does; it sleeps when this has been made."""

    def __init__(self, jvm: Any, session: Any, milliseconds: int, has_shuffle: bool = True) -> None:
        self._jvm = jvm
        jvm.java.lang.System.clearProperty(BEGUN)
        now = "java_method('java.lang.System', 'currentTimeMillis')"
        begins = f"java_method('java.lang.System', 'setProperty', '{BEGUN}', {now})"
        sleeps = f"java_method('java.lang.Thread', 'sleep', bigint({milliseconds}))"
        rows = f"SELECT {begins} AS begun, {sleeps} AS slept FROM range(0, 1, 1, 2)"  # one partition needs none
        if has_shuffle:
            rows = f"SELECT count(*) FROM ({rows}) GROUP BY begun, slept"
        self._counted = session.sql(rows).javaRDD().countAsync()
        wait_until(lambda: self.begun_ms() > 0, "the job's task", interval=0.01)
        self.last_ms = self.begun_ms()

    def begins_again(self) -> None:
        wait_until(lambda: self.begun_ms() != self.last_ms, "the task to be run again", 1.5, interval=0.01)
        self.last_ms = self.begun_ms()

    def ends(self) -> None:
        """And has not been run again."""
        assert self._counted.get() == 1
        assert self.begun_ms() == self.last_ms

    def begun_ms(self) -> int:
        """Milliseconds since 1970; 0 before that."""
        return int(self._jvm.java.lang.System.getProperty(BEGUN) or 0)


def is_lost(jvm: Any, stuck: Any, at_ms: int, silent_ms: int = 0) -> None:
    """The driver hears of a loss; executors' ids are not used again."""
    executor = str(next(numbers))
    if silent_ms:
        stuck.noteSilence(executor, silent_ms)
    events = jvm.org.apache.spark.scheduler
    of_executor = scala_object(jvm, "org.apache.spark.storage.BlockManagerId")
    of_executor = of_executor.apply(executor, "127.0.0.2", 7077, jvm.scala.Option.apply(None))
    stuck.onBlockManagerRemoved(events.SparkListenerBlockManagerRemoved(at_ms, of_executor))
    stuck.onExecutorRemoved(events.SparkListenerExecutorRemoved(at_ms, executor, "killed"))


def test_a_task_of_a_query_that_began_just_before_the_loss_is_run_again(jvm: Any, session: Any, stuck: Any) -> None:
    session.sparkContext().setLocalProperty(QUERY, "of a test")
    job = Job(jvm, session, 2_000)
    is_lost(jvm, stuck, job.last_ms + 50)
    job.begins_again()
    is_lost(jvm, stuck, job.last_ms + 50)  # but once
    job.ends()


def test_one_that_began_earlier_or_later_goes_on(jvm: Any, session: Any, stuck: Any) -> None:
    session.sparkContext().setLocalProperty(QUERY, "of a test")
    job = Job(jvm, session, 2_000)
    is_lost(jvm, stuck, job.last_ms + 2_000)
    is_lost(jvm, stuck, job.last_ms - 2_000)
    job.ends()


def test_one_that_is_not_of_a_query_goes_on(jvm: Any, session: Any, stuck: Any) -> None:
    job = Job(jvm, session, 2_000)
    is_lost(jvm, stuck, job.last_ms + 50)
    job.ends()


def test_one_that_began_while_the_executor_was_silent_is_run_again(jvm: Any, session: Any, stuck: Any) -> None:
    session.sparkContext().setLocalProperty(QUERY, "of a test")
    job = Job(jvm, session, 2_000)
    is_lost(jvm, stuck, job.last_ms + 8_000, silent_ms=5_000)
    job.begins_again()
    job.ends()


def test_one_of_a_replica_query_is_run_again(jvm: Any, session: Any, stuck: Any) -> None:
    session.sparkContext().setLocalProperty(QUERY, "of a test")
    session.sparkContext().setLocalProperty(REPLICA, "of a test")
    job = Job(jvm, session, 2_000, has_shuffle=False)
    is_lost(jvm, stuck, job.last_ms + 50)
    job.begins_again()
    is_lost(jvm, stuck, job.last_ms + 50)
    job.ends()


def test_one_that_makes_no_shuffle_files_goes_on(jvm: Any, session: Any, stuck: Any) -> None:
    session.sparkContext().setLocalProperty(QUERY, "of a test")
    job = Job(jvm, session, 2_000, has_shuffle=False)
    is_lost(jvm, stuck, job.last_ms + 50)
    job.ends()


def test_stages_of_a_replica_query_say_so(jvm: Any, session: Any, tmp_path: Path) -> None:
    context = session.sparkContext()
    jvm.org.apache.spark.sql.SparkSession.setDefaultSession(session)
    conf = context.conf().set("spark.eventLog.compress", "false").set("spark.eventLog.rolling.enabled", "false")
    none, directory = jvm.scala.Option.apply(None), jvm.java.net.URI(tmp_path.as_uri())
    events = jvm.org.apache.spark.scheduler.EventLoggingListener("replica", none, directory, conf)
    events.start()
    scala_object(jvm, f"{SCHEDULER_SHIMS}.ListenerShim").add(context, events)
    replicas = jvm.org.apache.spark.sql.execution.streaming.state.shims.ReplicaSession(5_000)
    replica = replicas.replicate("of a test", "test", "rate", "query")

    def is_marked() -> bool:
        (log,) = tmp_path.iterdir()
        whole_lines = log.read_text().rpartition("\n")[0].splitlines()
        begun = [json.loads(line) for line in whole_lines if "SparkListenerJobStart" in line]
        return any(job["Properties"].get(REPLICA) == "of a test" for job in begun if QUERY in job["Properties"])

    try:
        wait_until(is_marked, "a stage of the replica query")
        assert context.getLocalProperty(REPLICA) is None, "what the thread starts later is not of a replica query"
    finally:
        replica.stop()
        context.removeSparkListener(events)
        events.stop()
        jvm.org.apache.spark.sql.SparkSession.clearDefaultSession()
