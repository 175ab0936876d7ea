"""Output of a running benchmark. It goes to stderr, because stdout has the result."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Print one line at once."""
    print(text, file=sys.stderr, flush=True)
