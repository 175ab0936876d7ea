"""Paths on this machine that a command is given, and what lies there. No look raises an error of the system's."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from mooring.errors import nearest
from mooring.metadata.filename import is_record_name, is_record_of_another_form


class Kind(Enum):
    """What a look at a path finds."""

    MISSING = "there is nothing"
    FILE = "it is a file"
    EMPTY = "it is an empty directory"
    CLOSED = "this user may not read it"
    RECORDS = "it holds Mooring's records"
    CHECKPOINT = "it is the checkpoint of a query"
    OTHER = "it is another directory"


PARTS = ("metadata", "offsets", "commits")
"""What the checkpoint of every query has."""


def kind_of(path: Path) -> Kind:
    """What lies at a path."""
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            return Kind.FILE
        names = set(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return Kind.MISSING
    except OSError:
        return Kind.CLOSED
    if not names:
        return Kind.EMPTY
    if names.issuperset(PARTS):
        return Kind.CHECKPOINT
    if any(is_record_name(name) or is_record_of_another_form(name) for name in names):
        return Kind.RECORDS
    return Kind.OTHER


def folders_in(directory: Path) -> list[Path]:
    """The directories in a directory, in order; none where this user may not look."""
    try:
        with os.scandir(directory) as entries:
            return sorted(directory / entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []


def stores_among(directories: Iterable[Path]) -> list[Path]:
    """Those that hold records, each with those below it, where other applications of the same name keep theirs."""
    stores = [path for path in directories if kind_of(path) is Kind.RECORDS]
    below = [path for store in stores for path in folders_in(store) if kind_of(path) is Kind.RECORDS]
    return list(dict.fromkeys((*stores, *below)))


def holds_later_records(directory: Path) -> bool:
    """Whether a later Mooring keeps records there, in a form that this one does not read."""
    try:
        return any(is_record_of_another_form(name) for name in os.listdir(directory))
    except OSError:
        return False


def why_missing(path: Path) -> str:
    """Of a path that does not exist: the first part of it that is not there, and the nearest name that is."""
    gone = path
    while gone.parent != gone and kind_of(gone.parent) is Kind.MISSING:
        gone = gone.parent
    if kind_of(gone.parent) is Kind.FILE:
        return f"{gone.parent} is a file"
    beside = nearest(gone.name, [one.name for one in folders_in(gone.parent)])
    name = beside.removeprefix("; nearest: ")
    return f"{gone} does not exist" + (f"; nearest: {gone.parent / name}" if name else "")


def why_closed(path: Path) -> str:
    """Of a path that this user may not read: which part of it is closed, and to whom."""
    closed = path
    while closed.parent != closed and kind_of(closed.parent) is Kind.CLOSED:
        closed = closed.parent
    return f"the user {user_name()} may not read {closed}: run this as its owner, or have it opened"


def user_name() -> str:
    """The user as the JVM names him: by the process's owner, not by a variable."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        import getpass

        return getpass.getuser()
