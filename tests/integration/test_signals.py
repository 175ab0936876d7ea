"""What a JVM of the driver does with a SIGTERM."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway

from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application
from tests.integration.support.plugin_objects import plugins_object, private_field
from tests.integration.support.scala_function import ScalaFunction
from tests.integration.support.store_with_open_copy import CORE_SHIMS, scala_object

pytestmark = pytest.mark.one_jvm


def test_a_handler_that_is_closed_is_not_called(gateway: JavaGateway) -> None:
    signals = scala_object(gateway.jvm, f"{CORE_SHIMS}.Signals")
    called: list[str] = []
    stays, goes = (ScalaFunction(lambda name=name: called.append(name) or True) for name in ("stays", "goes"))
    signals.onTerm(stays)  # the JVM ends where no handler returns true
    signals.onTerm(goes).close()
    os.kill(gateway.jvm.java.lang.ProcessHandle.current().pid(), signal.SIGTERM)
    wait_until(lambda: bool(called), "a handler to be called", 10)
    assert called == ["stays"]


def test_an_application_that_has_ended_handles_no_signal(tmp_path: Path) -> None:
    """In a notebook the JVM goes on, and may run another application."""
    for number in range(2):
        with application(f"handles SIGTERM {number}", tmp_path, drain_on_sigterm="true") as spark:
            handlers = private_field(plugins_object(spark, f"{CORE_SHIMS}.Signals"), "handlers")
            assert handlers.size() == 1
        assert handlers.size() == 0
