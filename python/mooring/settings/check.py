"""Parses names and values of settings; a refusal names the nearest valid one."""

from __future__ import annotations

import difflib
import re

from mooring.errors import InvalidSettingError
from mooring.settings.notation import format_duration, format_size, guess_count, guess_duration_ms, guess_size_bytes
from mooring.settings.table import PREFIX, TABLE, Setting

_SECRET = re.compile("secret|password|passphrase|token|access.?key|credential|auth|jaas|[.]pem", re.IGNORECASE)
_NOUNS = {"duration": "a duration", "size": "a size", "integer": "a whole number"}

_by_key = {setting.key: setting for setting in TABLE if not setting.is_prefix}
_prefixes = tuple(setting for setting in TABLE if setting.is_prefix)


def find_setting(key: str, value: str = "") -> Setting:
    """The row of a key. An unknown key raises InvalidSettingError that names key, value and the nearest valid name."""
    exact = _by_key.get(key)
    if exact is not None:
        return exact
    for setting in _prefixes:
        if key.startswith(setting.key) and key != setting.key:
            return setting
    raise InvalidSettingError(
        f"{_shown(key, value)}: there is no such setting; nearest valid name: {_nearest_name(key)}"
    )


def parse_value(setting: Setting, text: str) -> bool | int | str:
    """The value of a setting: bool, int (milliseconds, bytes or a count) or str.

    A value of the wrong form or out of range raises InvalidSettingError that names key, value, what is expected and the
    nearest valid value.
    """
    value = _try_parse(setting, text)
    if value is None:
        raise InvalidSettingError(
            f"{_shown(setting.key, text)}: expected {describe_values(setting)}{_suggestion(setting, text)}"
        )
    return value


def describe_values(setting: Setting) -> str:
    """The values that a setting accepts, as text: "a duration from 0ms to 1h"."""
    if setting.type in _NOUNS:
        return _NOUNS[setting.type] + _range(setting)
    if setting.type == "boolean":
        return "true or false"
    return " or ".join(setting.values) or "any text"


def _try_parse(setting: Setting, text: str) -> bool | int | str | None:
    """The value, or None when it is not acceptable."""
    text = text.strip()
    if setting.type == "boolean":
        return {"true": True, "false": False}.get(text.lower())
    if setting.type in _NOUNS:
        try:
            number = setting.number(text)
        except ValueError:
            return None
        return number if number == _clamp(setting, number) else None
    if setting.type == "enum":
        return text if text in setting.values else None
    return text if setting.pattern is None or re.fullmatch(setting.pattern, text) else None


def _clamp(setting: Setting, number: int) -> int:
    if setting.minimum is not None:
        number = max(number, setting.number(setting.minimum))
    if setting.maximum is not None:
        number = min(number, setting.number(setting.maximum))
    return number


def _range(setting: Setting) -> str:
    if setting.minimum is None and setting.maximum is None:
        return ""
    if setting.maximum is None:
        return f" of at least {setting.minimum}"
    return f" from {setting.minimum} to {setting.maximum}"


def _suggestion(setting: Setting, text: str) -> str:
    nearest = _nearest_value(setting, text)
    return "" if nearest is None else f"; nearest valid value: {nearest}"


def _nearest_value(setting: Setting, text: str) -> str | None:
    fallback = setting.default or setting.minimum
    if setting.type in _NOUNS:
        number = _guess(setting, text)
        return fallback if number is None else _written(setting, _clamp(setting, number))
    choices = ("true", "false") if setting.type == "boolean" else setting.values if setting.type == "enum" else ()
    close = difflib.get_close_matches(text.strip().lower(), choices, n=1)
    return close[0] if close else fallback


def _guess(setting: Setting, text: str) -> int | None:
    if setting.type == "duration":
        return guess_duration_ms(text)
    return guess_size_bytes(text) if setting.type == "size" else guess_count(text)


def _written(setting: Setting, number: int) -> str:
    if setting.type == "duration":
        return format_duration(number)
    return format_size(number) if setting.type == "size" else str(number)


def _nearest_name(key: str) -> str:
    typed = key[len(PREFIX) :] if key.startswith(PREFIX) else key
    tail = typed.partition(".")[2]
    names = [setting.name for setting in TABLE if not setting.is_prefix]
    names += [setting.name + tail for setting in _prefixes if tail]
    return PREFIX + difflib.get_close_matches(typed.lower(), names, n=1, cutoff=0.0)[0]


def _shown(key: str, value: str) -> str:
    return f"{key}={'(hidden)' if _SECRET.search(key) else value}"
