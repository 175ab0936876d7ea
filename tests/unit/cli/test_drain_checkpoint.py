"""`mooring drain --checkpoint`: a note for the next start of a query that does not run."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mooring.checkpoint.lease import Lease
from mooring.cli.main import main


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of a query that has committed twelve batches."""
    directory = tmp_path / "counts"
    for name in ("offsets", "commits"):
        (directory / name).mkdir(parents=True)
        for batch in range(12):
            (directory / name / str(batch)).touch()
    (directory / "metadata").touch()
    return directory


def mark_drained(checkpoint: Path, batch: int) -> None:
    (checkpoint / "_mooring").mkdir()
    mark = {"batch": batch, "state-rows-flushed": 40, "state-rows-left": 0}
    (checkpoint / "_mooring" / "drained.json").write_text(json.dumps(mark))


def noted(checkpoint: Path) -> bool:
    return (checkpoint / "_mooring" / "to-drain.json").exists()


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}"])
def test_a_note_is_left_for_the_next_start(spelling: str, checkpoint: Path) -> None:
    assert main(["drain", "--checkpoint", spelling.format(checkpoint)]) == 0
    assert noted(checkpoint)


def test_the_note_is_open_to_those_to_whom_the_checkpoint_is(checkpoint: Path) -> None:
    checkpoint.chmod(0o755)
    assert main(["drain", "--checkpoint", str(checkpoint)]) == 0
    assert (checkpoint / "_mooring").stat().st_mode & 0o777 == 0o755
    assert (checkpoint / "_mooring" / "to-drain.json").stat().st_mode & 0o777 == 0o644


def test_one_that_is_drained_is_left_as_it_is(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark_drained(checkpoint, 11)
    assert main(["drain", "--checkpoint", str(checkpoint), "--wait", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drained"]["batch"] == 11
    assert not noted(checkpoint)


def test_one_that_went_on_after_a_drain_can_be_drained_again(checkpoint: Path) -> None:
    mark_drained(checkpoint, 10)
    assert main(["drain", "--checkpoint", str(checkpoint)]) == 0
    assert noted(checkpoint)


def test_who_drains_one_that_runs_hears_how_to_drain_it_now(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkpoint / "_mooring").mkdir()
    lease = Lease("app-7", time.time_ns() // 1_000_000)
    (checkpoint / "_mooring" / "in-use.json").write_bytes(lease.as_json())
    assert main(["drain", "--checkpoint", str(checkpoint)]) == 0
    assert "it runs now, in app-7: mooring drain --metadata PLACE" in capsys.readouterr().out and noted(checkpoint)


def test_who_waits_too_long_is_told_and_the_note_stays(
    checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    assert main(["drain", "--checkpoint", str(checkpoint), "--wait", "--timeout", "100ms"]) == 4
    assert "the note stays" in capsys.readouterr().err and noted(checkpoint)
    assert 0 < max(slept) <= 0.1, "no longer than --timeout"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--checkpoint", "{}/cuonts"], "nearest: {}/counts"),
        (["--checkpoint", "{}"], "metadata, offsets, commits not there"),
        (["--checkpoint", "s3a://bucket/counts"], "spark.mooring.drain.on.start=true"),
        (["--checkpoint", "{}/counts", "--query", "counts"], "without --query"),
        (["--checkpoint", "{}/counts", "--deployment-id", "app-1"], "without --deployment-id"),
    ],
)
def test_what_makes_no_sense_is_refused(
    options: list[str], said: str, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drain", *(option.format(checkpoint.parent) for option in options)]) == 2
    assert said.format(checkpoint.parent) in capsys.readouterr().err
    assert not (checkpoint / "_mooring").exists()


def test_where_no_note_can_be_left_that_is_said(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkpoint / "_mooring" / "to-drain.json").mkdir(parents=True)
    assert main(["drain", "--checkpoint", str(checkpoint)]) == 1
    assert "nothing was noted" in capsys.readouterr().err


def test_a_mark_that_can_not_be_read_is_not_overwritten(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark_drained(checkpoint, 11)
    (checkpoint / "_mooring" / "drained.json").write_text('{"batch": 1')
    assert main(["drain", "--checkpoint", str(checkpoint)]) == 1
    assert "drained.json can not be read" in capsys.readouterr().err and not noted(checkpoint)
