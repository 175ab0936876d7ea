"""The form of the topic's records. Pure functions. `docs/guides/kafka.md` describes the same form.

- A value: the record's key is `[1,"<namespace>","<key>"]`, its value the raw bytes, or null for a deletion.
- A claim of an exclusive writer: the record's key is `["mooring.writer","<role>"]`, its value the generation in
  decimal.

The records of an exclusive writer have its role and its generation in two headers. A key is JSON without spaces, in
UTF-8. Each key has one spelling only, because compaction compares the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

ROLE_HEADER = "mooring.writer"
GENERATION_HEADER = "mooring.generation"

_VERSION = 1
_CLAIM = "mooring.writer"
_SEPARATOR = "/"

Headers = Sequence[tuple[str, bytes | None]]


class ForeignRecord(ValueError):
    """The record is not from Mooring, or it is damaged; the message says why. The Kafka store catches this."""


@dataclass(frozen=True)
class Claim:
    """The key of a claim. The client with the highest claimed generation is the writer of the role."""

    role: str


@dataclass(frozen=True)
class Author:
    """The exclusive writer of a record."""

    role: str
    generation: int


def value_key(key: str) -> bytes:
    """The record's key for a store's key. The namespace is the text before the first slash; it may be empty."""
    namespace, separator, rest = key.partition(_SEPARATOR)
    if not separator or not namespace:
        namespace, rest = "", key
    return _spelt([_VERSION, namespace, rest])


def claim_key(role: str) -> bytes:
    """The record's key for the claim of a role."""
    return _spelt([_CLAIM, role])


def parse_key(raw: bytes | None) -> str | Claim:
    """The store's key, or the claim, of a record's key. ForeignRecord for a key that Mooring never writes."""
    if raw is None:
        raise ForeignRecord("it has no key")
    try:
        fields = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ForeignRecord("its key is not JSON") from None
    if not isinstance(fields, list) or not fields:
        raise ForeignRecord("its key is not one of Mooring's")
    if fields[0] == _CLAIM and len(fields) == 2 and isinstance(fields[1], str):
        parsed: str | Claim = Claim(fields[1])
        spelling = claim_key(fields[1])
    else:
        parsed = _key_of(fields)
        spelling = value_key(parsed)
    if spelling != raw:
        raise ForeignRecord("its key is not spelt as Mooring spells it")
    return parsed


def author_headers(author: Author) -> list[tuple[str, bytes]]:
    """The headers of an exclusive writer's records."""
    return [(ROLE_HEADER, author.role.encode()), (GENERATION_HEADER, b"%d" % author.generation)]


def parse_author(headers: Headers | None) -> Author | None:
    """The exclusive writer of a record; None for a plain writer. ForeignRecord for a role without a generation."""
    found = dict(headers or ())
    role = found.get(ROLE_HEADER)
    if role is None:
        return None
    try:
        return Author(role.decode("utf-8"), parse_generation(found.get(GENERATION_HEADER)))
    except UnicodeDecodeError:
        raise ForeignRecord("its writer's role is not text") from None


def parse_generation(raw: bytes | None) -> int:
    """A generation, from a header or from the value of a claim."""
    if raw is None or not raw.isdigit() or len(raw) > 18:
        raise ForeignRecord("its writer's generation is not a number")
    return int(raw)


def _key_of(fields: list[object]) -> str:
    if fields[0] != _VERSION or isinstance(fields[0], bool):
        raise ForeignRecord(f"its key has the version {str(fields[0])[:20]!r}; this release reads version {_VERSION}")
    if len(fields) != 3 or not isinstance(fields[1], str) or not isinstance(fields[2], str):
        raise ForeignRecord("its key is not an array of version, namespace and key")
    key = fields[2] if not fields[1] else fields[1] + _SEPARATOR + fields[2]
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        raise ForeignRecord("its key is not valid Unicode text") from None
    return key


def _spelt(fields: list[object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
