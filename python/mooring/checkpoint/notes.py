"""Writes the notes that commands leave in a checkpoint for the driver, whatever user the driver runs as."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from mooring.checkpoint.lease import DIRECTORY


def leave_note(checkpoint: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write a note as a whole, which everyone who may read the checkpoint can read.

    OSError when that fails; then there is no note.
    """
    directory = checkpoint / DIRECTORY
    unseen = directory / f".{name}.{uuid4().hex}"
    try:
        if not directory.exists():
            directory.mkdir()
            directory.chmod(checkpoint.stat().st_mode & 0o777)
        unseen.write_text(json.dumps(content))
        unseen.chmod(0o644)
        unseen.replace(directory / name)
    except OSError:
        unseen.unlink(missing_ok=True)
        raise
