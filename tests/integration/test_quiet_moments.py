"""What work in the background waits for: an executor without tasks. Here the driver runs the tasks, in one JVM."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from tests.integration.copied_store import DOORS, scala_object


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    conf = jvm.org.apache.spark.SparkConf(True).setMaster("local[1]").setAppName("moments")
    context = jvm.org.apache.spark.api.java.JavaSparkContext(conf.set("spark.ui.enabled", "false"))
    yield jvm.org.apache.spark.sql.classic.SparkSession(context.sc(), {})
    context.stop()


class Job(Thread):
    """One task that sleeps for so long; it runs when this has been made."""

    def __init__(self, session: Any, milliseconds: int) -> None:
        super().__init__(daemon=True)
        self._session, self._milliseconds = session, milliseconds
        self.start()
        while session.sparkContext().statusTracker().getExecutorInfos()[0].numRunningTasks() == 0:
            pass

    def run(self) -> None:
        sleep = f"java_method('java.lang.Thread', 'sleep', bigint({self._milliseconds}))"
        self._session.sql(f"SELECT {sleep} FROM range(0, 1, 1, 1)").collect()

    def ran(self) -> bool:
        self.join(0.3)
        return not self.is_alive()


def test_one_comes_when_the_tasks_have_ended(jvm: Any, session: Any) -> None:
    job = Job(session, 700)
    _await_one(jvm)
    assert job.ran()


def test_where_tasks_run_all_the_time_it_is_not_waited_for(jvm: Any, session: Any) -> None:
    job = Job(session, 6_000)
    for _ in range(10):
        _await_one(jvm)
    assert not job.ran()
    job.join()


def _await_one(jvm: Any) -> None:
    getattr(scala_object(jvm, f"{DOORS}.QuietMoments"), "await")()  # a word of Python's
