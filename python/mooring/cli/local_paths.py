"""What lies at a path that a command is given. No function here raises an OSError."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from mooring.errors import nearest
from mooring.metadata.filename import is_record_name, is_record_of_another_form


class Kind(Enum):
    """What lies at a path."""

    MISSING = "there is nothing"
    FILE = "it is a file"
    EMPTY = "it is an empty directory"
    CLOSED = "this user may not read it"
    RECORDS = "it holds Mooring's records"
    CHECKPOINT = "it is the checkpoint of a query"
    OTHER = "it is another directory"


PARTS = ("metadata", "offsets", "commits")
"""The entries that the checkpoint of every query has."""


def kind_of(path: Path) -> Kind:
    """The kind of what lies at a path."""
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
    """The directories in a directory, in order; none where this user may not read it."""
    try:
        with os.scandir(directory) as entries:
            return sorted(directory / entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []


def stores_among(directories: Iterable[Path]) -> list[Path]:
    """The directories that hold records, and those in them: applications of the same name keep their records there."""
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
    """Why a path does not exist: the first part of it that is missing, and the nearest name beside that part."""
    missing = path
    while missing.parent != missing and kind_of(missing.parent) is Kind.MISSING:
        missing = missing.parent
    if kind_of(missing.parent) is Kind.FILE:
        return f"{missing.parent} is a file"
    beside = nearest(missing.name, [folder.name for folder in folders_in(missing.parent)])
    name = beside.removeprefix("; nearest: ")
    return f"{missing} does not exist" + (f"; nearest: {missing.parent / name}" if name else "")


def why_closed(path: Path) -> str:
    """Why a path cannot be read: the part of it that is closed to this user."""
    closed = path
    while closed.parent != closed and kind_of(closed.parent) is Kind.CLOSED:
        closed = closed.parent
    return f"the user {user_name()} may not read {closed}: run this as its owner, or have it opened"


def user_name() -> str:
    """The name of this user, as the JVM finds it: by the owner of the process, not by a variable."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        import getpass

        return getpass.getuser()
