"""A directory of records that can not be used is told of when the application starts."""

from __future__ import annotations

import queue
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.agent import resources as module
from mooring.agent.resources import AgentResources
from mooring.metadata import FileMetadataStore, LocalFileTree
from mooring.metadata.owned_tree import OwnedTree
from mooring.metadata.owners import Owner, OwnerNotes
from mooring.model import ContainerModel, JobModel, LocationId, events
from mooring.records.records import Records
from mooring.settings import Settings
from mooring.testing.probes import wait_until


class Bridge:
    """Of a driver whose log the test reads."""

    jvm: Any = None

    def __init__(self) -> None:
        self.troubles: queue.Queue[str] = queue.Queue()
        self.kept: dict[str, str] = {}

    def keep_for_next_agent(self, name: str, text: str) -> None:
        self.kept[name] = text

    def from_earlier_agent(self, name: str) -> str:
        return self.kept.get(name, "")

    def reports_written(self) -> None:
        pass

    def take_reports(self, most: int) -> str:
        return "[]"

    def info(self, message: str) -> None:
        pass

    def warn(self, message: str) -> None:
        self.troubles.put(message)

    def warn_unless_ending(self, message: str) -> None:
        self.troubles.put(message)


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Bridge:
    monkeypatch.setattr(module, "open_tree", lambda jvm, place: LocalFileTree(place))
    return Bridge()


def start(bridge: Bridge, place: Path) -> None:
    settings = {"spark.mooring.metadata": str(place)}
    AgentResources(bridge).handle(events.ApplicationStarted(1, "app-1", "clicks", settings, ""))  # type: ignore[arg-type]


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


def test_the_records_of_an_application_that_lost_its_directory_are_complete_in_another(
    bridge: Bridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OwnedTree", partial(OwnedTree, every_seconds=0.02))
    place = tmp_path / "records"
    outside = AgentResources(bridge)  # type: ignore[arg-type]
    outside.handle(events.ApplicationStarted(1, "app-1", "clicks", {}, ""))
    settings = Settings.from_conf({"spark.mooring.placement.poll.interval": "100ms"})
    memory = outside.open_records(settings, str(place), "app-1", "/ckpt/clicks")
    assert memory.recall(5) is not None
    memory.save_job_model(JobModel.of([ContainerModel.of("0", [], LocationId("h1"))], 7))
    assert memory.flush(5)
    assert OwnerNotes(LocalFileTree(str(place))).take(2, Owner("app-2", "10.0.0.8", ("/ckpt/other",)))
    line = bridge.troubles.get(timeout=5)
    assert "application app-2 on 10.0.0.8" in line and f"its own in {place}/application-2 from now on" in line
    moved = Records(FileMetadataStore(f"{place}/application-2"), print)
    wait_until(lambda: moved.job_models().keys() == {7}, "the job model in the other directory", 10)
    outside.end()
    memory.close(timeout=0.1)


def test_an_agent_that_is_started_again_uses_the_store_of_the_one_before_it(bridge: Bridge, tmp_path: Path) -> None:
    first, second = AgentResources(bridge), AgentResources(bridge)  # type: ignore[arg-type]
    for resources, name in ((first, "here"), (second, "there")):
        settings, place = Settings.from_conf({}), str(tmp_path / name)
        resources.handle(events.ApplicationStarted(1, "app-1", "clicks", {}, "", started_ms=17))
        records = resources.open_records(settings, place, "app-1", f"/{name}/checkpoint")
        assert records.recall(5) is not None
        records.close(timeout=1)
    assert OwnerNotes(LocalFileTree(str(tmp_path / "here"))).number() == 2, "both agents have taken this directory"
    assert not (tmp_path / "there").exists() and not (tmp_path / "here" / "application-2").exists()
    first.end()
    second.end()
