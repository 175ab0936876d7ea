"""How the driver starts the agent's process, and when the driver takes the agent for silent."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application

pytestmark = pytest.mark.one_jvm

# In place of Python: writes the path for Python modules to a file, then waits until the driver closes its input.
AGENT = """#!/bin/sh
printf %s "$PYTHONPATH" > "$0.path.tmp"
mv "$0.path.tmp" "$0.path"
cat > /dev/null
"""


@dataclass(frozen=True)
class Launched:
    """An application whose agent is a script that calls nothing."""

    here: Path
    python_path: list[str]
    jvm: Any

    @property
    def bridge(self) -> Any:
        return self.jvm.io.mooring.agent.Bridge.instance()


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    here = tmp_path_factory.mktemp("agent")
    agent = here / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    uris = [f"file:{here}/as%20spark%20writes%20it/grouper.py", f"file:{here}/as a user writes it/grouper.py"]
    files = {"spark.submit.pyFiles": ",".join(uris)}
    with application("a", here, files, agent_python=str(agent), liveness_timeout="1h") as spark:
        written = here / "agent.path"
        wait_until(written.exists, "the agent's start", 30)
        yield Launched(here, written.read_text().split(os.pathsep), spark._jvm)


@pytest.mark.parametrize("folder", ["as spark writes it", "as a user writes it"])
def test_the_agent_finds_the_users_python_files_also_in_a_folder_with_a_space(launched: Launched, folder: str) -> None:
    assert str(launched.here / folder) in launched.python_path


def test_an_agent_that_waits_for_an_answer_of_the_driver_is_not_silent(launched: Launched) -> None:
    bridge = launched.bridge
    bridge.hello()
    while json.loads(bridge.pollEvents(0)):  # until no event is queued
        pass
    move_last_call_back(launched, seconds=100)
    assert bridge.secondsSinceLastCall() >= 100
    with call_that_waits(launched):
        move_last_call_back(launched, seconds=100)
        assert bridge.secondsSinceLastCall() == 0
    assert bridge.secondsSinceLastCall() < 100, "silence begins with the answer, not with the call"


def move_last_call_back(launched: Launched, seconds: int) -> None:
    """Set the time of the agent's last call as if `seconds` more had passed since.

    Py4J gives Python a copy of a number, so the field and its method are joined in the JVM.
    """
    java = launched.jvm.java.lang
    field = launched.bridge.getClass().getDeclaredField("lastCall")
    field.setAccessible(True)
    lookup, long = java.invoke.MethodHandles.publicLookup(), java.Long.TYPE
    add = lookup.findVirtual(field.getType(), "addAndGet", java.invoke.MethodType.methodType(long, long))
    call = java.invoke.MethodHandles.collectArguments(add, 0, lookup.unreflectGetter(field))
    arguments = launched.jvm.java.util.ArrayList()
    arguments.add(launched.bridge)
    arguments.add(-seconds * 1_000_000_000)
    call.invokeWithArguments(arguments)


@contextmanager
def call_that_waits(launched: Launched) -> Iterator[None]:
    """A call in which the driver waits for the next event; the event comes at the end."""
    call = threading.Thread(target=launched.bridge.pollEvents, args=(60_000,))
    call.start()
    try:
        wait_until(lambda: is_in_poll(launched.jvm), "a call that waits", 30)
        yield
    finally:
        launched.bridge.tookUp("an executor", 1)
        call.join(60)
    assert not call.is_alive()


def is_in_poll(jvm: Any) -> bool:
    for stack in jvm.java.lang.Thread.getAllStackTraces().values():
        calls = " ".join(call.toString() for call in islice(stack, 12))
        if "agent.Bridge.pollEvents(" in calls and "LinkedBlockingQueue.poll(" in calls:
            return True
    return False
