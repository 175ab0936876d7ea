"""The running queries, and the places that each reads and writes, by Spark's descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_DESCRIBED = re.compile(r"[^\[]*\[(.*)\]$", re.DOTALL)
_TOPICS = re.compile(r"(?:Subscribe|SubscribePattern|Assign)\[(.*)\]$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """One run of a query. `reads` and `writes` are the known places, in one spelling.

    `has_sources` is False while the query starts: its sources, and so `reads`, are not known then.
    """

    id: str
    run: str
    name: str = ""
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    has_sources: bool = True

    @property
    def label(self) -> str:
        """The query's name, else its id."""
        return self.name or self.id


def places(descriptions: Iterable[str]) -> frozenset[str]:
    """The directories, tables and topics in descriptions of sources and sinks, such as `FileSink[/data/out]`.

    Descriptions without a place are skipped, such as that of a user's function.
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
