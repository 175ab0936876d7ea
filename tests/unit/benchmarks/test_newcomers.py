"""When a host that comes up counts as one that works."""

from __future__ import annotations

from pathlib import Path

from benchmarks.newcomers import FirstTask


def log_of(directory: Path, executor: str) -> Path:
    (directory / executor).mkdir(parents=True)
    return directory / executor / "stderr"


def test_the_first_task_is_seen_though_its_line_is_read_in_two_halves(tmp_path: Path) -> None:
    first = FirstTask(tmp_path)
    assert not first.has_come()
    log = log_of(tmp_path, "3")
    log.write_bytes(b"starts \xe2\x82")
    assert not first.has_come()
    with log.open("ab") as file:
        file.write(b"\nGot assi")
    assert not first.has_come()
    with log.open("ab") as file:
        file.write(b"gned task 7\n")
    assert first.has_come()


def test_executors_that_were_there_before_do_not_count(tmp_path: Path) -> None:
    log_of(tmp_path, "0").write_text("Got assigned task 1\n")
    assert not FirstTask(tmp_path).has_come()
