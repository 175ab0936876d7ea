"""Keys as file names that any file system can hold, also one that does not distinguish upper and lower case."""

from __future__ import annotations

import hashlib
import re

from mooring.metadata.escape import escape, unescape

MAX_NAME_BYTES = 143
"""Encrypted home directories (eCryptfs) allow only 143 of the usual 255 bytes."""

_SUFFIX = ".v1"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
_WHOLE = re.compile(r"k-((?:[a-z0-9._-]|=[0-9a-f]{2})*)\.v1")
_OTHER_FORM = re.compile(r"[kh]-[a-z0-9._=-]*\.v([2-9]|[1-9][0-9]+)")
_HASHED = re.compile(r"h-(?:[a-z0-9._=-]{40})-[0-9a-f]{64}\.v1")


def file_name(key: str) -> str:
    """The name of a key's file: `k-<key>.v1` with everything but a-z, 0-9, dash, underscore and dot as `=<hex>`.

    The name of a key that is too long for this is `h-<its beginning>-<its SHA-256>.v1`. Then only the file's content
    has the key. Two keys never share a name.
    """
    escaped = escape(key, _PLAIN)
    name = f"k-{escaped}{_SUFFIX}"
    if len(name) <= MAX_NAME_BYTES:
        return name
    return f"h-{escaped[:40]}-{hashlib.sha256(key.encode('utf-8')).hexdigest()}{_SUFFIX}"


def is_record_name(name: str) -> bool:
    """Whether `file_name` returns such a name."""
    return len(name) <= MAX_NAME_BYTES and (_HASHED.fullmatch(name) is not None or key_of(name) is not None)


def is_record_of_another_form(name: str) -> bool:
    """Whether a later version of Mooring writes such a name. This version cannot read its file."""
    return _OTHER_FORM.fullmatch(name) is not None


def key_of(name: str) -> str | None:
    """The key of a file name; None for a hashed name, and for a name that `file_name` never returns."""
    match = _WHOLE.fullmatch(name)
    if match is None or len(name) > MAX_NAME_BYTES:
        return None
    try:
        key = unescape(match[1])
    except UnicodeDecodeError:
        return None
    return key if file_name(key) == name else None
