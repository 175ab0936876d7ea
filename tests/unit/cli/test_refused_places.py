"""Wrong places that one command alone takes: a part of a checkpoint, a new checkpoint, a file of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from mooring.cli.exits import Exit
from mooring.cli.main import main
from tests.unit.checkpoint.made import Made
from tests.unit.cli import records
from tests.unit.cli.places import (
    ASKING,
    OF_CHECKPOINTS,
    as_another_user,
    checkpoint,
    closed,
    empty,
    file,
    inside_of_closed,
    missing,
    open_directory,
    refused,
    store,
    text,
)


@pytest.fixture
def room() -> Iterator[Path]:
    with open_directory() as directory:
        yield directory


PARTS = ["metadata", "offsets", "commits", "state", "state/0", "state/0/1", "_mooring"]


DO_WITHOUT = [  # they go on, and the two of them that read state start a JVM
    *((command, "metadata") for command in ("verify", "export", "restore", "pin")),
    *((command, "_mooring") for command in ("verify", "export")),
]


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (command, part)
        for command in ("history", "verify", "restore", "pin", "export")
        for part in PARTS
        if (command, part) not in DO_WITHOUT
    ],
)
def test_a_part_of_a_checkpoint_that_may_not_be_read(
    command: str, part: str, room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Either it goes without, or it says what it may not read."""
    made = Made(room / "clicks")
    (made.directory / "_mooring" / "pins").mkdir(parents=True)
    (made.directory / part).chmod(0)
    arguments = [argument.format(made.directory) for argument in OF_CHECKPOINTS[command]]
    with as_another_user():
        code = main(arguments)
    (made.directory / part).chmod(0o700)
    shown = capsys.readouterr()
    assert code in (0, 1, 2, Exit.NOT_UNDERSTOOD) and "Errno" not in shown.err and len(shown.err.splitlines()) <= 3
    said = shown.err if code else shown.out
    assert f"{made.directory / part}" in said, said


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        (file, 1, ("is there already: expected the path of a checkpoint that is to be made",)),
        (store, 1, ("is there already",)),
        (closed, 1, ("Permission denied",)),
        (inside_of_closed, 1, ("Permission denied",)),
        (text("s3a://bucket/x"), 2, ("not one in s3a:",)),
    ],
)
def test_a_place_where_no_branch_can_be_made(
    make: Callable[[Path], str], code: int, words: Sequence[str], room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make(room)
    arguments = ["restore", str(Made(room / "clicks").directory), "--to-batch", "3", "--into", place]
    refused(arguments, place, code, words, room, capsys)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (missing, ("No such file", "expected a file such as spark-defaults.conf")),
        (empty, ("Is a directory", "expected a file such as spark-defaults.conf")),
        (inside_of_closed, ("Permission denied", "expected a file such as spark-defaults.conf")),
    ],
)
def test_a_file_of_settings_that_can_not_be_read(
    make: Callable[[Path], str], words: Sequence[str], room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make(room)
    refused(["status", "--metadata-conf", place], place, 2, words, room, capsys)


@pytest.mark.parametrize(("make", "code"), [(file, 3), (text("s3a://b/x"), 2), (text("kafak://h/t"), 2), (closed, 3)])
def test_the_demo_looks_at_its_store_before_it_begins(
    make: Callable[[Path], str], code: int, room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make(room)
    refused(["demo", "--metadata", place], place, code, (), room, capsys)


@pytest.mark.parametrize(
    ("word", "said", "not_said"),
    [
        ("version", "nearest: --version", "verify"),
        ("histroy", "nearest: history", ""),
        ("quux", "expected one of", "nearest"),
    ],
)
def test_the_nearest_command_is_one_that_may_be_meant(
    word: str, said: str, not_said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    shown = capsys.readouterr().err
    assert said in shown and (not not_said or f"nearest: {not_said}" not in shown)


@pytest.mark.parametrize("command", [*ASKING, "drain --checkpoint"])
def test_a_timeout_names_its_unit(command: str, room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = command.split()[0]
    named = ["--checkpoint", checkpoint(room)] if "--checkpoint" in command else ["--metadata", store(room)]
    before = records.files_of(room)
    assert main([name, *ASKING[name], *named, "--timeout", "5"]) == 2
    assert "--timeout 5: expected a duration with its unit" in (said := capsys.readouterr().err)
    assert "nearest: 5s" in said and records.files_of(room) == before
