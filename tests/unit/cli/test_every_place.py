"""Every command times every way in which its place can be wrong: exit code, a few lines that name it, no traceback."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.cli import doctor
from mooring.cli.exits import Exit
from mooring.cli.main import COMMANDS, main
from mooring.metadata import FileMetadataStore
from mooring.testing.probes import free_port
from tests.unit.checkpoint.made import Made
from tests.unit.cli import records

NOBODY = 65534
UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
DAY_MS = 86_400_000
NOW_MS = time.time_ns() // 1_000_000

# Commands that go to a store, behind the option that names it; and whether they ask the application for something.
ASKING = {
    "place-container": ["--processor-id", "1", "--destination-host", "10.0.0.3"],
    "drain-host": ["10.0.0.3"],
    "open-host": ["10.0.0.3"],
    "control-standby": ["--processor-id", "1", "stop"],
    "drain": [],
    "stop": ["--mode", "after-batch"],
}
READING = {"status": [], "plan": [], "container-status": ["--uuid", UUID], "apps": []}
OF_STORES = {**ASKING, **READING}
OF_CHECKPOINTS: dict[str, Sequence[str]] = {
    "history": ["history", "{}"],
    "verify": ["verify", "{}"],
    "restore": ["restore", "{}", "--to-batch", "1"],
    "pin": ["pin", "{}", "--batch", "1"],
    "export": ["export", "{}", "--to", "/nowhere/table"],
    "drain": ["drain", "--checkpoint", "{}"],
    **{
        f"{name} by checkpoint": [name, "--checkpoint", "{}", *more]
        for name, more in OF_STORES.items()
        if name not in ("drain", "apps")
    },
}


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory that every user may enter, as those of pytest are closed to others."""
    directory = Path(tempfile.mkdtemp(prefix="mooring-places-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@contextmanager
def as_another_user(is_wanted: bool = True) -> Iterator[None]:
    """Root may read everything: drop the right to for a moment. Where modules lie may be closed then."""
    if os.geteuid() != 0 or not is_wanted:
        yield
        return
    "".encode("cp437")  # as zipfile does
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def copied(place: Path, name: str, make: Callable[[Path], object]) -> str:
    """What `make` makes of a directory, made once, as each record is synced to the disk."""
    if name not in _MADE:
        _MADE[name] = Path(tempfile.mkdtemp(prefix="mooring-made-")) / name
        atexit.register(shutil.rmtree, _MADE[name].parent)
        make(_MADE[name])
    shutil.copytree(_MADE[name], place)
    return str(place)


_MADE: dict[str, Path] = {}


def written(place: Path, **more: int) -> str:
    """The records of an application; `more` goes into its status."""
    record = {**records.status(records.job_model()), **more}
    return copied(place, f"records {sorted(more)}", lambda at: records.write(at, record=record))


def missing(room: Path) -> str:
    (room / "records").mkdir()
    return str(room / "recordz")


def file(room: Path) -> str:
    (room / "file").write_text("{}")
    return str(room / "file")


def empty(room: Path) -> str:
    (room / "empty").mkdir()
    return str(room / "empty")


def closed(room: Path) -> str:
    place = written(room / "closed")
    (room / "closed").chmod(0)
    return place


def inside_of_closed(room: Path) -> str:
    return f"{closed(room)}/below"


def checkpoint(room: Path) -> str:
    return copied(room / "ck" / "clicks", "clicks", Made)


def above_a_checkpoint(room: Path) -> str:
    return str(Path(checkpoint(room)).parent)


def store(room: Path) -> str:
    return written(room / "store")


def later_format(room: Path) -> str:
    (room / "later").mkdir()
    (room / "later" / "k-status.v2").write_text("?")
    return str(room / "later")


def later_envelope(room: Path) -> str:
    place = store(room)
    for record in Path(place).iterdir():
        record.write_bytes(record.read_bytes().replace(b"mooring-metadata/1 ", b"mooring-metadata/2 ", 1))
    return place


def half_written(room: Path) -> str:
    def make(place: Path) -> None:
        written(place)
        with FileMetadataStore(str(place)) as opened:
            for key, value in opened.all().items():
                opened.put(key, value[: len(value) // 2])

    return copied(room / "store", "half-written", make)


def cut_off(room: Path) -> str:
    place = store(room)
    for record in Path(place).iterdir():
        record.write_bytes(record.read_bytes()[:-3])
    return place


def ended(room: Path) -> str:
    return written(room / "ended", ended=NOW_MS)


def silent(room: Path) -> str:
    return written(room / "silent", at=NOW_MS - DAY_MS)


def unreachable(kind: str) -> Callable[[Path], str]:
    def make(room: Path) -> str:
        return {"zk": f"zk://127.0.0.1:{free_port()}/mooring", "kafka": f"kafka://127.0.0.1:{free_port()}/mooring"}[
            kind
        ]

    return make


def text(place: str) -> Callable[[Path], str]:
    return lambda room: place


NOT_LISTENING = {
    "zk://": ["spark.mooring.metadata.retry.deadline 100ms", "spark.mooring.metadata.timeout 300ms"],
    "kafka://": ["spark.mooring.metadata.timeout 100ms"],
}

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


def refused(
    arguments: Sequence[str],
    place: str,
    code: int,
    words: Sequence[str],
    room: Path,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """Run the command; see that it ends with the code, and says why in three lines at most."""
    before = records.files_of(room) if os.access(room, os.R_OK) else None
    capsys.readouterr()
    with as_another_user(is_wanted=(room / "closed").exists()):
        assert main(list(arguments)) == code
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert shown.out == "" and 1 <= len(lines) <= 3 and lines[0].startswith("mooring: "), shown
    assert "Traceback" not in shown.err and "Errno" not in shown.err
    assert (place.split("/")[2] if place.startswith(tuple(NOT_LISTENING)) else place) in shown.err
    for word in words:
        assert word.format(room=room) in shown.err
    assert before is None or records.files_of(room) == before, "nothing was to be written"
    return shown.err


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


@pytest.mark.parametrize("command", ASKING)
@pytest.mark.parametrize(
    ("make", "words"), [(ended, ("ENDED at", "UTC")), (silent, ("SILENT: last heard of at", "--deployment-id"))]
)
def test_an_application_that_is_gone_is_asked_for_nothing(
    command: str, make: Callable[[Path], str], words: Sequence[str], room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make(room)
    arguments = [command, *ASKING[command], "--metadata", place]
    refused(arguments, "app-20261121-0001", 1, (*words, "nobody would act on this"), room, capsys)


@pytest.mark.parametrize("command", ASKING)
def test_who_names_a_silent_application_may_ask_it_and_one_that_has_ended_not(command: str, room: Path) -> None:
    more = [*ASKING[command], "--deployment-id", "app-20261121-0001"]
    assert main([command, *more, "--metadata", silent(room)]) == 0
    assert main([command, *more, "--metadata", ended(room)]) == 1


def test_every_command_that_reads_a_place_is_in_the_table() -> None:
    known = {*OF_STORES, *(command.split()[0] for command in OF_CHECKPOINTS), "gc"}
    without_a_place = {"demo", "conf", "jar", "states", "help", "completion"}
    known.add("doctor")  # above: what is wrong with a place is what it finds
    assert {command.NAME for command in COMMANDS} == known | without_a_place


def test_a_status_of_an_ended_application_is_shown_with_the_time(
    room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--metadata", ended(room)]) == 0
    assert "ENDED at 20" in capsys.readouterr().out
    assert main(["status", "--json", "--metadata", silent(room)]) == 0
    assert json.loads(capsys.readouterr().out)["life"] == "silent"


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
