"""The queries that run, and what each reads and writes, as Spark describes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_DESCRIBED = re.compile(r"[^\[]*\[(.*)\]$", re.DOTALL)
_TOPICS = re.compile(r"(?:Subscribe|SubscribePattern|Assign)\[(.*)\]$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """One run of a query; `reads` and `writes` are places in one spelling, as far as they are known.

    One that is just starting has no sources yet: what it reads is not known then.
    """

    id: str
    run: str
    name: str = ""
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    has_sources: bool = True

    @property
    def label(self) -> str:
        """How people know it: its name, else its id."""
        return self.name or self.id


def places(descriptions: Iterable[str]) -> frozenset[str]:
    """Directories, tables and topics in what sources and sinks say of themselves, as `FileSink[/data/out]`.

    Nothing for those that name no place, such as a sink of a user's function.
    """
    return frozenset(place for text in descriptions for place in _places_of(text))


def _places_of(description: str) -> list[str]:
    described = _DESCRIBED.match(description)
    if described is None:
        return []
    topics = _TOPICS.match(described[1])
    if topics is not None:
        return [f"topic {topic.strip()}" for topic in topics[1].split(",")]
    return [described[1].removeprefix("file:").rstrip("/")] if "/" in described[1] else []
