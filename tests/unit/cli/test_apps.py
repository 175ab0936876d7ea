"""`mooring apps`, and how `--checkpoint` finds the records."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mooring.checkpoint.lease import Lease
from mooring.cli.main import main
from tests.unit.checkpoint.made import Made
from tests.unit.cli import records

NOW_MS = time.time_ns() // 1_000_000
HOUR_MS = 3_600_000


def application(place: Path, id: str, **more: Any) -> str:
    record = {**records.status(records.job_model()), "application": id, **more}
    return records.write(place, record=record)


def query(id: str, name: str) -> dict[str, Any]:
    return {"id": id, "name": name, "batch": 7, "checkpoint": f"file:/ck/{name}", "state": "running"}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """The checkpoint of query-1, and beside it the records of three applications, of which none names that query."""
    made = Made(tmp_path / "ck" / "clicks")
    beside = tmp_path / "ck" / "_mooring"
    application(beside / "clicks", "app-1", name="Clicks!", since=NOW_MS - HOUR_MS, queries=[query("q", "clicks")])
    application(beside / "orders", "app-2", at=NOW_MS - HOUR_MS, ended=NOW_MS - HOUR_MS)
    application(beside / "lost-2", "app-3", at=NOW_MS - 2 * HOUR_MS, **{"ended-queries": [query("r", "early")]})
    return made


def listed(place: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["apps", str(place), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("place", ["", "_mooring", "clicks"])
def test_all_applications_at_a_place_are_listed_whatever_their_directories_are_called(
    place: str, made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    above = made.directory.parent
    found = listed(above / place, capsys)
    assert [(one["name"], one["application"], one["life"]) for one in found] == [
        ("Clicks!", "app-1", "alive"),
        ("orders", "app-2", "ended"),
        ("lost-2", "app-3", "silent"),
    ]
    assert found[0]["since"] == NOW_MS - HOUR_MS and found[1]["ended"] == NOW_MS - HOUR_MS
    assert found[0]["queries"] == ["clicks"] and found[2]["ended-queries"] == ["early"]
    assert [Path(one["place"]).name for one in found] == ["clicks", "orders", "lost-2"]


def test_a_second_living_application_of_a_name_is_found_by_its_place_and_by_its_checkpoint(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    second = made.directory.parent / "_mooring" / "clicks" / "application-2"
    application(second, "app-9", name="Clicks!", since=NOW_MS, queries=[query("query-1", "clicks")])
    assert "app-9" in [one["application"] for one in listed(made.directory.parent, capsys)]
    assert main(["status", "--checkpoint", str(made.directory), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["application"] == "app-9"


def test_people_see_a_row_for_each(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apps", str(made.directory.parent)]) == 0
    heading, first, second, third = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["name", "application", "since"]
    assert first.startswith("Clicks!") and "alive" in first and first.endswith("_mooring/clicks")
    assert "ENDED at 20" in second and "SILENT" in third and "early (ended)" in third


def test_one_place_is_one_application(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert [one["application"] for one in listed(made.directory.parent / "_mooring" / "orders", capsys)] == ["app-2"]


def test_one_that_is_damaged_does_not_hide_the_others(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    (made.directory.parent / "_mooring" / "orders" / "k-status.v1").write_bytes(b"mooring-metadata/2 ?")
    found = listed(made.directory.parent, capsys)
    assert [one["life"] for one in found] == ["alive", "silent", None]
    assert "a later Mooring wrote it, in format 2" in found[2]["fault"]


def status_by(made: Made, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["status", "--checkpoint", str(made.directory), "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["application"])


@pytest.mark.parametrize("key", ["queries", "ended-queries", "drains"])
def test_a_checkpoint_leads_to_the_application_whose_status_names_its_query(
    key: str, made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {**query("query-1", "clicks"), "query": "clicks", "phase": "drained", "state-rows-flushed": 0}
    application(made.directory.parent / "_mooring" / "orders", "app-2", **{key: [{**row, "state-rows-left": 0}]})
    assert status_by(made, capsys) == "app-2"


def test_a_checkpoint_leads_to_the_application_that_works_on_it(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    application(made.directory.parent / "_mooring" / "orders", "app-2", queries=[query("query-1", "clicks")])
    made.write("_mooring/in-use.json", Lease("app-3", NOW_MS).as_json().decode())
    assert status_by(made, capsys) == "app-3"


def test_of_two_that_ran_the_query_the_one_heard_of_last_is_meant(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, at_ms in (("orders", NOW_MS - HOUR_MS), ("lost-2", NOW_MS - 2 * HOUR_MS)):
        place = made.directory.parent / "_mooring" / name
        application(place, f"app of {name}", at=at_ms, queries=[query("query-1", "clicks")])
    assert status_by(made, capsys) == "app of orders"


def test_where_nothing_tells_whose_query_it_is_the_stores_are_named(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--checkpoint", str(made.directory)]) == 2
    said = capsys.readouterr().err
    assert all(f"--metadata {made.directory.parent}/_mooring/{name}" in said for name in ("clicks", "orders", "lost-2"))


def test_the_only_store_there_is_meant_also_the_shared_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(tmp_path / "ck" / "clicks")
    assert main(["status", "--checkpoint", str(made.directory)]) == 1
    assert f"there are no records of an application in {tmp_path}/ck/_mooring" in capsys.readouterr().err
    application(tmp_path / "ck" / "_mooring", "app-8")
    assert status_by(made, capsys) == "app-8"


@pytest.mark.parametrize("command", [["plan"], ["plan", "--add-host", "10.0.0.9"]])
def test_a_plan_finds_the_records_by_a_checkpoint_without_a_catalogue(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOORING_METADATA", raising=False)
    made = Made(tmp_path / "day=1" / "clicks")
    application(tmp_path / "day=1" / "_mooring" / "a", "app-8")
    assert main([*command, "--checkpoint", str(made.directory)]) == 0


def test_two_names_for_the_records_are_one_too_many(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["--checkpoint", str(made.directory), "--metadata", str(made.directory.parent)]
    assert main(["status", *both]) == 2
    assert "--metadata and --checkpoint: expected one of them" in capsys.readouterr().err
