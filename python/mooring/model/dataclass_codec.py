"""Dataclasses from JSON objects: each field is read by its key and its type.

The key of a field is its name with hyphens, as `as-planned` for `as_planned`; `key` gives a field another one. A field
with a default may be missing. Keys that belong to no field are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Form = Mapping[str, Any]
"""A JSON object."""

_Kind = TypeVar("_Kind")
_Read = Callable[[Any], Any]


def key(name: str) -> dict[str, str]:
    """The metadata of a dataclass field whose JSON key is `name`."""
    return {"key": name}


def from_form(kind: type[_Kind], form: Form) -> _Kind:
    """A dataclass of this kind from a JSON object. KeyError names the key of a missing field.

    Lists become tuples and frozensets, and objects become mappings and dataclasses, as the types of the fields say. A
    mapping keeps its keys. Texts, numbers and flags are not checked.
    """
    values: dict[str, Any] = {}
    dataclass: Any = kind
    for name, json_key, may_be_missing, read in _fields_of(dataclass):
        if json_key in form or not may_be_missing:
            values[name] = read(form[json_key])
    return kind(**values)


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, str, bool, _Read], ...]:
    """Of each field the name, the key, whether it has a default, and what reads its value."""
    types = get_type_hints(kind)
    return tuple(
        (
            field.name,
            field.metadata.get("key", field.name.replace("_", "-")),
            field.default is not MISSING or field.default_factory is not MISSING,
            _reader(types[field.name]),
        )
        for field in fields(kind)
    )


def _reader(type_: Any) -> _Read:
    """What makes a value of this type from its JSON."""
    if isinstance(type_, type) and is_dataclass(type_):
        return lambda form: from_form(type_, form)
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (tuple, frozenset):
        read_entry = _reader(arguments[0])
        return lambda entries: origin(map(read_entry, entries))
    if origin is Mapping:
        read_entry = _reader(arguments[1])
        return lambda entries: {name: read_entry(entry) for name, entry in entries.items()}
    return lambda value: value
