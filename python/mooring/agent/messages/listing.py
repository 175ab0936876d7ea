"""Words for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """The first of these, at `most` so many, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"
