"""A directory of records that can not be used is told of when the application starts."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import pytest

from mooring.agent import outside as module
from mooring.agent.outside import Outside
from mooring.metadata import LocalFileTree
from mooring.model import events


class Bridge:
    """Of a driver whose log the test reads."""

    jvm: Any = None

    def __init__(self) -> None:
        self.troubles: queue.Queue[str] = queue.Queue()

    def take_facts(self, most: int) -> str:
        return "[]"

    def say_of_trouble(self, message: str) -> None:
        self.troubles.put(message)


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Bridge:
    monkeypatch.setattr(module, "open_tree", lambda jvm, place: LocalFileTree(place))
    return Bridge()


def start(bridge: Bridge, place: Path) -> None:
    settings = {"spark.mooring.metadata": str(place)}
    Outside(bridge).hear(events.ApplicationStarted(1, "app-1", "clicks", settings, ""))  # type: ignore[arg-type]


def test_one_that_is_no_directory_is_named_with_what_to_do(bridge: Bridge, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    start(bridge, tmp_path / "file")
    line = bridge.troubles.get(timeout=5)
    assert f"spark.mooring.metadata={tmp_path / 'file'} can not be read now" in line and "name a directory" in line


def test_of_one_that_is_still_to_be_made_nothing_is_said(bridge: Bridge, tmp_path: Path) -> None:
    start(bridge, tmp_path / "new")
    for looking in threading.enumerate():
        if looking.name == "mooring-look-at-records":
            looking.join(5)
    assert bridge.troubles.empty()
