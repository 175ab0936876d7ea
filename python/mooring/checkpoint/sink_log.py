"""Makes the log of Spark's file sink in a new directory, for a query that begins there after batch 0.

The log lies in `_spark_metadata` and has an entry for each batch. Every tenth entry is named `<number>.compact` and
also has the files of all earlier entries. Spark reads all entries since the last compact one, when it writes the next
compact entry and when it reads the directory. Spark fails on a log with a gap. So this module writes entries without
files for the earlier batches.

Source: Spark 4.2's CompactibleFileStreamLog and FileStreamSinkLog.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final
from uuid import uuid4

from mooring.errors import CheckpointError

LOG: Final = "_spark_metadata"

_EVERY: Final = 10
"""Batches from one compact entry to the next, unless the job sets spark.sql.streaming.fileSink.log.compactInterval."""

_EMPTY: Final = "v1"


def names_until(batch: int) -> tuple[str, ...]:
    """The names of the entries that stand for all batches up to this one.

    Spark takes the interval from the last two compact entries, or from the only one. Without a compact entry Spark uses
    the job's setting; the names are then right for Spark's default.
    """
    last = (batch + 1) // _EVERY * _EVERY - 1
    if last >= 2 * _EVERY - 1:
        return f"{last - _EVERY}.compact", f"{last}.compact", *map(str, range(last + 1, batch + 1))
    if last >= 0:
        return (f"{batch}.compact",)
    return tuple(map(str, range(batch + 1)))


def refuse_taken(directory: Path) -> None:
    """CheckpointError unless the directory is empty or not there."""
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise CheckpointError(f"{directory} is not empty: expected a new directory for the file sink")
    except OSError as fault:
        raise CheckpointError(f"{directory} can not be read: {fault.strerror}") from fault


def begin(directory: Path, batch: int) -> None:
    """Make the log for a query that goes on after this batch.

    CheckpointError when the directory is not empty, or when the log can not be written; then no log is made.
    """
    refuse_taken(directory)
    unseen = directory / f".{LOG}.{uuid4().hex}"
    try:
        unseen.mkdir(parents=True)
        for name in names_until(batch):
            (unseen / name).write_text(_EMPTY)
        unseen.rename(directory / LOG)
    except BaseException as fault:
        shutil.rmtree(unseen, ignore_errors=True)  # half a log is of no use; the first fault is the one to report
        if isinstance(fault, OSError):
            message = f"{fault.filename}: {fault.strerror}; {directory} has no log of a file sink"
            raise CheckpointError(message) from fault
        raise
