"""The argument that names the checkpoint of one query."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from mooring.cli.exits import BadUsage, nearest

_PARTS = ("metadata", "offsets", "commits")


def checkpoint_directory(option: str, named: str, instead: str) -> Path:
    """The directory that is meant, on a disk that can be reached from here.

    BadUsage when it is no checkpoint; `instead` says what helps with one on storage that is not mounted.
    """
    directory = local_path(option, named, instead)
    missing = [name for name in _PARTS if not (directory / name).exists()]
    if missing:
        siblings = sorted(str(path) for path in directory.parent.glob("*/")) if directory.parent.is_dir() else []
        raise BadUsage(
            f"{option} {named}: expected the checkpoint of one query, with metadata, offsets and commits;"
            f" {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not there{nearest(str(directory), siblings)}"
        )
    return directory


def local_path(option: str, named: str, instead: str) -> Path:
    """A path, or a URI of a file. BadUsage for a place on other storage."""
    parts = urlsplit(named)
    if parts.scheme not in ("", "file"):
        raise BadUsage(
            f"{option} {named}: expected a directory that is mounted here, not one in {parts.scheme}; {instead}"
        )
    return Path(unquote(parts.path) if parts.scheme else named).absolute()
