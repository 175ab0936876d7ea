"""The logs of one query's checkpoint: which batches were begun and committed, and what their entries say.

An entry is a file named by its batch: a version, a JSON object, and for offsets one line for each source. Source: Spark
4.2's OffsetSeqLog (v1, v2) and CommitLog (v1 to v3). CheckpointNotUnderstood is raised for entries of later versions.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mooring.errors import CheckpointError, CheckpointNotUnderstood

OFFSETS: Final = "offsets"
COMMITS: Final = "commits"

HDFS_BACKED: Final = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
"""Who keeps state where an entry does not say it."""

VOID_OFFSET: Final = "-"
"""How Spark writes that a source has no offset yet."""

_NEWEST_OFFSETS: Final = 2
_NEWEST_COMMITS: Final = 3
_WITH_IDS: Final = 2
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch that was committed.

    `at_ms` is when its entry was written, `watermark_ms` the watermark after it. `state_ids` has, by operator and
    partition, the unique ids of the versions of its stores; it is empty in checkpoints of format v1.
    """

    batch: int
    at_ms: int
    watermark_ms: int
    state_ids: Mapping[tuple[int, int], tuple[str, ...]]
    has_ids: bool = False
    """Whether the entry is of the form that has the ids of the state: always in v2, in v3 where state has format v2."""

    @property
    def version(self) -> int:
        """Of all state stores after this batch."""
        return self.batch + 1


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch as it was begun: up to which offset of each source it reads, None where it has read nothing.

    Sources go by the names of their directories: their numbers, or the names that the query gives them.

    `watermark_ms` is the watermark that it works with, `codec` the compression of its state's changelogs, `provider`
    the class that keeps its state. `partitions` is in how many partitions the batch has its state, None where the entry
    does not say it; Spark takes the number from here, and a repartition changes it. `at_ms` is when it was planned, by
    the entry itself: a copy of the checkpoint keeps that. It is 0 where the entry does not say it.
    """

    batch: int
    watermark_ms: int
    offsets: Mapping[str, str | None]
    codec: str
    provider: str
    partitions: int | None = None
    at_ms: int = 0


def batches_in(checkpoint: Path, log: str) -> tuple[int, ...]:
    """The batches that have an entry, in order. CheckpointError when the log can not be listed."""
    try:
        return tuple(sorted(int(path.name) for path in (checkpoint / log).iterdir() if path.name.isdigit()))
    except OSError as fault:
        raise CheckpointError(f"{checkpoint / log} can not be listed: {fault.strerror}") from fault


def read_commit(checkpoint: Path, batch: int) -> Commit:
    """One entry of `commits`. CheckpointError when it is missing, cut off or no such entry."""
    file = checkpoint / COMMITS / str(batch)
    content = _content(file)
    try:
        return parse_commit(str(file), batch, content, int(file.stat().st_mtime * 1000))
    except OSError as fault:
        raise CheckpointError(f"{file} can not be read: {fault}") from fault


def parse_commit(file: str, batch: int, content: bytes, at_ms: int) -> Commit:
    """The same, of what was read already."""
    lines, version = _lines(file, content, _NEWEST_COMMITS)
    form = _json(file, lines[1] if len(lines) > 1 else "{}")
    try:
        ids = form.get("stateUniqueIds")
        return Commit(
            batch,
            at_ms,
            int(form.get("nextBatchWatermarkMs", 0)),
            {
                (int(operator), partition): tuple(str(one) for one in stores)
                for operator, partitions in (ids or {}).items()
                for partition, stores in enumerate(partitions)
            },
            version == _WITH_IDS or ids is not None,
        )
    except (TypeError, ValueError, AttributeError) as fault:
        raise CheckpointError(f"{file} is not an entry of Spark's commit log: {fault}") from fault


def read_begun(checkpoint: Path, batch: int) -> Begun:
    """One entry of `offsets`. CheckpointError when it is missing, cut off or no such entry."""
    file = checkpoint / OFFSETS / str(batch)
    return parse_begun(str(file), batch, _content(file))


def parse_begun(file: str, batch: int, content: bytes) -> Begun:
    """The same, of what was read already."""
    lines, version = _lines(file, content, _NEWEST_OFFSETS)
    if len(lines) > 2 and not lines[1].strip():
        raise CheckpointNotUnderstood(f"{file} has no settings, as those of Spark before 2.1")
    form = _json(file, lines[1] if len(lines) > 1 else "")
    if form.get("controlBatchInfo"):
        raise CheckpointNotUnderstood(f"{file} is of a control batch, {json.dumps(form['controlBatchInfo'])}")
    named = [line.partition(":")[::2] if version == 2 else (str(number), line) for number, line in enumerate(lines[2:])]
    try:
        conf = form.get("conf", {})
        partitions = conf.get(_PARTITIONS)
        return Begun(
            batch,
            int(form.get("batchWatermarkMs", 0)),
            {source: None if offset == VOID_OFFSET else offset for source, offset in named},
            str(conf.get("spark.sql.streaming.stateStore.compression.codec", "lz4")),
            str(conf.get("spark.sql.streaming.stateStore.providerClass", HDFS_BACKED)),
            None if partitions is None else int(partitions),
            int(form.get("batchTimestampMs", 0)),
        )
    except (TypeError, ValueError, AttributeError) as fault:
        raise CheckpointError(f"{file} is not an entry of Spark's offset log: {fault}") from fault


def query_id(checkpoint: Path) -> str:
    """The id of the query that the checkpoint belongs to. CheckpointError when `metadata` does not say it."""
    file = checkpoint / "metadata"
    try:
        return str(json.loads(file.read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CheckpointError(f"{file} does not say the query's id: {fault}") from fault


def _content(file: Path) -> bytes:
    try:
        content = file.read_bytes()
    except FileNotFoundError as fault:
        raise CheckpointError(f"{file} is missing") from fault
    except PermissionError as fault:
        raise CheckpointNotUnderstood(f"{file} may not be read: {fault.strerror}") from fault
    except OSError as fault:
        raise CheckpointError(f"{file} can not be read: {fault}") from fault
    if not _is_as_written(content, file.with_name(f".{file.name}.crc")):
        raise CheckpointError(f"{file} has another content than was written, by its checksum: it is cut off or damaged")
    return content


def _is_as_written(content: bytes, sums: Path) -> bool:
    """By what Hadoop's local file system keeps beside each file: a mark, the length of a piece, a CRC32 for each.

    True where nothing is kept, as on other storage.
    """
    try:
        kept = sums.read_bytes()
    except OSError:
        return True
    piece = int.from_bytes(kept[4:8], "big")
    if kept[:4] != b"crc\0" or piece == 0:
        return True
    found = (zlib.crc32(content[at : at + piece]).to_bytes(4, "big") for at in range(0, len(content), piece))
    return b"".join(found) == kept[8:]


def _lines(file: str, content: bytes, newest: int) -> tuple[list[str], int]:
    """Without the empty lines at the end; the first one is the version, which is also returned as a number."""
    try:
        lines = content.decode().rstrip("\n").split("\n")
    except UnicodeDecodeError as fault:
        raise CheckpointError(f"{file} can not be read: {fault}") from fault
    if not (lines[0].startswith("v") and lines[0][1:].isdigit()):
        raise CheckpointError(f"{file} does not begin with a version, as v1: it is empty, cut off or damaged")
    version = int(lines[0][1:])
    if version > newest:
        raise CheckpointNotUnderstood(f"{file} is of version v{version}; known are those up to v{newest}")
    return lines, version


def _json(file: str, line: str) -> dict[str, Any]:
    try:
        form = json.loads(line)
    except ValueError as fault:
        raise CheckpointError(f"{file} is cut off or damaged in its second line: {fault}") from fault
    if not isinstance(form, dict):
        raise CheckpointError(f"{file} has no JSON object in its second line")
    return form
