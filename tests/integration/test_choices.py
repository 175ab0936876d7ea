"""A user's own grouper, location and zone in a real application, and the bytes that its stores report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.records import CommandRecords
from mooring.errors import MooringError
from mooring.testing.probes import wait_until
from mooring.testing.servers import ChildProcess
from tests.integration.support.restarted_job import Stages, said

MODULE = """
from mooring.grouping import HostAwareGrouper, TaskNameGrouper


class Mine(HostAwareGrouper):
    pass


class Broken(TaskNameGrouper):
    def group(self, task_models, task_locality, processor_locality, previous=None):
        raise ValueError("the map is upside down")


class Rack:
    def location_id(self):
        return "rack-9"
"""


def run(directory: Path, until: Any, **settings: str) -> str:
    """The windowed aggregation with these settings, until its status is as wanted; returns the driver's log."""
    stages, metadata = Stages(directory, "until_told"), directory / "metadata"
    (directory / "my_choices.py").write_text(MODULE)

    def wait_for_the_status(driver: ChildProcess) -> None:
        def as_wanted() -> bool:
            try:
                return bool(until(CommandRecords(str(metadata)).status()))
            except MooringError:  # nothing is written yet
                return False

        wait_until(as_wanted, "the status to be as wanted", 120, story=driver.story)
        (stages.input / "STOP").touch()

    conf = {f"spark.mooring.{key.replace('_', '.')}": value for key, value in settings.items()}
    path = os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH")]))
    log = stages.run(
        1.0,
        {"spark.mooring.metadata": str(metadata), **conf},
        env={"PYTHONPATH": path, "ZONE": "eu-1a"},
        during=wait_for_the_status,
    )
    stages.assert_right()
    status = CommandRecords(str(metadata)).status()
    assert status["ended"] == status["at"] >= status["since"] and not status["queries"], status
    assert [one["state"] for one in status["ended-queries"]] == ["ended"], status
    return log


@pytest.mark.heavy
def test_a_users_grouper_location_and_zone_and_measured_stores(tmp_path: Path) -> None:
    def as_chosen(status: dict[str, Any]) -> bool:
        (host,) = status["hosts"]
        sizes = {task["local-bytes"] for task in status["tasks"]}
        # An even share of the whole would be the same number three times.
        return host["location"] == "rack-9" and host["zone"] == "eu-1a" and len(sizes) > 1 and None not in sizes

    log = run(
        tmp_path,
        as_chosen,
        grouper="my_choices:Mine",
        grouper_weights="bytes",
        location_provider="my_choices:Rack",
        zone_provider="env:ZONE",
    )
    assert said(log, "my_choices") == 0


@pytest.mark.heavy
def test_a_grouper_that_fails_and_a_location_without_an_answer_cost_the_query_nothing(tmp_path: Path) -> None:
    log = run(
        tmp_path,
        lambda status: status["tasks"] and status["queries"][0]["batch"] > 0,
        grouper="my_choices:Broken",
        location_provider="no.such.module:Rack",
    )
    assert said(log, "raised ValueError: the map is upside down; this plan is made by host-aware") >= 1
    assert said(log, "spark.mooring.location.provider: no.such.module:Rack has no answer") == 1
