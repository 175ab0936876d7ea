"""The content of a record's file: a first line with lengths and a checksum, then the key, then the value.

    mooring-metadata/1 <bytes of key> <bytes of value> <SHA-256 of both>
    <key>
    <value>

The first line shows when a file was cut off, overwritten in part, or written by another program.
"""

from __future__ import annotations

import hashlib
import re

from mooring.metadata.store import MAX_VALUE_BYTES

MAX_RECORD_BYTES = MAX_VALUE_BYTES + 1024 * 1024
"""No record is larger: the largest value, and room for a long key. A larger file is not read."""

_FIRST_LINE = re.compile(rb"mooring-metadata/1 ([0-9]{1,9}) ([0-9]{1,9}) ([0-9a-f]{64})\n")
_OTHER_FORM = re.compile(rb"mooring-metadata/([0-9]{1,9}) ")
_LONGEST_FIRST_LINE = 128


class DamagedRecord(ValueError):
    """The bytes are not a whole record; the message says why. The stores catch this."""


def pack(key: str, value: bytes) -> bytes:
    """The bytes of a record's file."""
    encoded = key.encode("utf-8")
    return b"mooring-metadata/1 %d %d %s\n%s\n%s" % (
        len(encoded),
        len(value),
        _checksum(encoded, value),
        encoded,
        value,
    )


def unpack(data: bytes) -> tuple[str, bytes]:
    """Key and value of a record's file. DamagedRecord for anything that `pack` does not return."""
    if not data:
        raise DamagedRecord("it is empty")
    line = _FIRST_LINE.match(data[:_LONGEST_FIRST_LINE])
    if line is None:
        other = _OTHER_FORM.match(data)
        if other is not None and int(other[1]) > 1:
            raise DamagedRecord(f"a later Mooring wrote it, in format {int(other[1])}; this one reads format 1")
        raise DamagedRecord("it is not a record of Mooring")
    key_size, value_size = int(line[1]), int(line[2])
    expected = line.end() + key_size + 1 + value_size
    if len(data) != expected:
        raise DamagedRecord(f"it has {len(data)} bytes where its first line announces {expected}")
    encoded = data[line.end() : line.end() + key_size]
    value = data[line.end() + key_size + 1 :]
    if _checksum(encoded, value) != line[3]:
        raise DamagedRecord("its checksum is wrong")
    return encoded.decode("utf-8"), value


def _checksum(key: bytes, value: bytes) -> bytes:
    digest = hashlib.sha256(b"%d " % len(key))
    digest.update(key)
    digest.update(value)
    return digest.hexdigest().encode("ascii")
