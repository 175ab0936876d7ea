from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from mooring.checkpoint.lease import Lease
from mooring.cli.main import main
from tests.unit.checkpoint.made import Made, begun_ms


def test_history_shows_each_batch_and_where_the_query_can_go_back_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path / "it")
    made.file(1, 2, "changelog").unlink()
    assert main(["history", str(made.directory)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:1] == ["batch"] and [line.split()[0] for line in lines[1:7]] == list("012345")
    assert "1970-01-01 00:00:06.000" in lines[6] and '{"logOffset":5}' in lines[6]
    assert lines[7] == "can go back to: 0, 3 to 5"
    assert main(["history", str(made.directory), "--json"]) == 0
    form = json.loads(capsys.readouterr().out)
    assert form["batches"][3]["keys"] == 20 and form["batches"][1]["obstacles"] and form["query"] == "query-1"


def test_history_has_the_times_of_the_batches_also_in_a_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path / "it")
    shutil.copytree(made.directory, tmp_path / "copy", copy_function=shutil.copyfile)  # with times of its own
    assert main(["history", str(tmp_path / "copy")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "begun-at (UTC)" in lines[0] and "committed" not in lines[0]
    assert "2026-11-18 11:06:40.000" in lines[1] and "2026-11-18 11:07:30.000" in lines[6]
    assert main(["history", str(tmp_path / "copy"), "--json"]) == 0
    assert [one["begun-at"] for one in json.loads(capsys.readouterr().out)["batches"]] == [
        begun_ms(b) for b in range(6)
    ]


def test_history_says_why_a_batch_is_not_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(tmp_path / "it")
    made.file(1, 2, "changelog").unlink()
    assert main(["history", str(made.directory)]) == 0
    assert "not whole: batch 2: operator 0, partition 1: neither" in capsys.readouterr().out


def test_a_dry_run_says_what_would_be_undone_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path / "it")
    before = made.content()
    sink = tmp_path / "out"
    call = ["restore", str(made.directory), "--to-batch", "2", "--new-file-sink", str(sink), "--dry-run"]
    assert main(call) == 0
    shown = capsys.readouterr().out
    assert "would be as of batch 2: undone 3 batches (3 to 5)" in shown and "sinks that remember batches" in shown
    assert f"{sink} would be a directory for a file sink that begins with batch 3" in shown
    assert made.content() == before and not sink.exists()


def test_restored_it_is_as_of_that_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(tmp_path / "it")
    assert main(["restore", str(made.directory), "--to-batch", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["undone"] == [5, 4, 3]
    assert max(made.survey().commits) == 2
    assert main(["restore", str(made.directory), "--to-batch", "2"]) == 0, "and once more there is nothing to do"


@pytest.mark.parametrize("batch", ["6", "-1"])
def test_a_batch_that_was_never_committed_is_bad_usage(
    batch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path / "it")
    assert main(["restore", str(made.directory), f"--to-batch={batch}"]) == 2
    assert f"--to-batch {batch}: expected a committed batch that is kept: 0 to 5" in capsys.readouterr().err


def test_what_is_no_checkpoint_is_named_with_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Made(tmp_path / "clicks")
    for command in (["history"], ["verify"], ["restore", "--to-batch", "1"]):
        assert main([command[0], str(tmp_path / "click"), *command[1:]]) == 2
        said = capsys.readouterr().err
        assert f"{tmp_path}/click does not exist; nearest: {tmp_path}/clicks; expected the checkpoint" in said
    assert main(["history", "s3a://bucket/clicks"]) == 2
    assert "not one in s3a" in capsys.readouterr().err


def test_while_an_application_works_on_it_nothing_is_restored_but_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path / "it")
    now = time.time_ns() // 1_000_000
    made.write("_mooring/in-use.json", Lease("app-7", now).as_json().decode())
    assert main(["restore", str(made.directory), "--to-batch", "2"]) == 1
    assert "the application app-7 works on" in capsys.readouterr().err
    assert main(["restore", str(made.directory), "--to-batch", "2", "--into", str(tmp_path / "beside")]) == 0
    assert main(["restore", str(made.directory), "--to-batch", "2", "--dry-run"]) == 0, "it may be looked at"
    assert main(["history", str(made.directory)]) == 0
    assert "the application app-7 works on it" in capsys.readouterr().out
    made.write("_mooring/in-use.json", Lease("app-7", now - 61_000).as_json().decode())
    assert main(["restore", str(made.directory), "--to-batch", "2"]) == 0, "its note is old: it has died"


def test_a_branch_is_not_made_inside_of_its_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(tmp_path / "it")
    inside = str(made.directory / "branch")
    assert main(["restore", str(made.directory), "--to-batch", "2", "--into", inside]) == 2
    assert f"--into {inside}: expected a place outside" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--into", "beside")], ids=["in place", "into"])
def test_a_directory_for_a_file_sink_is_made_with_it(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Made(tmp_path / "it")
    command = ["restore", str(made.directory), "--to-batch", "2", *options, "--new-file-sink"]
    assert main([*command, "out", "--dry-run"]) == 0 and not (tmp_path / "out").exists()
    assert main([*command, "out"]) == 0
    assert "file sink that begins with batch 3" in capsys.readouterr().out
    log = tmp_path / "out" / "_spark_metadata"
    assert {entry.name: entry.read_text() for entry in log.iterdir()} == {"0": "v1", "1": "v1", "2": "v1"}


def test_a_directory_that_has_something_is_not_taken_for_a_file_sink(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path / "it")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rows.parquet").write_text("rows")
    before = made.content()
    assert main(["restore", str(made.directory), "--to-batch", "2", "--new-file-sink", str(tmp_path / "out")]) == 1
    assert f"{tmp_path}/out is not empty: expected a new directory" in capsys.readouterr().err
    assert made.content() == before
    assert main(["restore", str(made.directory), "--to-batch", "2", "--new-file-sink", "s3a://bucket/out"]) == 2
    (tmp_path / "out" / "rows.parquet").unlink()
    command = ["restore", str(made.directory), "--to-batch", "5", "--new-file-sink", str(tmp_path / "out")]
    assert main(command) == 0, "and where nothing is to be undone"
    assert made.content() == before
