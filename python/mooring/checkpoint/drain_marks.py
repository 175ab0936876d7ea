"""Finds the mark files of drains that a rollback to an earlier batch must remove.

A drain flushes state by a watermark thousands of years ahead. A query that went on after such a batch would take every
new row for late; the mark `drained.json` prevents that. The marks name batches. After a rollback the same numbers stand
for other batches, so the marks of later batches are removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.checkpoint.lease import DIRECTORY
from mooring.errors import CheckpointError

FLUSHED_FROM_MS: Final = 95_617_584_000_000
"""The least watermark by which a drain flushes state, in milliseconds: the year 5000. No event's time comes near it."""

_MARKS: Final = {"drained.json": "batch", "draining.json": "batch", "reset.json": "from"}


def marks_after(checkpoint: Path, batch: int) -> Iterator[Path]:
    """The marks that name a later batch, or a drain that goes on in one. CheckpointError when one can not be read."""
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
