"""The argument that names the checkpoint of one query."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mooring.checkpoint.catalogue_table import own_table
from mooring.cli.exits import BadUsage
from mooring.errors import nearest

INSTEAD: Final = "mount it, or copy it to a disk of this host"
"""What helps where a checkpoint on other storage is to be read."""

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


def catalogue_in(checkpoint: Path, option: str) -> str:
    """The catalogue that lies in a checkpoint. BadUsage where there is none."""
    table = own_table(checkpoint)
    if table is None:
        raise BadUsage(
            f"{option}: {checkpoint} has no catalogue; expected one that an application with Delta's jars has "
            "written there, or its name or path where spark.mooring.checkpoint.catalog.table was set"
        )
    return table
