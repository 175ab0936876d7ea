"""The map that results from the topic's records. It does no input or output; records come in order of their offsets."""

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
    """One record of the topic. A null value is None."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


class Replica:
    """Values by key, and the highest generation of each role.

    A record is ignored when the topic has an earlier record of the same role with a higher generation. All readers see
    the same order, so all of them ignore the same records. Normally the broker refuses such writes already, by the
    transactional id.
    """

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self._generations: dict[str, int] = {}

    def generation(self, role: str) -> int:
        """The highest generation of a role; 0 where no client has claimed it."""
        return self._generations.get(role, 0)

    def apply(self, record: Record) -> str | None:
        """Apply one record; returns the key that it changed, None for a claim.

        ForeignRecord, and no change, where the record is not from Mooring or is of a replaced writer.
        """
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
