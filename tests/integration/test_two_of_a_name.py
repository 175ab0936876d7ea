"""Two living applications of one name, whose checkpoints lie side by side: each has its own records."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from mooring.testing.servers import ChildProcess
from tests.integration.support.file_fed_job import status_in
from tests.integration.support.local_runs import LocalRuns
from tests.integration.support.restarted_job import said

pytestmark = [pytest.mark.one_jvm, pytest.mark.heavy]

NAME = "ends"


def await_plan(runs: LocalRuns, process: ChildProcess, place: Path) -> dict[str, Any]:
    """The status that it shows once its query's tasks are placed."""
    wait_until(lambda: runs.is_ready(process), "batches", 120, story=process.story)
    wait_until(lambda: bool(status_in(str(place)).get("tasks")), "its records", 30, story=process.story)
    return status_in(str(place))


def test_the_second_keeps_its_records_apart_and_says_where(tmp_path: Path) -> None:
    runs, place = LocalRuns(tmp_path), tmp_path / "_mooring" / NAME
    with runs.running("ckpt-a", "1", "wait") as one:
        first = await_plan(runs, one, place)
        with runs.running("ckpt-b", "1", "wait") as other:
            second = await_plan(runs, other, place / "application-2")
            assert [checkpoint_of(status) for status in (first, second)] == ["ckpt-a", "ckpt-b"]
            log = other.log.read_text()
            assert said(log, f"are those of application {first['application']}") == 1
            assert said(log, f"mooring status --metadata {place / 'application-2'}") == 1
        assert checkpoint_of(status_in(str(place))) == "ckpt-a"
    log = one.log.read_text()
    assert said(log, f"records are in {place}; to see them: mooring status --metadata {place}") == 1
    assert said(log, f"each host keeps state in {tmp_path / 'store'}") == 1
    assert said(log, "query slow is placed: 2 tasks on 1 executor") == 1


def test_after_a_crash_of_both_each_finds_its_own_records(tmp_path: Path) -> None:
    runs, place = LocalRuns(tmp_path), tmp_path / "_mooring" / NAME
    places = {"ckpt-a": place, "ckpt-b": place / "application-2"}
    with runs.running("ckpt-a", "1", "wait") as one:
        await_plan(runs, one, place)
        with runs.running("ckpt-b", "1", "wait") as other:
            await_plan(runs, other, places["ckpt-b"])
            for process in (one, other):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)
    for checkpoint, own in reversed(places.items()):
        goes_on_in(runs, checkpoint, own)
    assert not (place / "application-3").exists()


def goes_on_in(runs: LocalRuns, checkpoint: str, place: Path) -> None:
    """It starts again, and keeps its records where they were."""
    before = status_in(str(place))["application"]
    with runs.running(checkpoint, "1", "wait") as again:
        wait_until(lambda: runs.is_ready(again), "batches", 120, story=again.story)
        wait_until(lambda: status_in(str(place))["application"] != before, "records", 30, story=again.story)
        assert checkpoint_of(status_in(str(place))) == checkpoint
        line = f" in {place}; to see them: "  # whether or not the other application still counts as alive
        wait_until(lambda: said(again.log.read_text(), line) == 1, "the log to say where", 30, story=again.story)


def checkpoint_of(status: dict[str, Any]) -> str:
    (query,) = status["queries"]
    return str(query["checkpoint"]).rpartition("/")[2]
