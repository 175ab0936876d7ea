"""Texts as names of files and nodes: a byte that is not allowed there becomes `=<hex>`. No two texts share a name."""

from __future__ import annotations

import re
from collections.abc import Collection

_ESCAPED = re.compile(rb"=([0-9a-f]{2})")


def escape(text: str, plain: Collection[int]) -> str:
    """The UTF-8 bytes of a text: those in `plain` as they are, all others as `=<hex>`. `=` must not be in `plain`."""
    return "".join(chr(byte) if byte in plain else f"={byte:02x}" for byte in text.encode("utf-8"))


def unescape(name: str) -> str:
    """The text that `escape` was given. ValueError where the bytes are not UTF-8."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), name.encode("ascii")).decode("utf-8")
