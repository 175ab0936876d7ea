"""Pins: copies of single batches, which are kept although Spark's own clean-up removes the batches.

A pin is a whole checkpoint as of its batch. It lies in `_mooring/pins/<batch>` of the checkpoint from which it was
copied, and is as large as the state was. Only `release` removes it.
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
    """The batches that are pinned, oldest first. A copy that is not complete does not count."""
    directory = checkpoint / DIRECTORY / _PINS
    if not directory.is_dir():
        return ()
    return tuple(sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit()))


def release(checkpoint: Path, batch: int) -> None:
    """Remove a pin. CheckpointError when there is none, or when its files can not be removed.

    In the second case the batch is no longer pinned, and the next call of `release` for the batch removes the files.
    """
    place = place_of(checkpoint, batch)
    going = place.with_name(f".{batch}.going")
    try:
        if going.exists():  # left by a call that was cut off
            shutil.rmtree(going)
        place.rename(going)
        shutil.rmtree(going)
    except FileNotFoundError as fault:
        raise CheckpointError(f"{checkpoint} has no pin of batch {batch}") from fault
    except OSError as fault:
        raise CheckpointError(f"{fault.filename}: {fault.strerror}") from fault
