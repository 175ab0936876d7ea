"""The fields of one JSON object, read strictly.

InvalidMessageError names the field, its value, and the expected value. Keys that are not read are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID

from mooring.errors import InvalidMessageError

MOST_LETTERS = 1_000

Choice = TypeVar("Choice", bound=Enum)


class Fields:
    """The fields of one stored message."""

    def __init__(self, text: str | bytes) -> None:
        """Raises InvalidMessageError when the text is no JSON object."""
        try:
            form = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidMessageError(f"it is no JSON text: {error}") from error
        if not isinstance(form, dict):
            raise InvalidMessageError(f"it is {_shown(form)}: expected a JSON object")
        self._form: Mapping[str, Any] = form

    def has(self, name: str) -> bool:
        """Whether the field is present and not null."""
        return self._form.get(name) is not None

    def text(self, name: str, expected: str, may_be_empty: bool = False) -> str:
        """A text of at most `MOST_LETTERS` printable characters. `expected` describes the field, for the error."""
        value = self._value(name, expected)
        if isinstance(value, str) and (value or may_be_empty) and _is_plain(value):
            return value
        expected = f"{expected}, of at most {MOST_LETTERS} printable characters" if value else expected
        nearest = json.dumps(str(value)) if isinstance(value, int) and not isinstance(value, bool) else ""
        raise self._wrong(name, expected, nearest)

    def number(self, name: str, expected: str) -> int:
        """A whole number, 0 or more."""
        value = self._value(name, expected)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        is_digits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20
        is_whole = isinstance(value, float) and value.is_integer() and value >= 0
        raise self._wrong(name, expected, str(int(value)) if is_digits or is_whole else "0")

    def uuid(self, name: str) -> UUID:
        """A uuid in its usual form, in any case."""
        text = self.text(name, "a uuid")
        found = uuid_of(text)
        if found is None:
            raise self._wrong(name, 'a uuid such as "88b0d30c-d518-4307-9e8e-c8529eb30f04"', "")
        return found

    def choice(self, name: str, choices: Iterable[Choice]) -> Choice:
        """The choice whose value the field has."""
        by_value = {str(choice.value): choice for choice in choices}
        expected = "one of " + ", ".join(by_value)
        text = self.text(name, expected)
        if text not in by_value:
            raise self._wrong(name, expected, next(iter(get_close_matches(text.upper(), by_value, n=1)), ""))
        return by_value[text]

    def fixed(self, name: str, value: str) -> None:
        """Require exactly this value."""
        if self._value(name, json.dumps(value)) != value:
            raise self._wrong(name, json.dumps(value), "")

    def absent(self, name: str, of: str) -> None:
        """Require that the field is missing. `of` describes the messages without this field, for the error."""
        if self.has(name):
            raise InvalidMessageError(f"{name} is {_shown(self._form[name])}: expected none, as it is {of}")

    def as_readable_text(self, name: str) -> str:
        """The text of a field, empty where there is none; used to answer a message that can not be read."""
        value = self._form.get(name)
        return value if isinstance(value, str) and _is_plain(value) else ""

    def _value(self, name: str, expected: str) -> Any:
        if not self.has(name):
            near = get_close_matches(name, self._form.keys() - {name}, n=1, cutoff=0.7)
            hint = f"; there is {json.dumps(near[0])}" if near else ""
            raise InvalidMessageError(f"{name} is missing: expected {expected}{hint}")
        return self._form[name]

    def _wrong(self, name: str, expected: str, nearest: str) -> InvalidMessageError:
        hint = f"; nearest valid value: {nearest}" if nearest else ""
        return InvalidMessageError(f"{name} is {_shown(self._form[name])}: expected {expected}{hint}")


def uuid_of(text: str) -> UUID | None:
    """The uuid of a text in the usual form; None for any other text."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


def fitting(text: str) -> str:
    """A text that `Fields.text` accepts: unprintable characters become question marks, and a long text is cut."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text[:MOST_LETTERS])
    return plain if len(text) <= MOST_LETTERS else plain[:-3] + "..."


def _is_plain(text: str) -> bool:
    return len(text) <= MOST_LETTERS and text.isprintable()


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
