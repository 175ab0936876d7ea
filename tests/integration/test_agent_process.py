"""How the driver starts the agent's process."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application

pytestmark = pytest.mark.one_jvm


@pytest.mark.parametrize("space", ["%20", " "])
def test_the_agent_finds_the_users_python_files_also_in_a_folder_with_a_space(space: str, tmp_path: Path) -> None:
    folder = tmp_path / "my folder"
    folder.mkdir()
    (folder / "grouper.py").write_text("")
    uri = f"file:{folder}/grouper.py".replace(" ", space)
    with application("starts the JVM", tmp_path):
        pass
    with application("python files", tmp_path, {"spark.submit.pyFiles": uri}):
        wait_until(lambda: any(str(folder) in path for path in agents_python_paths()), "an agent with the folder", 30)


def test_an_agent_that_waits_for_an_answer_of_the_driver_is_not_silent(tmp_path: Path) -> None:
    with application("slow driver", tmp_path, agent_python="/bin/false") as spark:
        bridge = spark._jvm.io.mooring.agent.Bridge.instance()
        bridge.hello()
        call = threading.Thread(target=bridge.pollEvents, args=(4000,))
        while json.loads(bridge.pollEvents(0)):  # until no event is queued
            pass
        call.start()
        time.sleep(2.5)
        assert bridge.secondsSinceLastCall() == 0
        call.join()


def agents_python_paths() -> list[str]:
    """PYTHONPATH of each agent that runs on this machine under a process of this test."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # the process has ended, or is another user's
            continue
        if b"mooring.agent" in arguments:
            found += [os.fsdecode(entry) for entry in environment if entry.startswith(b"PYTHONPATH=")]
    return found
