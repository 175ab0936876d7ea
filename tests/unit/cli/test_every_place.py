"""Every command times every way in which its place can be wrong: exit code, a few lines that name it, no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from mooring.cli import doctor
from mooring.cli.main import COMMANDS, main
from tests.unit.cli.places import (
    NOT_LISTENING,
    OF_CHECKPOINTS,
    OF_STORES,
    above_a_checkpoint,
    as_another_user,
    checkpoint,
    closed,
    cut_off,
    empty,
    file,
    half_written,
    inside_of_closed,
    later_envelope,
    later_format,
    missing,
    open_directory,
    refused,
    store,
    text,
    unreachable,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def room() -> Iterator[Path]:
    with open_directory() as directory:
        yield directory


# What is wrong with a place, the exit code, and what the message says besides the place.
STORES: list[tuple[str, Callable[[Path], str], int, tuple[str, ...]]] = [
    ("missing", missing, 1, ("does not exist; nearest: {room}/records", "expected the directory")),
    ("file", file, 3, ("it is a file", "expected the directory")),
    ("empty", empty, 1, ("empty directory", "expected the directory")),
    ("closed", closed, 3, ("may not read {room}/closed", "run this as its owner")),
    ("inside of a closed one", inside_of_closed, 3, ("may not read {room}/closed", "run this as its owner")),
    ("a checkpoint", checkpoint, 1, ("it is the checkpoint of a query: say --checkpoint",)),
    ("later format", later_format, 1, ("a later Mooring wrote",)),
    ("later envelope", later_envelope, 1, ("a later Mooring wrote it, in format 2",)),
    ("half-written", half_written, 1, ("damaged",)),
    ("cut off", cut_off, 1, ("damaged",)),
    (
        "unknown scheme",
        text("gopher://h/x"),
        2,
        ("there is no store gopher:", "expected a directory, zk://… or kafka://…"),
    ),
    ("misspelt scheme", text("kafak://h:1/t"), 2, ("there is no store kafak:", "nearest: kafka")),
    ("object store", text("s3a://bucket/x"), 2, ("set spark.mooring.metadata to a directory that is mounted",)),
    ("zookeeper away", unreachable("zk"), 3, ()),
    ("kafka away", unreachable("kafka"), 3, ()),
]


CHECKPOINTS: list[tuple[str, Callable[[Path], str], int, tuple[str, ...]]] = [
    ("missing", missing, 2, ("does not exist; nearest: {room}/records", "expected the checkpoint")),
    ("file", file, 2, ("it is a file", "expected the checkpoint")),
    ("empty", empty, 2, ("empty directory", "expected the checkpoint")),
    ("closed", closed, 1, ("may not read {room}/closed",)),
    ("inside of a closed one", inside_of_closed, 1, ("may not read {room}/closed",)),
    ("above it", above_a_checkpoint, 2, ("checkpoints in it: {room}/ck/clicks",)),
    ("a store", store, 2, ("it holds Mooring's records", "expected the checkpoint")),
    ("unknown scheme", text("gopher://h/x"), 2, ("expected a directory that is mounted here, not one in gopher:",)),
    ("misspelt scheme", text("fiel:/x"), 2, ("not one in fiel:", "nearest: file")),
    ("object store", text("s3a://bucket/x"), 2, ("not one in s3a:",)),
    ("a server", text("zk://h:1/x"), 2, ("not one in zk:",)),
    ("no address at all", text("http://[x"), 2, ("expected a directory that is mounted here",)),
]


LOCAL_STORES: list[tuple[str, Callable[[Path], str], int, tuple[str, ...]]] = [
    ("missing", missing, 2, ("does not exist; nearest: {room}/records", "spark.mooring.local.store.dir")),
    ("file", file, 2, ("it is a file", "spark.mooring.local.store.dir")),
    ("closed", closed, 1, ("may not read {room}/closed",)),
    ("a checkpoint", checkpoint, 2, ("it is the checkpoint of a query",)),
    ("a store", store, 2, ("it holds Mooring's records",)),
    ("object store", text("s3a://bucket/x"), 2, ("not one in s3a:",)),
]


@pytest.mark.parametrize(("wrong", "make", "code", "words"), STORES, ids=[one[0] for one in STORES])
@pytest.mark.parametrize("command", OF_STORES)
def test_a_store_that_is_not_as_it_should_be(
    command: str,
    wrong: str,
    make: Callable[[Path], str],
    code: int,
    words: Sequence[str],
    room: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = make(room)
    options = next((lines for scheme, lines in NOT_LISTENING.items() if place.startswith(scheme)), [])
    (room / "conf").write_text("\n".join(options))
    named = [place] if command == "apps" else ["--metadata", place]
    arguments = [command, *OF_STORES[command], *named, "--metadata-conf", str(room / "conf")]
    if command == "apps" and wrong == "a checkpoint":  # it looks beside it
        words = ("is a checkpoint, and there are no records in {room}/ck/_mooring",)
    refused(arguments, place, code, words, room, capsys)


@pytest.mark.parametrize(("wrong", "make", "code", "words"), CHECKPOINTS, ids=[one[0] for one in CHECKPOINTS])
@pytest.mark.parametrize("command", OF_CHECKPOINTS)
def test_a_checkpoint_that_is_not_as_it_should_be(
    command: str,
    wrong: str,
    make: Callable[[Path], str],
    code: int,
    words: Sequence[str],
    room: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MOORING_METADATA", raising=False)
    place = make(room)
    arguments = [argument.format(place) for argument in OF_CHECKPOINTS[command]]
    refused(arguments, place, code, words, room, capsys)


@pytest.mark.parametrize(("wrong", "make", "code", "words"), STORES, ids=[one[0] for one in STORES])
def test_the_doctor_finds_what_is_wrong_with_a_store(
    wrong: str,
    make: Callable[[Path], str],
    code: int,
    words: Sequence[str],
    room: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "of_this_machine", lambda local_store: [])
    place = make(room)
    options = next((lines for scheme, lines in NOT_LISTENING.items() if place.startswith(scheme)), [])
    (room / "conf").write_text("\n".join(options))
    arguments = ["doctor", "--json", "--metadata", place, "--metadata-conf", str(room / "conf")]
    with as_another_user(is_wanted=(room / "closed").exists()):
        assert main(arguments) == 1
    shown = capsys.readouterr()
    (finding,) = json.loads(shown.out)["findings"]
    assert finding["verdict"] == "wrong"
    assert all(word.format(room=room) in finding["message"] for word in words) and len(shown.err.splitlines()) <= 1


@pytest.mark.parametrize(("wrong", "make", "code", "words"), LOCAL_STORES, ids=[one[0] for one in LOCAL_STORES])
def test_a_local_store_that_is_not_as_it_should_be(
    wrong: str,
    make: Callable[[Path], str],
    code: int,
    words: Sequence[str],
    room: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = make(room)
    refused(["gc", "--local-store", place], place, code, words, room, capsys)


def test_every_command_that_reads_a_place_is_in_the_table() -> None:
    known = {*OF_STORES, *(command.split()[0] for command in OF_CHECKPOINTS), "gc"}
    without_a_place = {"demo", "conf", "jar", "states", "help", "completion"}
    known.add("doctor")  # above: what is wrong with a place is what it finds
    assert {command.NAME for command in COMMANDS} == known | without_a_place
