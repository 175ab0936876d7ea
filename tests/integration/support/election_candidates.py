"""A process that takes part in an election and prints its view as JSON lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mooring


@contextmanager
def candidate(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the script, until the end of the block."""
    environment = os.environ | {"PYTHONPATH": str(Path(mooring.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def lines_until(process: subprocess.Popen[str], found: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
    """The lines of a process up to the first one for which `found` is true, which must come within 30 s."""
    seen: list[dict[str, Any]] = []
    end = time.monotonic() + 30
    for line in process.stdout or ():
        seen.append(json.loads(line))
        if found(seen[-1]):
            return seen
        assert time.monotonic() < end, seen[-20:]
    raise AssertionError("the process ended")
