"""What tells a failure of Mooring's from the echo of an ordinary end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.support.store_with_open_copy import scala_object

pytestmark = pytest.mark.one_jvm

SECOND = 1_000_000_000


@pytest.fixture
def end(jvm: Any) -> Any:
    return scala_object(jvm, "io.mooring.common.OrdinaryEnd")


def test_a_task_that_is_killed_or_a_job_that_is_cancelled_explains_what_fails_with_it(jvm: Any, end: Any) -> None:
    lang = jvm.java.lang
    for echo in (
        lang.InterruptedException("stop"),
        jvm.java.nio.channels.ClosedByInterruptException(),
        jvm.org.apache.spark.TaskKilledException("another attempt succeeded"),
    ):
        assert end.explains(echo)
        assert end.explains(jvm.java.util.concurrent.ExecutionException(lang.RuntimeException("it failed", echo)))


def test_an_interruption_of_io_is_the_echo_of_an_interrupted_thread_or_of_a_killed_task(jvm: Any, end: Any) -> None:
    interrupted = jvm.java.io.InterruptedIOException("stop")
    assert not end.explains(interrupted), "a client of storage may mean its timeout"
    thread = jvm.java.lang.Thread.currentThread()
    thread.interrupt()
    try:
        assert end.explains(interrupted)
    finally:
        assert jvm.java.lang.Thread.interrupted(), "each call from here runs in the same thread"
    tasks = scala_object(jvm, "org.apache.spark.TaskContext")
    task = tasks.empty()
    tasks.setTaskContext(task)
    try:
        assert not end.explains(interrupted)
        task.markInterrupted("another attempt succeeded")
        assert end.explains(interrupted)
    finally:
        tasks.unset()


def test_a_timeout_of_storage_is_a_fault_also_in_an_interrupted_thread(jvm: Any, end: Any) -> None:
    timeouts = (
        jvm.java.net.SocketTimeoutException("Read timed out"),
        jvm.org.apache.hadoop.net.ConnectTimeoutException("20000 millis timeout while waiting for channel"),
    )
    jvm.java.lang.Thread.currentThread().interrupt()
    try:
        for timeout in timeouts:
            assert not end.explains(timeout)
            assert not end.explains(jvm.java.io.IOException("could not write", timeout))
    finally:
        assert jvm.java.lang.Thread.interrupted()


def test_nothing_explains_a_true_fault(jvm: Any, end: Any) -> None:
    full = jvm.java.io.IOException("No space left on device")
    outer, inner = (jvm.java.lang.RuntimeException(name) for name in ("outer", "inner"))
    outer.initCause(inner)
    inner.initCause(outer)  # a circle
    assert not end.explains(full) and not end.explains(outer)
    assert not end.isUnderWay()


def test_a_driver_counts_as_silent_only_when_it_has_not_answered_for_long(jvm: Any) -> None:
    unanswered = jvm.io.mooring.reports.Unanswered(10_000)
    assert not unanswered.failed(5 * SECOND)
    assert not unanswered.failed(14 * SECOND)
    assert unanswered.failed(15 * SECOND)
    unanswered.answered()
    assert not unanswered.failed(100 * SECOND)
    assert not unanswered.failed(109 * SECOND)
    assert unanswered.failed(110 * SECOND)
