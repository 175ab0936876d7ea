"""What the agent has open outside of itself, at the end of the driver."""

from __future__ import annotations

import json
import uuid
from typing import Any

from mooring.agent.resources import AgentResources
from mooring.metadata import MemoryMetadataStore
from mooring.model import events
from mooring.records.records import STATUS
from mooring.settings import Settings


class Bridge:
    """Of a driver without Delta whose executors tell nothing."""

    jvm: Any = None

    def reports_written(self) -> None:
        pass

    def take_reports(self, most: int) -> str:
        return "[]"

    def keep_for_next_agent(self, name: str, text: str) -> None:
        pass

    def from_earlier_agent(self, name: str) -> str:
        return ""

    def info(self, message: str) -> None:
        pass

    def warn(self, message: str) -> None:
        raise AssertionError(message)


def test_when_the_driver_is_gone_the_status_says_that_the_application_has_ended() -> None:
    place = f"memory://{uuid.uuid4().hex}"
    outside = AgentResources(Bridge())  # type: ignore[arg-type]  # the part of a bridge that this needs
    outside.handle(events.ApplicationStarted(1, "app-1", "clicks", {}, ""))
    memory = outside.open_records(Settings.from_conf({}), place, "clicks", "/ckpt/clicks")
    assert memory.recall(5) is not None
    memory.save_status({"application": "app-1", "at": 5, "queries": []})
    outside.end()
    status = json.loads(MemoryMetadataStore(place.removeprefix("memory://")).get(STATUS) or b"")
    assert status["ended"] == status["at"] > 5
    memory.close()
