"""Batches of a checkpoint that are kept although Spark's own clean-up removes them: each in a copy of its own.

A pin is a checkpoint as of its batch, in `_mooring/pins/<batch>` of the one that it was taken from, as large as its
state was. Nothing removes it but `release`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from mooring.checkpoint.lease import DIRECTORY
from mooring.errors import CheckpointError

_PINS: Final = "pins"


def place_of(checkpoint: Path, batch: int) -> Path:
    """Where the pin of a batch lies, or would lie."""
    return checkpoint / DIRECTORY / _PINS / str(batch)


def pinned(checkpoint: Path) -> tuple[int, ...]:
    """The batches that are pinned, oldest first. A copy that is under way, or was cut off, is none."""
    directory = checkpoint / DIRECTORY / _PINS
    if not directory.is_dir():
        return ()
    return tuple(sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit()))


def release(checkpoint: Path, batch: int) -> None:
    """Let go of a pin. CheckpointError when there is none, or when it can not be removed; then it is none any more."""
    place = place_of(checkpoint, batch)
    going = place.with_name(f".{batch}.going")
    try:
        if going.exists():  # of a call that was cut off
            shutil.rmtree(going)
        place.rename(going)
        shutil.rmtree(going)
    except FileNotFoundError as fault:
        raise CheckpointError(f"{checkpoint} has no pin of batch {batch}") from fault
    except OSError as fault:
        raise CheckpointError(f"{fault.filename}: {fault.strerror}") from fault
