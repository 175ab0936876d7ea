"""What a benchmark says while it runs: on stderr, as stdout has the result."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """One line, at once."""
    print(text, file=sys.stderr, flush=True)
