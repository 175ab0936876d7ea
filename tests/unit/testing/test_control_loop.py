"""A loop whose fault is not lost."""

from __future__ import annotations

import threading

import pytest

from mooring.errors import ClusterError
from mooring.testing.control_loop import ControlLoop


def started(step, on_fault=lambda: None) -> ControlLoop:
    loop = ControlLoop("the loop", step, on_fault, interval_s=0.001)
    loop.start()
    return loop


def test_a_loop_ends_with_its_stop() -> None:
    third, steps = threading.Event(), []

    def step() -> None:
        steps.append(1)
        if len(steps) == 3:
            third.set()

    loop = started(step)
    assert third.wait(10)
    loop.stop()
    made = len(steps)
    loop.check()
    assert len(steps) == made


def test_a_fault_ends_the_loop_and_is_raised_to_those_who_look() -> None:
    fault = threading.Event()
    loop = started(lambda: {}["no such key"], fault.set)
    assert fault.wait(10)
    with pytest.raises(ClusterError, match=r"the loop has failed.*no such key"):
        loop.check()
    loop.stop()


def test_a_refused_connection_is_tried_again() -> None:
    answered, steps = threading.Event(), []

    def step() -> None:
        steps.append(1)
        if len(steps) < 3:
            raise ConnectionRefusedError
        answered.set()

    loop = started(step)
    assert answered.wait(10)
    loop.stop()
    loop.check()


def test_a_loop_that_was_never_started_can_be_stopped() -> None:
    ControlLoop("the loop", lambda: None, lambda: None, interval_s=1).stop()
