"""The log of Spark's file sink, made in a new directory for a query that begins there with a later batch than 0.

The log lies in `_spark_metadata`: an entry for each batch. Every tenth is named `<number>.compact`, and has the files
of all before it too. Spark reads all entries since the last of those, when it writes the next and when it reads the
directory. A log that begins in between fails there; so entries without files stand for the batches before.

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
"""Batches between two compact entries, unless the job sets spark.sql.streaming.fileSink.log.compactInterval."""

_EMPTY: Final = "v1"


def names_until(batch: int) -> tuple[str, ...]:
    """The entries that stand for all batches up to this one.

    Spark takes the interval from the last two compact entries, and from the last one where there is no other; else it
    is the job's setting, which is taken for the usual one.
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

    CheckpointError when the directory is not empty, or the log can not be written; then there is none.
    """
    refuse_taken(directory)
    unseen = directory / f".{LOG}.{uuid4().hex}"
    try:
        unseen.mkdir(parents=True)
        for name in names_until(batch):
            (unseen / name).write_text(_EMPTY)
        unseen.rename(directory / LOG)
    except BaseException as fault:
        shutil.rmtree(unseen, ignore_errors=True)  # what was written is of no use, and the first fault is what matters
        if isinstance(fault, OSError):
            told = f"{fault.filename}: {fault.strerror}; {directory} has no log of a file sink"
            raise CheckpointError(told) from fault
        raise
