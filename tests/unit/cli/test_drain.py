"""`mooring drain` and `mooring stop`, with the agent's records in a directory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.application import endings
from mooring.cli.main import main
from mooring.cli.records import CommandRecords
from mooring.drain import StopMode, read_drain_notifications, remove_notifications
from mooring.metadata import FileMetadataStore
from mooring.records.records import STATUS
from mooring.testing.probes import wait_until

pytestmark = pytest.mark.slow

QUERIES = [{"id": "id-1", "name": "counts"}, {"id": "id-2", "name": "totals"}]


REASONS = {
    "refused": "continuous mode",
    "failed": "it failed: no such file",
    "not-told": "it is fed by counts, which ended before it was drained",
}


def write_status(place: Path, ended: int | None = None, flushed: int = 12, **drains: str) -> None:
    """`drains`: how far each query is, by its name. In one that has `ended`, the others were cut off."""
    rows = [
        {
            "query": query["name"],
            "id": query["id"],
            "phase": drains[query["name"]],
            "batch": 7,
            "batches": 3,
            "rows": 400,
            "state-rows-flushed": flushed,
            "state-rows-left": 0,
            **({"reason": REASONS[drains[query["name"]]]} if drains[query["name"]] in REASONS else {}),
        }
        for query in QUERIES
        if query["name"] in drains
    ]
    running = QUERIES if ended is None else [query for query in QUERIES if query["name"] not in drains]
    status = {"application": "app-1", "queries": running, "drains": rows, **({"ended": ended} if ended else {})}
    with FileMetadataStore(str(place)) as store:
        store.put(STATUS, json.dumps(status).encode())


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


@pytest.mark.parametrize("command", [["drain"], ["stop", "--mode", "now"]], ids=["drain", "stop"])
def test_a_query_that_does_not_run_is_refused_with_those_that_do(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "_STATUS_IS_LATE_BY_SECONDS", 0)
    write_status(tmp_path)
    assert main([*command, "--metadata", str(tmp_path), "--query", "cuonts", "--wait"]) == 1
    error = capsys.readouterr().err
    assert "cuonts: no query of app-1 has this name or id; expected one of: counts, totals; nearest: counts" in error
    assert asked(tmp_path) == []


def test_a_query_that_has_just_started_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "_LOOK_EVERY_SECONDS", 0.05)
    write_status(tmp_path)
    with FileMetadataStore(str(tmp_path)) as store:
        late = json.loads(store.get(STATUS) or b"")
        store.put(STATUS, json.dumps(late | {"queries": QUERIES[1:]}).encode())
    timer = threading.Timer(0.3, write_status, [tmp_path])
    timer.start()
    assert main(["drain", "--metadata", str(tmp_path), "--query", QUERIES[0]["name"]]) == 0
    timer.join()
    assert [one.query for one in asked(tmp_path)] == [QUERIES[0]["name"]]


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


def test_who_waits_sees_what_changes_while_it_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere than on a terminal each change is a line; what has not changed is not said again."""
    monkeypatch.setattr("mooring.cli.application.endings._LOOK_EVERY_SECONDS", 0.01)
    write_status(tmp_path)
    looks = 0
    status_if_any = CommandRecords.status_if_any

    def looked_at(self: CommandRecords) -> dict[str, Any]:
        nonlocal looks
        looks += 1
        if looks == 3:
            write_status(tmp_path, counts="frozen")
        if looks == 6:
            write_status(tmp_path, flushed=40, counts="frozen")
        if looks == 9:
            write_status(tmp_path, flushed=40, counts="drained", totals="drained")
        return status_if_any(self)

    monkeypatch.setattr(CommandRecords, "status_if_any", looked_at)
    assert main(["drain", "--metadata", str(tmp_path), "--wait", "--timeout", "30s"]) == 0
    lines = [line.strip().partition(", after")[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [
        "counts: frozen at batch 7",
        "counts: frozen at batch 7",
        "counts: drained at batch 7",
        "totals: drained at batch 7",
    ]


def test_what_can_not_be_drained_is_a_failure_that_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_status(tmp_path)
    with agent(tmp_path, counts="drained", totals="refused"):
        assert main(["drain", "--metadata", str(tmp_path), "--wait"]) == 1
    assert "query totals is not drained but refused: continuous mode" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("totals", "wanted"),
    [
        ("drained", "drained: totals"),
        ("not-told", "query totals is not drained, and was not told: it is fed by counts"),
    ],
)
def test_one_that_failed_is_named_with_its_reason_and_so_are_the_others(
    totals: str, wanted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_status(tmp_path)
    with agent(tmp_path, counts="failed", totals=totals):
        assert main(["drain", "--metadata", str(tmp_path), "--wait"]) == 1
    said = capsys.readouterr().err
    assert "query counts ended before it was drained: it failed: no such file; the driver's log has all" in said
    assert wanted in said


def test_who_waits_does_so_for_those_that_still_drain_when_one_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_status(tmp_path, counts="failed", totals="frozen")
    assert main(["drain", "--metadata", str(tmp_path), "--wait", "--timeout", "1s"]) == 4
    assert "; under way: totals (frozen); it goes on" in capsys.readouterr().err


def test_what_is_known_of_an_earlier_run_is_not_taken_for_the_end_of_this_one(tmp_path: Path) -> None:
    ended = {"query": "counts", "id": "id-1", "run-id": "run-1", "phase": "drained"}
    running = {"id": "id-1", "name": "counts", "run-id": "run-2"}
    with FileMetadataStore(str(tmp_path)) as store:
        store.put(STATUS, json.dumps({"application": "app-1", "queries": [running], "drains": [ended]}).encode())
    assert main(["drain", "--metadata", str(tmp_path), "--wait", "--timeout", "1s"]) == 4


def test_a_stop_is_done_also_where_a_query_was_drained_just_then(tmp_path: Path) -> None:
    write_status(tmp_path)
    with agent(tmp_path, counts="stopped", totals="drained") as heard:
        assert main(["stop", "--metadata", str(tmp_path), "--mode", "after-batch", "--wait"]) == 0
        wait_until(lambda: bool(heard), "the request", 5)
    assert [one.stop for one in heard] == [StopMode.AFTER_BATCH]


def test_who_waits_too_long_is_told_that_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_status(tmp_path, counts="frozen")
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    assert main(["drain", "--metadata", str(tmp_path), "--wait", "--timeout", "100ms"]) == 4
    assert "it goes on" in capsys.readouterr().err
    assert 0 < max(slept) <= 0.1, "no longer than --timeout"
    assert len(asked(tmp_path)) == 1


@pytest.mark.parametrize("options", [[], ["--wait"], ["--wait", "--query", "counts"]])
def test_of_an_ended_application_that_was_drained_is_shown_how_that_went(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_status(tmp_path, ended=1_795_000_000_000, counts="drained", totals="drained")
    assert main(["drain", "--metadata", str(tmp_path), *options]) == 0
    shown = capsys.readouterr().out
    assert "nothing is left to do: app-1 ENDED at 2026-11-18 11:06:40 UTC" in shown
    assert "counts: drained at batch 7" in shown and asked(tmp_path) == []
    assert main(["drain", "--metadata", str(tmp_path), *options, "--json"]) == 0
    assert {row["phase"] for row in json.loads(capsys.readouterr().out)["drains"]} == {"drained"}


@pytest.mark.parametrize(
    ("options", "drains"),
    [
        ([], {"counts": "drained"}),
        ([], {"counts": "drained", "totals": "stopped"}),
        (["--query", "totals"], {"counts": "drained"}),
        (["--query", "other"], {"counts": "drained", "totals": "drained"}),
        ([], {}),
    ],
)
def test_what_was_not_drained_when_the_application_ended_is_a_failure(
    options: list[str], drains: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_status(tmp_path, 1_795_000_000_000, **drains)
    assert main(["drain", "--metadata", str(tmp_path), "--wait", *options]) == 1
    assert "app-1 ENDED at 2026-11-18 11:06:40 UTC" in capsys.readouterr().err and asked(tmp_path) == []


def test_who_waits_hears_at_once_that_the_application_has_ended_before_it_was_drained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_status(tmp_path)

    def end() -> None:
        wait_until(lambda: bool(asked(tmp_path)), "the request", 10)
        write_status(tmp_path, ended=1_795_000_000_000, counts="drained")

    thread = threading.Thread(target=end)
    thread.start()
    assert main(["drain", "--metadata", str(tmp_path), "--wait", "--timeout", "30s"]) == 1
    thread.join()
    assert "app-1 ENDED at" in capsys.readouterr().err
