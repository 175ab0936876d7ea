"""The batches that a query has committed, as its checkpoint shows them."""

from __future__ import annotations

import contextlib
from pathlib import Path


def commits_in(checkpoint: Path) -> dict[int, float]:
    """Batch to the time of its file, in seconds since 1970. Spark removes those of old batches."""
    commits = checkpoint / "commits"
    found: dict[int, float] = {}
    for entry in commits.iterdir() if commits.is_dir() else ():
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError):
                found[int(entry.name)] = entry.stat().st_mtime
    return found
