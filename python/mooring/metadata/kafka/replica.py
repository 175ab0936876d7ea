"""The map that the topic's records add up to. Pure: records go in, in the order of their offsets."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.metadata.kafka.records import (
    Author,
    Claim,
    ForeignRecord,
    Headers,
    parse_author,
    parse_generation,
    parse_key,
)


@dataclass(frozen=True)
class Record:
    """One record as it was read; a null value is None."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


class Replica:
    """Values by key, and the highest generation that each role has claimed.

    A record of a lower generation than one that stands before it in the topic, of the same role, is ignored, whatever
    it says: every reader decides alike, as all see one order. The broker refuses such writers in the first place
    (transactional id); this is the second line of defence.
    """

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self._generations: dict[str, int] = {}

    def generation(self, role: str) -> int:
        """The highest generation seen of a role; 0 when nobody has claimed it."""
        return self._generations.get(role, 0)

    def apply(self, record: Record) -> str | None:
        """Take in one record; the key that it changed, if any. ForeignRecord, and no change, when it is not ours."""
        subject = parse_key(record.key)
        if isinstance(subject, Claim):
            if record.value is not None:
                self._raise_generation(subject.role, parse_generation(record.value))
            return None
        self._refuse_stale(parse_author(record.headers))
        if record.value is None:
            self.values.pop(subject, None)
        else:
            self.values[subject] = record.value
        return subject

    def _refuse_stale(self, author: Author | None) -> None:
        if author is None:
            return
        newest = self.generation(author.role)
        if author.generation < newest:
            raise ForeignRecord(
                f"it is of generation {author.generation} of the writer {author.role!r}, which generation {newest}"
                " has replaced"
            )
        self._raise_generation(author.role, author.generation)

    def _raise_generation(self, role: str, generation: int) -> None:
        self._generations[role] = max(generation, self.generation(role))
