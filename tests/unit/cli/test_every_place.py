"""Every command times every way in which its place can be wrong: exit code, a few lines that name it, no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from mooring.cli.machine import doctor
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


class Wrong(NamedTuple):
    """What is wrong with a place, what makes it so, the exit code, and what the message says besides the place."""

    what: str
    make: Callable[[Path], str]
    code: int
    words: tuple[str, ...]


def for_each(table: Sequence[Wrong]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("wrong", table, ids=[wrong.what for wrong in table])


STORES = [
    Wrong("missing", missing, 1, ("does not exist; nearest: {room}/records", "expected the directory")),
    Wrong("file", file, 3, ("it is a file", "expected the directory")),
    Wrong("empty", empty, 1, ("empty directory", "expected the directory")),
    Wrong("closed", closed, 3, ("may not read {room}/closed", "run this as its owner")),
    Wrong("inside of a closed one", inside_of_closed, 3, ("may not read {room}/closed", "run this as its owner")),
    Wrong("a checkpoint", checkpoint, 1, ("it is the checkpoint of a query: say --checkpoint",)),
    Wrong("later format", later_format, 1, ("a later Mooring wrote",)),
    Wrong("later envelope", later_envelope, 1, ("a later Mooring wrote it, in format 2",)),
    Wrong("half-written", half_written, 1, ("damaged",)),
    Wrong("cut off", cut_off, 1, ("damaged",)),
    Wrong(
        "unknown scheme",
        text("gopher://h/x"),
        2,
        ("there is no store gopher:", "expected a directory, zk://… or kafka://…"),
    ),
    Wrong("misspelt scheme", text("kafak://h:1/t"), 2, ("there is no store kafak:", "nearest: kafka")),
    Wrong("object store", text("s3a://bucket/x"), 2, ("set spark.mooring.metadata to a directory that is mounted",)),
    Wrong("zookeeper away", unreachable("zk"), 3, ()),
    Wrong("kafka away", unreachable("kafka"), 3, ()),
]


CHECKPOINTS = [
    Wrong("missing", missing, 2, ("does not exist; nearest: {room}/records", "expected the checkpoint")),
    Wrong("file", file, 2, ("it is a file", "expected the checkpoint")),
    Wrong("empty", empty, 2, ("empty directory", "expected the checkpoint")),
    Wrong("closed", closed, 1, ("may not read {room}/closed",)),
    Wrong("inside of a closed one", inside_of_closed, 1, ("may not read {room}/closed",)),
    Wrong("above it", above_a_checkpoint, 2, ("checkpoints in it: {room}/ck/clicks",)),
    Wrong("a store", store, 2, ("it holds Mooring's records", "expected the checkpoint")),
    Wrong("unknown scheme", text("gopher://h/x"), 2, ("a directory that is mounted here, not one in gopher:",)),
    Wrong("misspelt scheme", text("fiel:/x"), 2, ("not one in fiel:", "nearest: file")),
    Wrong("object store", text("s3a://bucket/x"), 2, ("not one in s3a:",)),
    Wrong("a server", text("zk://h:1/x"), 2, ("not one in zk:",)),
    Wrong("no address at all", text("http://[x"), 2, ("expected a directory that is mounted here",)),
]


LOCAL_STORES = [
    Wrong("missing", missing, 2, ("does not exist; nearest: {room}/records", "spark.mooring.local.store.dir")),
    Wrong("file", file, 2, ("it is a file", "spark.mooring.local.store.dir")),
    Wrong("closed", closed, 1, ("may not read {room}/closed",)),
    Wrong("a checkpoint", checkpoint, 2, ("it is the checkpoint of a query",)),
    Wrong("a store", store, 2, ("it holds Mooring's records",)),
    Wrong("object store", text("s3a://bucket/x"), 2, ("not one in s3a:",)),
]


@for_each(STORES)
@pytest.mark.parametrize("command", OF_STORES)
def test_a_store_that_is_not_as_it_should_be(
    command: str,
    wrong: Wrong,
    room: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = wrong.make(room)
    options = next((lines for scheme, lines in NOT_LISTENING.items() if place.startswith(scheme)), [])
    (room / "conf").write_text("\n".join(options))
    named = [place] if command == "apps" else ["--metadata", place]
    arguments = [command, *OF_STORES[command], *named, "--metadata-conf", str(room / "conf")]
    words = wrong.words
    if command == "apps" and wrong.what == "a checkpoint":  # it looks beside it
        words = ("is a checkpoint, and there are no records in {room}/ck/_mooring",)
    refused(arguments, place, wrong.code, words, room, capsys)


@for_each(CHECKPOINTS)
@pytest.mark.parametrize("command", OF_CHECKPOINTS)
def test_a_checkpoint_that_is_not_as_it_should_be(
    command: str,
    wrong: Wrong,
    room: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MOORING_METADATA", raising=False)
    place = wrong.make(room)
    arguments = [argument.format(place) for argument in OF_CHECKPOINTS[command]]
    refused(arguments, place, wrong.code, wrong.words, room, capsys)


@for_each(STORES)
def test_the_doctor_finds_what_is_wrong_with_a_store(
    wrong: Wrong,
    room: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "of_this_machine", lambda local_store: [])
    place = wrong.make(room)
    options = next((lines for scheme, lines in NOT_LISTENING.items() if place.startswith(scheme)), [])
    (room / "conf").write_text("\n".join(options))
    arguments = ["doctor", "--json", "--metadata", place, "--metadata-conf", str(room / "conf")]
    with as_another_user(is_wanted=(room / "closed").exists()):
        assert main(arguments) == 1
    shown = capsys.readouterr()
    (finding,) = json.loads(shown.out)["findings"]
    assert finding["verdict"] == "wrong"
    assert all(word.format(room=room) in finding["message"] for word in wrong.words)
    assert len(shown.err.splitlines()) <= 1


@for_each(LOCAL_STORES)
def test_a_local_store_that_is_not_as_it_should_be(
    wrong: Wrong,
    room: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = wrong.make(room)
    refused(["gc", "--local-store", place], place, wrong.code, wrong.words, room, capsys)


def test_every_command_that_reads_a_place_is_in_the_table() -> None:
    known = {*OF_STORES, *(command.split()[0] for command in OF_CHECKPOINTS), "gc"}
    without_a_place = {"demo", "conf", "jar", "states", "help", "completion"}
    known.add("doctor")  # above: what is wrong with a place is what it finds
    assert {command.NAME for command in COMMANDS} == known | without_a_place
