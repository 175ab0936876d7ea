"""Durations on the command line, which name their unit: `5s`. This is the only parser of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mooring.cli.exits import BadUsage
from mooring.settings.notation import format_duration, guess_duration_ms, parse_typed_duration_ms

_BARE_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_LONGEST: Final = 18  # characters of a text that somebody has typed as a duration


def duration(option: str, usual: str, least_ms: int = 0) -> Callable[[str], int]:
    """The `type` of an option that takes a duration: from its text to milliseconds.

    `usual` is an example for the message. What this returns raises BadUsage for a text without a unit, for one that is
    no duration, and for less than `least_ms`; the message has the nearest duration that would do.
    """

    def milliseconds(text: str) -> int:
        expected = f"expected a duration with its unit, such as {usual}"
        try:
            found = parse_typed_duration_ms(text)
        except ValueError:
            raise BadUsage(f"{option} {text}: {expected}; nearest: {_nearest(text, usual)}") from None
        if found < least_ms:
            least = format_duration(least_ms)
            raise BadUsage(f"{option} {text}: {expected}, and at least {least}; nearest: {least}")
        return found

    return milliseconds


def _nearest(text: str, usual: str) -> str:
    """What was most likely meant: a bare number means seconds."""
    bare = text.strip()
    guess = guess_duration_ms(f"{bare}s" if _BARE_NUMBER.fullmatch(bare) else bare)
    if guess is None or len(bare) > _LONGEST:
        return usual
    return format_duration(guess)
