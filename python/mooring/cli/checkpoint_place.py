"""Reads an argument that names the checkpoint of one query."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mooring.catalogue.table import own_table
from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.local_paths import PARTS, Kind, folders_in, kind_of, why_closed, why_missing
from mooring.errors import nearest

INSTEAD: Final = "mount it, or copy it to a disk of this host"
"""The advice for a checkpoint on storage that is not mounted here."""

_EXPECTED: Final = "expected the checkpoint of one query, with metadata, offsets and commits"
_MOST_NAMED: Final = 5


def checkpoint_directory(option: str, named: str, instead: str) -> Path:
    """The directory that an option names.

    BadUsage when it is no checkpoint, CommandFailed when this user may not read it. `instead` is the advice for a
    checkpoint on storage that is not mounted here.
    """
    directory = local_path(option, named, instead)
    kind = kind_of(directory)
    if kind is Kind.CHECKPOINT:
        return directory
    if kind is Kind.CLOSED:
        raise CommandFailed(f"{option} {named}: {why_closed(directory)}")
    if kind is Kind.MISSING:
        raise BadUsage(f"{option} {named}: {why_missing(directory)}; {_EXPECTED}")
    if kind is not Kind.OTHER:
        raise BadUsage(f"{option} {named}: {kind.value}; {_EXPECTED}")
    missing = ", ".join(name for name in PARTS if kind_of(directory / name) is Kind.MISSING)
    below = [str(path) for path in folders_in(directory) if kind_of(path) is Kind.CHECKPOINT]
    there = f"; checkpoints in it: {', '.join(below[:_MOST_NAMED])}" if below else ""
    raise BadUsage(f"{option} {named}: {missing} not there; {_EXPECTED}{there}")


def local_path(option: str, named: str, instead: str) -> Path:
    """A path, or a URI of a file. BadUsage for a place on other storage."""
    try:
        parts = urlsplit(named)
    except ValueError as fault:
        raise BadUsage(f"{option} {named}: {fault}; expected a directory that is mounted here") from fault
    if parts.scheme not in ("", "file"):
        raise BadUsage(
            f"{option} {named}: expected a directory that is mounted here, not one in {parts.scheme}:; {instead}"
            f"{nearest(parts.scheme, ['file'])}"
        )
    return Path(unquote(parts.path) if parts.scheme else named).absolute()


def catalogue_in(checkpoint: Path, option: str) -> str:
    """The path of the catalogue in a checkpoint. BadUsage where there is none."""
    table = own_table(checkpoint)
    if table is None:
        raise BadUsage(
            f"{option}: {checkpoint} has no catalogue; expected one that an application with Delta's jars has "
            "written there, or its name or path where spark.mooring.checkpoint.catalog.table was set"
        )
    return table
