"""`mooring drain` and `mooring stop`, with the agent's records in a directory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.records import STATUS
from mooring.cli.main import main
from mooring.drain import StopMode, read_drain_notifications, remove_notifications
from mooring.metadata import FileMetadataStore
from mooring.testing.probes import wait_until

QUERIES = [{"id": "id-1", "name": "counts"}, {"id": "id-2", "name": "totals"}]


def write_status(place: Path, **drains: str) -> None:
    """`drains`: how far each query is, by its name."""
    rows = [
        {
            "query": query["name"],
            "id": query["id"],
            "phase": drains[query["name"]],
            "batch": 7,
            "batches": 3,
            "rows": 400,
            "state-rows-flushed": 12,
            "state-rows-left": 0,
            **({"reason": "continuous mode"} if drains[query["name"]] == "refused" else {}),
        }
        for query in QUERIES
        if query["name"] in drains
    ]
    with FileMetadataStore(str(place)) as store:
        store.put(STATUS, json.dumps({"application": "app-1", "queries": QUERIES, "drains": rows}).encode())


@contextmanager
def agent(place: Path, **outcome: str) -> Iterator[list[Any]]:
    """Takes what is asked, once, has the queries end so, and removes the request; what it was asked."""
    heard: list[Any] = []
    is_over = threading.Event()

    def act() -> None:
        with FileMetadataStore(str(place)) as store:
            while not is_over.is_set():
                found = read_drain_notifications(store).notifications
                if found:
                    heard.extend(found.values())
                    write_status(place, **outcome)
                    remove_notifications(store, found)
                    return
                is_over.wait(0.01)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield heard
    finally:
        is_over.set()
        thread.join()


def asked(place: Path) -> list[Any]:
    with FileMetadataStore(str(place)) as store:
        return list(read_drain_notifications(store).notifications.values())


def test_a_request_names_the_application_that_the_status_shows(tmp_path: Path) -> None:
    write_status(tmp_path)
    assert main(["drain", "--metadata", str(tmp_path), "--query", "counts"]) == 0
    (one,) = asked(tmp_path)
    assert (one.run_id, one.query, one.stop) == ("app-1", "counts", None)


def test_an_application_that_is_going_to_start_can_be_named(tmp_path: Path) -> None:
    assert main(["drain", "--metadata", str(tmp_path), "--deployment-id", "app-2"]) == 0
    assert [one.run_id for one in asked(tmp_path)] == ["app-2"]


def test_without_a_status_nobody_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drain", "--metadata", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err and asked(tmp_path) == []


def test_who_waits_is_told_how_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_status(tmp_path)
    with agent(tmp_path, counts="drained", totals="drained"):
        assert main(["drain", "--metadata", str(tmp_path), "--wait", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["phase"] for row in shown["drains"]] == ["drained", "drained"]


def test_what_can_not_be_drained_is_a_failure_that_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_status(tmp_path)
    with agent(tmp_path, counts="drained", totals="refused"):
        assert main(["drain", "--metadata", str(tmp_path), "--wait"]) == 1
    assert "query totals is not drained but refused: continuous mode" in capsys.readouterr().err


def test_a_stop_is_done_also_where_a_query_was_drained_just_then(tmp_path: Path) -> None:
    write_status(tmp_path)
    with agent(tmp_path, counts="stopped", totals="drained") as heard:
        assert main(["stop", "--metadata", str(tmp_path), "--mode", "after-batch", "--wait"]) == 0
        wait_until(lambda: bool(heard), "the request", 5)
    assert [one.stop for one in heard] == [StopMode.AFTER_BATCH]


def test_who_waits_too_long_is_told_that_it_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_status(tmp_path, counts="frozen")
    began = time.monotonic()
    assert main(["drain", "--metadata", str(tmp_path), "--wait", "--timeout", "1ms"]) == 4
    assert "it goes on" in capsys.readouterr().err and time.monotonic() - began < 10
    assert len(asked(tmp_path)) == 1
