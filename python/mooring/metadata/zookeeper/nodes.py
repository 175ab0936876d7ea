"""How keys and values are stored in ZooKeeper's nodes. Pure functions.

A key is at `<namespace>/<key>`, each part escaped; a key without a namespace is at `=none/<key>`. A value that fits is
the node's data as it is, so that other tools can read it. In two cases the data begin with a line of Mooring's, and the
key follows it:

    mooring-zk/1 whole <bytes of key> <bytes of value>
        The key is too long for a path, or the value itself begins with `mooring-zk/1`. The value follows the key.
    mooring-zk/1 parts <generation> <count> <bytes of value> <SHA-256> <bytes of key>
        The value is larger than a node may be; `parts` says where it is. The key is empty where the path tells it.
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
"""Directories beside the namespaces. No escaped text has such a name: `n`, `g` and `w` are no hexadecimal digits."""

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
    """Where a value is that is larger than a node may be: its generation, the number of its parts, its bytes."""

    generation: str
    count: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Head:
    """The content of a node's data: the value, or where its parts are; and the key, where the path does not tell it."""

    content: bytes | Split
    key: str | None = None


def node_name(text: str) -> str:
    """The node's name for a text: the text itself where ZooKeeper allows it. Two texts never share a name."""
    if not text:
        return _EMPTY
    escaped = "=2e" * len(text) if text in (".", "..") else escape(text, _PLAIN)
    if len(escaped) <= _MAX_NAME:
        return escaped
    return f"{_HASHED}{escaped[:40]}-{hashlib.sha256(text.encode('utf-8')).hexdigest()}"


def text_of(name: str) -> str | None:
    """The text of a node's name; None for a hashed name, and for a name that `node_name` never returns."""
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
    """The path of a key's node below the directory of all values: `<directory>/<name>`."""
    namespace, slash, rest = key.partition("/")
    if slash and namespace:
        return f"{node_name(namespace)}/{node_name(rest)}"
    return f"{NO_NAMESPACE}/{node_name(key)}"


def key_of_path(path: str) -> str | None:
    """The key of a path; None where a part of the path is hashed or not from Mooring: the node's data may have it."""
    directory, _, name = path.partition("/")
    rest = text_of(name)
    if rest is None:
        return None
    if directory == NO_NAMESPACE:
        return rest if path_of_key(rest) == path else None
    namespace = text_of(directory)
    return None if not namespace else f"{namespace}/{rest}"


def pack_whole(value: bytes, key: str | None) -> bytes:
    """The data of a node that holds its value. `key` is given where the path does not tell it."""
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
    """The content of a node's data. DamagedRecord where a first line of Mooring's does not fit the rest."""
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
    """The key and the bytes that follow it. The key is None where it is empty: then the path tells it."""
    encoded, end = data[start : start + key_size], start + key_size
    if data[end : end + 1] != b"\n":
        raise DamagedRecord("it is cut off")
    try:
        return encoded.decode("utf-8") or None, data[end + 1 :]
    except UnicodeDecodeError:
        raise DamagedRecord("its key is not text") from None
