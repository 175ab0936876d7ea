"""Keys and values as ZooKeeper's nodes. Pure.

A key is at `<namespace>/<key>`, each part escaped; one without a namespace is at `=none/<key>`. A value that fits is
the node's data as it is, so that other tools read it; what cannot be told from the path or does not fit has a first
line that begins with `mooring-zk/1`:

    mooring-zk/1 whole <bytes of key> <bytes of value>
    mooring-zk/1 parts <generation> <count> <bytes of value> <SHA-256> <bytes of key>
"""

from __future__ import annotations

import hashlib
import re
import string
from dataclasses import dataclass

from mooring.metadata.envelope import DamagedRecord
from mooring.metadata.escape import escape, unescape

NO_NAMESPACE = "=none"
GENERATIONS = "=generations"
CHANGES = "=writes"
"""Beside the namespaces; no escaped text is one of these, as `n`, `g` and `w` are no hexadecimal digits."""

_EMPTY = "="
_MAX_NAME = 200
_HASHED = "=h-"
_PLAIN = frozenset((string.ascii_letters + string.digits + "-_.:@+").encode())
_NAME = re.compile(r"(?:[A-Za-z0-9_.:@+-]|=[0-9a-f]{2})+")
_MAGIC = b"mooring-zk/1 "
_WHOLE = re.compile(rb"mooring-zk/1 whole ([0-9]{1,9}) ([0-9]{1,9})\n")
_PARTS = re.compile(rb"mooring-zk/1 parts ([0-9a-f]{32}) ([0-9]{1,6}) ([0-9]{1,9}) ([0-9a-f]{64}) ([0-9]{1,9})\n")


@dataclass(frozen=True)
class Split:
    """Where the value of a node is, when it is larger than a node may be."""

    generation: str
    count: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Head:
    """What a node's data says: the value, or where its parts are; the key, when it is not told by the path."""

    content: bytes | Split
    key: str | None = None


def node_name(text: str) -> str:
    """The node's name for any text: the text itself when it is plain. Two texts never share a name."""
    if not text:
        return _EMPTY
    escaped = "=2e" * len(text) if text in (".", "..") else escape(text, _PLAIN)
    if len(escaped) <= _MAX_NAME:
        return escaped
    return f"{_HASHED}{escaped[:40]}-{hashlib.sha256(text.encode('utf-8')).hexdigest()}"


def text_of(name: str) -> str | None:
    """The text that a node's name spells out; None for a hashed name and for a name that is not ours."""
    if name == _EMPTY:
        return ""
    if _NAME.fullmatch(name) is None:
        return None
    try:
        text = unescape(name)
    except ValueError:
        return None
    return text if node_name(text) == name else None


def path_of_key(key: str) -> str:
    """Where a key's node is, below the directory of all values: a directory and a name."""
    namespace, slash, rest = key.partition("/")
    if slash and namespace:
        return f"{node_name(namespace)}/{node_name(rest)}"
    return f"{NO_NAMESPACE}/{node_name(key)}"


def key_of_path(path: str) -> str | None:
    """The key that a path spells out; None when a part of it is hashed or not ours: ask the node's data."""
    directory, _, name = path.partition("/")
    rest = text_of(name)
    if rest is None:
        return None
    if directory == NO_NAMESPACE:
        return rest if path_of_key(rest) == path else None
    namespace = text_of(directory)
    return None if not namespace else f"{namespace}/{rest}"


def pack_whole(value: bytes, key: str | None) -> bytes:
    """The data of a node that holds its value; `key` when the path does not tell it."""
    if key is None and not value.startswith(_MAGIC):
        return value
    encoded = (key or "").encode("utf-8")
    return _MAGIC + b"whole %d %d\n%s\n%s" % (len(encoded), len(value), encoded, value)


def pack_parts(split: Split, key: str | None) -> bytes:
    """The data of a node whose value is in parts."""
    encoded = (key or "").encode("utf-8")
    words = f"parts {split.generation} {split.count} {split.size} {split.sha256} {len(encoded)}\n"
    return _MAGIC + words.encode("ascii") + encoded + b"\n"


def unpack(data: bytes) -> Head:
    """What a node's data says. DamagedRecord for data that begins as ours and does not fit its first line."""
    if not data.startswith(_MAGIC):
        return Head(data)
    whole, parts = _WHOLE.match(data), _PARTS.match(data)
    if whole is not None:
        key, value = _after(data, whole.end(), int(whole[1]))
        if len(value) == int(whole[2]):
            return Head(value, key)
    if parts is not None:
        key, rest = _after(data, parts.end(), int(parts[5]))
        if not rest:
            return Head(Split(parts[1].decode(), int(parts[2]), int(parts[3]), parts[4].decode()), key)
    raise DamagedRecord("it does not fit its first line")


def _after(data: bytes, start: int, key_size: int) -> tuple[str | None, bytes]:
    """The key (None when it is empty: then the path tells it), and what follows it."""
    encoded, end = data[start : start + key_size], start + key_size
    if data[end : end + 1] != b"\n":
        raise DamagedRecord("it is cut off")
    try:
        return encoded.decode("utf-8") or None, data[end + 1 :]
    except UnicodeDecodeError:
        raise DamagedRecord("its key is not text") from None
