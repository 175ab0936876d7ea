"""Durations on the command line, which name their unit."""

from __future__ import annotations

from mooring.cli.exits import BadUsage
from mooring.settings.notation import parse_typed_duration_ms


def duration_ms(option: str, text: str, usual: str) -> int:
    """A duration given to an option, in milliseconds. BadUsage when it is none, or names no unit."""
    try:
        return parse_typed_duration_ms(text)
    except ValueError:
        bare = text.strip()
        near = f"{int(bare)}s" if bare.isascii() and bare.isdigit() else usual
        raise BadUsage(
            f"{option} {text}: expected a duration with its unit, such as {usual}; nearest: {near}"
        ) from None
