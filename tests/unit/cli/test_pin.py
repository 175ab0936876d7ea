from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.checkpoint import pins
from mooring.cli.main import main
from tests.unit.checkpoint.made import Made


def pin(made: Made, *arguments: str) -> int:
    return main(["pin", str(made.directory), *arguments])


def test_a_pinned_batch_can_be_gone_back_to_when_the_checkpoint_has_it_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path / "it")
    assert pin(made, "--batch", "3") == 0
    assert "batch 3 is pinned" in capsys.readouterr().out
    for version in range(1, 6):
        for partition in range(made.partitions):
            for kind in ("changelog", "zip"):
                made.file(partition, version, kind).unlink(missing_ok=True)
    for log in ("commits", "offsets"):
        for batch in range(4):
            (made.directory / log / str(batch)).unlink()
    assert main(["restore", str(made.directory), "--to-batch", "3"]) == 2
    assert "expected a committed batch that is kept: 4 to 5, or with --into one that is pinned: 3" in (
        capsys.readouterr().err
    )
    into = tmp_path / "again"
    assert main(["restore", str(made.directory), "--to-batch", "3", "--into", str(into), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to-batch"] == 3
    assert main(["history", str(into)]) == 0
    assert "can go back to: 3" in capsys.readouterr().out
    assert main(["history", str(made.directory)]) == 0
    assert "pinned, for --into: 3" in capsys.readouterr().out


def test_a_pin_is_released_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(tmp_path / "it")
    before = made.content()
    assert pin(made, "--batch", "3") == 0 and pins.pinned(made.directory) == (3,)
    assert pin(made, "--batch", "3") == 1, "it is there already"
    assert pin(made, "--batch", "3", "--release") == 0
    assert made.content() == before
    assert pin(made, "--batch", "3", "--release") == 2
    assert "--batch 3: expected a batch that is pinned: none" in capsys.readouterr().err


def test_a_batch_that_is_not_whole_is_not_pinned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Made(tmp_path / "it")
    made.file(0, 2, "changelog").unlink()
    assert pin(made, "--batch", "2") == 1
    assert "can not go back to batch 2" in capsys.readouterr().err
    assert pin(made, "--batch", "9") == 2
    assert "expected a committed batch that is kept: 0 to 5" in capsys.readouterr().err
    assert pins.pinned(made.directory) == ()
