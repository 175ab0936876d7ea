"""What Spark's libraries find in a state file: it is good, or damaged, or they can not tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.checkpoint import Proofs
from mooring.errors import CheckpointNotUnderstood

pytestmark = pytest.mark.one_jvm

UNKNOWN = "not understood"


@pytest.fixture(scope="module")
def proofs() -> Iterator[Proofs]:
    with Proofs() as proofs:
        yield proofs


def crc32c(content: bytes) -> int:
    """The checksum as a signed number of 32 bits, as in Java."""
    sum = 0xFFFFFFFF
    for byte in content:
        sum ^= byte
        for _ in range(8):
            sum = sum >> 1 ^ (0x82F63B78 if sum & 1 else 0)
    return int.from_bytes((sum ^ 0xFFFFFFFF).to_bytes(4, "big"), "big", signed=True)


def zstd(content: bytes) -> bytes:
    """One frame of one block that is not compressed."""
    block = (len(content) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(content)]) + block + content


END = (-1).to_bytes(4, "big", signed=True)
EMPTY = zstd(END)
"""A changelog of format version 1, whose header has no version."""


def changelog(version: str) -> bytes:
    """A changelog of a later format version."""
    return zstd(len(version).to_bytes(2, "big") + version.encode() + END)


@pytest.mark.parametrize(
    ("name", "content", "codec", "sum", "told"),
    [
        ("7_a.changelog", EMPTY, "zstd", None, None),
        ("7_a.changelog", changelog("v7"), "zstd", None, UNKNOWN),
        ("7_a.changelog", EMPTY, "of.another.Spark", None, UNKNOWN),
        ("7_a.changelog", EMPTY[:-9], "zstd", None, "damaged"),
        ("7_a.changelog", EMPTY[:-9], "zstd", EMPTY[:-9], UNKNOWN),
        ("7_a.changelog", changelog("v7"), "zstd", changelog("v3"), "damaged"),
        ("7_a.zip", b"no archive", "zstd", None, "damaged"),
        ("7_a.zip", b"no archive", "zstd", b"an archive", "damaged"),
        ("7_a.zip", b"no archive", "zstd", b"no archive", UNKNOWN),
        ("7.zip", b"no archive", "zstd", b"an archive", "damaged"),
    ],
)
def test_only_a_file_that_is_known_to_be_wrong_counts_as_damaged(
    name: str, content: bytes, codec: str, sum: bytes | None, told: str | None, proofs: Proofs, tmp_path: Path
) -> None:
    """`sum` is the content whose checksum is stored beside the file."""
    file = tmp_path / name
    file.write_bytes(content)
    if sum is not None:
        form = {"algorithm": "CRC32C", "value": crc32c(sum), "mainFileSize": len(sum), "timestampMs": 1}
        creator = {"executorId": "driver", "taskInfo": "none"}
        file.with_name(f"{name}.crc").write_text(json.dumps({**form, "creator": creator}))
    try:
        found = "damaged" if proofs.fault_of(file, codec) else None
    except CheckpointNotUnderstood:
        found = UNKNOWN
    assert found == told
