"""The commands that take a place, places that are wrong in many ways, and a check that a command refuses one."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.cli.main import main
from mooring.metadata import FileMetadataStore
from mooring.testing.probes import free_port
from tests.unit.checkpoint.made import Made
from tests.unit.cli import records

NOBODY = 65534
UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
DAY_MS = 86_400_000
NOW_MS = time.time_ns() // 1_000_000


# Commands that take a store, with their other arguments. `ASKING` are those that make a request to the application.
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


@contextmanager
def as_another_user(is_wanted: bool = True) -> Iterator[None]:
    """Run as another user if this is root, who may read everything. Modules must be imported before the block."""
    if os.geteuid() != 0 or not is_wanted:
        yield
        return
    "".encode("cp437")  # as zipfile does
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


_MADE: dict[str, Path] = {}


def copied(place: Path, name: str, make: Callable[[Path], object]) -> str:
    """Copy a directory that `make` has filled. It is filled once for all tests: each record is synced to the disk."""
    if name not in _MADE:
        _MADE[name] = Path(tempfile.mkdtemp(prefix="mooring-made-")) / name
        atexit.register(shutil.rmtree, _MADE[name].parent)
        make(_MADE[name])
    shutil.copytree(_MADE[name], place)
    return str(place)


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


def refused(
    arguments: Sequence[str],
    place: str,
    code: int,
    words: Sequence[str],
    room: Path,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """Run a command. Check that it ends with the code, explains that in at most three lines, and changes no file."""
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


@contextmanager
def open_directory() -> Iterator[Path]:
    """A temporary directory that every user may enter, as those of pytest are closed to others."""
    directory = Path(tempfile.mkdtemp(prefix="mooring-places-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)
