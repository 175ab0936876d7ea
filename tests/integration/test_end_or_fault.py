"""What tells a failure of Mooring's from the echo of an ordinary end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.copied_store import scala_object

pytestmark = pytest.mark.one_jvm

SECOND = 1_000_000_000


@pytest.fixture
def end(jvm: Any) -> Any:
    return scala_object(jvm, "io.mooring.OrdinaryEnd")


def test_a_task_that_is_killed_or_a_job_that_is_cancelled_explains_what_fails_with_it(jvm: Any, end: Any) -> None:
    lang, io = jvm.java.lang, jvm.java.io
    for echo in (
        lang.InterruptedException("stop"),
        io.InterruptedIOException("stop"),
        jvm.java.nio.channels.ClosedByInterruptException(),
        jvm.org.apache.spark.TaskKilledException("another attempt succeeded"),
    ):
        assert end.explains(echo)
        assert end.explains(jvm.java.util.concurrent.ExecutionException(lang.RuntimeException("it failed", echo)))


def test_nothing_explains_a_true_fault(jvm: Any, end: Any) -> None:
    full = jvm.java.io.IOException("No space left on device")
    outer, inner = (jvm.java.lang.RuntimeException(name) for name in ("outer", "inner"))
    outer.initCause(inner)
    inner.initCause(outer)  # a circle
    assert not end.explains(full) and not end.explains(outer)
    assert not end.isUnderWay()


def test_a_driver_counts_as_silent_only_when_it_has_not_answered_for_long(jvm: Any) -> None:
    unanswered = jvm.io.mooring.Unanswered(10_000)
    assert not unanswered.failed(5 * SECOND)
    assert not unanswered.failed(14 * SECOND)
    assert unanswered.failed(15 * SECOND)
    unanswered.answered()
    assert not unanswered.failed(100 * SECOND)
    assert not unanswered.failed(109 * SECOND)
    assert unanswered.failed(110 * SECOND)
