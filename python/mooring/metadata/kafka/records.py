"""What a record of the topic looks like. Pure; `docs/guides/kafka.md` says the same to readers in other languages.

A value: key `[1,"<namespace>","<key>"]`, value the raw bytes, null for a deletion. A claim of an exclusive writer: key
`["mooring.writer","<role>"]`, value its generation in decimal. What an exclusive writer writes has its role and its
generation in two headers. Keys are JSON without spaces, in UTF-8, one spelling for each: compaction compares bytes.
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
    """The record is none of ours, or damaged; the message says in what way. Never leaves the Kafka store."""


@dataclass(frozen=True)
class Claim:
    """The key of a claim: who writes under this role is told by the highest generation claimed."""

    role: str


@dataclass(frozen=True)
class Author:
    """Which exclusive writer wrote a record."""

    role: str
    generation: int


def value_key(key: str) -> bytes:
    """The record key of a store's key: its namespace is what stands before the first slash, if anything does."""
    namespace, separator, rest = key.partition(_SEPARATOR)
    if not separator or not namespace:
        namespace, rest = "", key
    return _spelt([_VERSION, namespace, rest])


def claim_key(role: str) -> bytes:
    """The record key of a role's claim."""
    return _spelt([_CLAIM, role])


def parse_key(raw: bytes | None) -> str | Claim:
    """The store's key that a record key stands for, or the claim; ForeignRecord for anything that we never write."""
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
    """What an exclusive writer puts beside each value."""
    return [(ROLE_HEADER, author.role.encode()), (GENERATION_HEADER, b"%d" % author.generation)]


def parse_author(headers: Headers | None) -> Author | None:
    """Who wrote a record; None for a plain writer. ForeignRecord when there is a role without a generation."""
    found = dict(headers or ())
    role = found.get(ROLE_HEADER)
    if role is None:
        return None
    try:
        return Author(role.decode("utf-8"), parse_generation(found.get(GENERATION_HEADER)))
    except UnicodeDecodeError:
        raise ForeignRecord("its writer's role is not text") from None


def parse_generation(raw: bytes | None) -> int:
    """A generation from a header or from the value of a claim."""
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
