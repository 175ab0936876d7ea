"""What drains have left in a checkpoint, for those who take it back to an earlier batch.

A drain flushes state by a watermark thousands of years ahead. A query that went on after such a batch would take every
new row for late, which the mark `drained.json` prevents; the marks name batches, which mean others afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.checkpoint.lease import DIRECTORY
from mooring.errors import CheckpointError

FLUSHED_FROM_MS: Final = 95_617_584_000_000
"""The first watermark that a drain flushes by, of the year 5000; no event's time comes near it."""

_MARKS: Final = {"drained.json": "batch", "draining.json": "batch", "reset.json": "from"}


def marks_after(checkpoint: Path, batch: int) -> Iterator[Path]:
    """Those that speak of a later batch, or of a drain that goes on there. CheckpointError when one can not be read."""
    for name, key in _MARKS.items():
        mark = checkpoint / DIRECTORY / name
        try:
            form = json.loads(mark.read_text())
            is_asked = form.get("phase") == "asked"  # nothing has happened yet
            if int(form[key]) + (name == "draining.json") > batch and not is_asked:
                yield mark
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
            raise CheckpointError(f"{mark} can not be read: {fault}") from fault
