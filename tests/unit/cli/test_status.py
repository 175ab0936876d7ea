"""`mooring status`: the record, or why there is none."""

import json
import os

import pytest

from mooring.cli.main import main
from mooring.cli.status import as_text
from mooring.metadata import FileMetadataStore
from tests.unit.cli import records


def test_json_is_the_record_as_the_agent_wrote_it(tmp_path, capsys):
    model = records.job_model()
    written = records.status(model)
    place = records.write(tmp_path, model, written)
    assert main(["status", "--json", "--metadata", place]) == 0
    assert json.loads(capsys.readouterr().out) == {**written, "life": "alive"}


def test_people_see_hosts_queries_tasks_and_counters(tmp_path, capsys):
    assert main(["status", "--metadata", records.write(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for word in ("app-20261121-0001", "version 12", "3 hosts", "9 tasks", "10.0.0.3", "clicks/Partition 8", "30.0 MB"):
        assert word in shown
    assert "file:/checkpoints/clicks" in shown and "batches 42" in shown


def test_an_old_record_is_not_taken_for_the_present():
    record = records.status(records.job_model())
    shown = as_text(record, record["at"] / 1000 + 3)
    assert "as of 3 s ago" in shown and "running" in shown
    record["at"] = 1_795_000_000_000
    shown = as_text(record, record["at"] / 1000 + 7200)
    assert "SILENT: last heard of at 2026-11-18 11:06:40 UTC (2 hours ago); it may have ended" in shown
    assert "running" not in shown


def test_an_application_that_has_ended_is_shown_as_that_with_when(tmp_path, capsys):
    record = records.status(records.job_model())
    over = {**record["queries"][0], "name": "orders", "state": "ended"}
    record |= {"ended": 1_795_000_000_000, "at": 1_795_000_000_000, "ended-queries": [over]}
    record["queries"][0]["state"] = "ended"
    place = records.write(tmp_path, record=record)
    assert main(["status", "--metadata", place]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("app-20261121-0001 ENDED at 2026-11-18 11:06:40 UTC"), "before all that is of the past"
    assert "orders" in shown and "running" not in shown
    assert main(["status", "--metadata", place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {**record, "life": "ended"}


def test_headings_are_the_names_of_the_json():
    record = records.status(records.job_model())
    request = {"uuid": "u", "processor": "1", "destination": "h", "status": "ACCEPTED", "message": "m"}
    drain = {"query": "q", "id": "i", "phase": "frozen", "batch": 1, "state-rows-flushed": 0, "state-rows-left": 3}
    restore = {"query": "q", "executor": "1", "done": 2, "stores": 3, "bytes": 10, "milliseconds": 4}
    record |= {"requests": [request], "drains": [drain], "restores": [restore]}
    lines = [line.split() for line in as_text(record, 0).splitlines()]
    for rows, first, others in (
        ("processors", "location", ["executor", "processor", "state", "tasks", "standby-tasks"]),
        ("queries", "query", ["state", "batch", "checkpoint"]),
        ("tasks", "task", ["mode", "processor", "location", "local-bytes", "lag-versions", "lag-ms"]),
        ("requests", "uuid", ["processor", "destination", "status", "message"]),
        ("drains", "query", ["phase", "batch", "state-rows-flushed", "state-rows-left", "reason"]),
        ("restores", "query", ["executor", "done", "of", "stores", "bytes", "milliseconds"]),
    ):
        assert any(line[: len(others) + 1] == [first, *others] for line in lines), rows
        names_of_rows = {"processor", "of", "lag-ms", "reason"}  # a row's own id or name, and what a row may lack
        assert set(others) - names_of_rows <= record[rows][0].keys()


def test_an_executor_without_a_processor_is_spare():
    record = records.status(records.job_model())
    record["hosts"][0]["executors"].append("77")
    assert any("77" in line and "spare" in line for line in as_text(record, 0).splitlines())


def test_a_processor_without_an_executor_shows_a_dash():
    record = records.status(records.job_model())
    record["processors"][1] |= {"executor": None, "state": "unbound"}
    (line,) = (line for line in as_text(record, 0).splitlines() if "unbound" in line)
    assert line.split()[:3] == ["10.0.0.3", "-", "1"]


def test_no_record_is_said_clearly(tmp_path, capsys):
    (tmp_path / "records").mkdir()
    assert main(["status", "--metadata", str(tmp_path / "records")]) == 1
    said = capsys.readouterr().err
    assert "there is no status in" in said and str(tmp_path / "records") in said


def test_a_place_beside_or_above_the_records_is_met_with_the_right_one(tmp_path, capsys):
    right = tmp_path / "checkpoints" / "_mooring" / "clicks"
    records.write(right)
    for wrong in (right.parent, right.parent.parent, right.with_name("click")):
        assert main(["status", "--metadata", str(wrong)]) == 1
        assert str(right) in capsys.readouterr().err


@pytest.mark.parametrize("harm", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:-1] + b"?"])
def test_a_damaged_record_is_called_damaged(harm, tmp_path, capsys):
    place = records.write(tmp_path)
    file = tmp_path / "k-status.v1"
    file.write_bytes(harm(file.read_bytes()))
    assert main(["status", "--metadata", place]) == 1
    assert "damaged" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff"])
def test_a_record_that_is_no_status_is_called_damaged(content, tmp_path, capsys):
    with FileMetadataStore(str(tmp_path)) as store:
        store.put("status", content)
    for options in ([], ["--json"]):
        assert main(["status", "--metadata", str(tmp_path), *options]) == 1
        assert "damaged" in capsys.readouterr().err


def test_how_far_a_drain_is_is_shown(tmp_path, capsys):
    drain = {"query": "clicks", "id": "q", "phase": "flushed", "batch": 42, "state-rows-flushed": 12}
    record = {**records.status(records.job_model()), "drains": [{**drain, "state-rows-left": 3}]}
    assert main(["status", "--metadata", records.write(tmp_path, record=record)]) == 0
    assert ["clicks", "flushed", "42", "12", "3", "-"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


def test_a_status_of_another_form_is_called_damaged(tmp_path, capsys):
    place = records.write(tmp_path, record={"application": "x", "version": 1})
    assert main(["status", "--metadata", place]) == 1
    assert "damaged" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_out_of_reach(tmp_path, capsys):
    place = records.write(tmp_path / "records")
    (tmp_path / "records").chmod(0)
    assert main(["status", "--metadata", place]) == 3
    (tmp_path / "records").chmod(0o700)


def test_a_file_in_the_place_of_the_directory_is_out_of_reach(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["status", "--metadata", str(tmp_path / "file")]) == 3
    assert str(tmp_path / "file") in capsys.readouterr().err
