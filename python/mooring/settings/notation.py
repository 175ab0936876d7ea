"""Durations and sizes in Spark's notation: "10s", "500ms", "64m", "1g"; a bare number is milliseconds or bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DURATION_MICROSECONDS: Mapping[str, int] = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_SIZE_BYTES: Mapping[str, int] = {
    unit + b: 1024**power for power, unit in enumerate("kmgtp", start=1) for b in ("", "b")
} | {"b": 1}

_SHOWN_DURATIONS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
_SHOWN_SIZES = (("t", 1024**4), ("g", 1024**3), ("m", 1024**2), ("k", 1024), ("b", 1))

_COUNT = re.compile(r"[0-9]{1,9}")
_EXACT = re.compile(r"([0-9]{1,18})([a-z]*)")
_LOOSE = re.compile(r"(-?)([0-9]{1,18}(?:\.[0-9]{1,6})?)\s*([a-z]*)")


def parse_count(text: str) -> int:
    """A whole number from 0 to 999,999,999. Raises ValueError for anything else."""
    if _COUNT.fullmatch(text.strip()) is None:
        raise ValueError(text)
    return int(text)


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration such as "10s". ValueError for anything Spark would refuse, and for negatives."""
    number, unit = _split(text, "ms", _DURATION_MICROSECONDS)
    return number * _DURATION_MICROSECONDS[unit] // 1_000


def parse_typed_duration_ms(text: str) -> int:
    """Milliseconds of a duration that a person types, which names its unit. ValueError for a bare number too."""
    if text.strip().isdigit():
        raise ValueError(text)
    return parse_duration_ms(text)


def parse_size_bytes(text: str) -> int:
    """Bytes of a size such as "64m". ValueError for anything Spark would refuse, and for negatives."""
    number, unit = _split(text, "b", _SIZE_BYTES)
    return number * _SIZE_BYTES[unit]


def format_duration(milliseconds: int) -> str:
    """The shortest text that parses back to exactly this many milliseconds."""
    return _format(milliseconds, _SHOWN_DURATIONS, "0ms")


def format_size(count: int) -> str:
    """The shortest text that parses back to exactly this many bytes."""
    return _format(count, _SHOWN_SIZES, "0b")


def guess_duration_ms(text: str) -> int | None:
    """The likely milliseconds of a mistyped duration ("1.5h", "10 sec"), or None. For suggestions in messages only."""
    guess = _guess(text, "ms", _DURATION_MICROSECONDS)
    return None if guess is None else guess // 1_000


def guess_size_bytes(text: str) -> int | None:
    """The likely bytes of a mistyped size ("1.5g", "64 MiB"), or None. For suggestions in messages only."""
    return _guess(text, "b", _SIZE_BYTES)


def guess_count(text: str) -> int | None:
    """The likely value of a mistyped whole number ("2.0", "-1"), or None. For suggestions in messages only."""
    return _guess(text, "", {"": 1})


def _split(text: str, bare_unit: str, units: Mapping[str, int]) -> tuple[int, str]:
    match = _EXACT.fullmatch(text.strip().lower())
    if match is None or (match[2] or bare_unit) not in units:
        raise ValueError(text)
    return int(match[1]), match[2] or bare_unit


def _guess(text: str, bare_unit: str, units: Mapping[str, int]) -> int | None:
    match = _LOOSE.match(text.strip().lower())
    if match is None:
        return None
    unit = match[3] or bare_unit
    while unit and unit not in units:
        unit = unit[:-1]
    if unit not in units:
        return None
    return 0 if match[1] else round(float(match[2]) * units[unit])


def _format(amount: int, units: tuple[tuple[str, int], ...], zero: str) -> str:
    for unit, factor in units:
        if amount and amount % factor == 0:
            return f"{amount // factor}{unit}"
    return zero
