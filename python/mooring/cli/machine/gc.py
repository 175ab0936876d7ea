"""`mooring gc`: removes state of this host's local store whose checkpoint is gone.

No state is lost with a file of a local store: a missing file is fetched from the checkpoint.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

from mooring.cli import options
from mooring.cli.checkpoint_place import local_path
from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.local_paths import Kind, kind_of, user_name, why_closed, why_missing
from mooring.cli.options import LOCAL_STORE_VARIABLE
from mooring.cli.output import counted, print_json, size

NAME: Final = "gc"
HELP: Final = "remove local state whose checkpoint is gone"

OWNER = "OWNER"

_KEY = re.compile("[0-9a-f]{32}")
_LONGEST_OWNER = 64 * 1024
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR}

Verdict = Literal["removed", "kept", "not checked", "not ours"]


@dataclass(frozen=True)
class Shelf:
    """One directory of a local store, the checkpoint it belongs to, its bytes, and whether it is removed."""

    directory: Path
    owner: str
    count: int
    verdict: Verdict
    reason: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument("--dry-run", action="store_true", help="print what would be removed, and remove nothing")
    options.add_local_store(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Remove the directories whose checkpoint is gone; with `--dry-run` only print them."""
    root = store_directory(arguments.local_store)
    shelves = survey(root)
    if not arguments.dry_run:
        for shelf in shelves:
            if shelf.verdict == "removed":
                _remove(shelf)
    if arguments.json:
        print_json(as_json(root, shelves, arguments.dry_run))
    else:
        print(as_text(root, shelves, arguments.dry_run))


def store_directory(named: str | None) -> Path:
    """The named directory, else the default one of this user's executors. BadUsage when a named one does not exist."""
    given = named or os.environ.get(LOCAL_STORE_VARIABLE) or None
    option = "--local-store" if named else LOCAL_STORE_VARIABLE
    if not given:
        return default_directory()
    root = local_path(option, given, "expected a directory of this host")
    kind = kind_of(root)
    expected = "expected what spark.mooring.local.store.dir says"
    if kind is Kind.MISSING:
        raise BadUsage(f"{option} {given}: {why_missing(root)}; {expected}")
    if kind is Kind.CLOSED:
        raise CommandFailed(f"{option} {given}: {why_closed(root)}")
    if kind in (Kind.FILE, Kind.CHECKPOINT, Kind.RECORDS):
        raise BadUsage(f"{option} {given}: {kind.value}; {expected}")
    return root


def default_directory() -> Path:
    """The default directory of executors. It lies in the JVM's temporary directory, which does not follow TMPDIR."""
    temporary = "/tmp" if sys.platform.startswith("linux") else tempfile.gettempdir()
    return Path(temporary) / f"mooring-{user_name()}"


def survey(root: Path) -> list[Shelf]:
    """The directories of a local store, in order, each with its verdict. Nothing is changed."""
    try:
        with os.scandir(root) as entries:
            folders = sorted(root / entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CommandFailed(f"the local store {root} cannot be read: {error.strerror}") from error
    return [_judge(folder) for folder in folders]


def as_json(root: Path, shelves: list[Shelf], dry_run: bool) -> dict[str, Any]:
    """The result under names that other tools may rely on."""
    return {
        "local-store": str(root),
        "dry-run": dry_run,
        "bytes-removed": 0 if dry_run else _bytes(shelves, "removed"),
        "bytes-removable": _bytes(shelves, "removed"),
        "directories": [
            {
                "directory": shelf.directory.name,
                "checkpoint": shelf.owner or None,
                "bytes": shelf.count,
                "result": "removable" if dry_run and shelf.verdict == "removed" else shelf.verdict,
                "reason": shelf.reason,
            }
            for shelf in shelves
        ],
    }


def as_text(root: Path, shelves: list[Shelf], dry_run: bool) -> str:
    """The result for people."""
    lines = []
    for shelf in shelves:
        done = "would remove" if dry_run and shelf.verdict == "removed" else shelf.verdict
        lines.append(f"{done}: {shelf.directory.name}, {size(shelf.count)}: {shelf.reason}")
    gone = [shelf for shelf in shelves if shelf.verdict == "removed"]
    verb = "would be removed" if dry_run else "removed"
    directories = counted(len(shelves), "directory", "directories")
    lines.append(f"{root}: {directories}, {len(gone)} {verb}, {size(_bytes(shelves, 'removed'))}")
    if kind_of(root) is Kind.MISSING:
        lines.append("there is no such directory: name the one of spark.mooring.local.store.dir with --local-store")
    return "\n".join(lines)


def key_of(checkpoint: str) -> str:
    """The name of a checkpoint's directory in a local store, as the executors make it."""
    return hashlib.sha256(checkpoint.encode()).hexdigest()[:32]


def _judge(folder: Path) -> Shelf:
    owner = _owner_of(folder)
    count = _size_of(folder)
    if owner is None:
        return Shelf(folder, "", count, "not ours", f"it has no readable {OWNER} file; left as it is")
    if _KEY.fullmatch(folder.name) is None or key_of(owner) != folder.name:
        return Shelf(
            folder, owner, count, "not ours", f"its name does not belong to its {OWNER}, {owner}; left as it is"
        )
    verdict, reason = _judge_owner(owner)
    return Shelf(folder, owner, count, verdict, reason)


def _judge_owner(owner: str) -> tuple[Verdict, str]:
    path = _local_path(owner)
    if path is None:
        return "not checked", f"{owner} is not on a path of this host"
    try:
        path.stat()
    except OSError as error:
        if error.errno in _NOT_THERE:
            return "removed", f"{owner} is gone"
        return "not checked", f"{owner} cannot be looked at: {error.strerror}"
    return "kept", f"{owner} is there"


def _local_path(owner: str) -> Path | None:
    """The path of a `file:` URI or of a plain absolute path; None for another place."""
    if owner.startswith("/"):
        return Path(unquote(owner))
    try:
        uri = urlsplit(owner)
    except ValueError:
        return None
    if uri.scheme.lower() != "file" or uri.netloc or not uri.path.startswith("/"):
        return None
    return Path(unquote(uri.path))


def _owner_of(folder: Path) -> str | None:
    try:
        path = folder / OWNER
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= _LONGEST_OWNER:
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _size_of(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # an executor has removed the file meanwhile, or another user owns it: it is not counted
                continue
    return total


def _remove(shelf: Shelf) -> None:
    try:
        shutil.rmtree(shelf.directory)
    except FileNotFoundError:  # an executor, or another gc, has removed a part of it meanwhile
        shutil.rmtree(shelf.directory, ignore_errors=True)
    except OSError as error:
        raise CommandFailed(f"{shelf.directory} cannot be removed: {error.strerror}") from error


def _bytes(shelves: list[Shelf], verdict: Verdict) -> int:
    return sum(shelf.count for shelf in shelves if shelf.verdict == verdict)
