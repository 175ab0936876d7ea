"""The committed batches of a query, read from its checkpoint."""

from __future__ import annotations

import contextlib
from pathlib import Path


def commits_in(checkpoint: Path) -> dict[int, float]:
    """Batch to the time of its commit file, in seconds since the epoch. Spark removes the files of old batches."""
    commits = checkpoint / "commits"
    found: dict[int, float] = {}
    for entry in commits.iterdir() if commits.is_dir() else ():
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError):
                found[int(entry.name)] = entry.stat().st_mtime
    return found
