"""Reads the two logs of a checkpoint: `offsets`, the batches that were begun, and `commits`, those that were committed.

An entry is a file named by its batch. It has a version, a JSON object, and in `offsets` one line for each source.
Source: Spark 4.2's OffsetSeqLog (versions 1 and 2 of the log) and CommitLog (1 to 3). Later versions raise
CheckpointNotUnderstood. The version of a log is not the format of the checkpoint's state (v1 or v2).
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
"""The provider of state stores that Spark uses where an entry names none."""

VOID_OFFSET: Final = "-"
"""How Spark writes that a source has no offset yet."""

_NEWEST_OFFSETS: Final = 2
_NEWEST_COMMITS: Final = 3
_COMMITS_ALWAYS_WITH_IDS: Final = 2
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch that was committed.

    `at_ms` is when its entry was written. `watermark_ms` is the watermark after it. Both are milliseconds since the
    epoch. `state_ids` maps (operator, partition) to the unique ids of the versions of the stores there. It is empty in
    checkpoints of format v1.
    """

    batch: int
    at_ms: int
    watermark_ms: int
    state_ids: Mapping[tuple[int, int], tuple[str, ...]]
    has_ids: bool = False
    """Whether the entry has ids of state: always in version 2 of the log, in version 3 if the state has format v2."""

    @property
    def version(self) -> int:
        """The version of all state stores after this batch."""
        return self.batch + 1

    @property
    def ids_of_first_partition(self) -> frozenset[str]:
        """The unique ids of the versions in partition 0, over all operators. They tell attempts of a batch apart."""
        return frozenset(
            unique_id for (_, partition), of_task in self.state_ids.items() if partition == 0 for unique_id in of_task
        )


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """A batch that was begun: its entry in the offset log.

    `offsets` has the offset up to which the batch reads each source, None where it reads nothing. The key of a source
    is the name of its directory: its number, or the name that the query gives it.
    `watermark_ms` is the watermark of the batch. `codec` is the compression of its changelogs. `provider` is the class
    that keeps its state. `partitions` is the number of its state partitions, None where the entry does not say it.
    Spark takes the number from this entry, and a repartition changes it.
    `at_ms` is when the batch was planned, 0 where the entry does not say it. The time is in the entry, so a copy of the
    checkpoint has the same time.
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
    """One entry of `commits`. CheckpointError when the file is missing, cut off, or not an entry."""
    file = checkpoint / COMMITS / str(batch)
    content = _content(file)
    try:
        return parse_commit(str(file), batch, content, int(file.stat().st_mtime * 1000))
    except OSError as fault:
        raise CheckpointError(f"{file} can not be read: {fault}") from fault


def parse_commit(file: str, batch: int, content: bytes, at_ms: int) -> Commit:
    """One entry of `commits` from its content; `file` is for messages. Errors as in `read_commit`."""
    lines, version = _lines(file, content, _NEWEST_COMMITS)
    form = _json(file, lines[1] if len(lines) > 1 else "{}")
    try:
        ids = form.get("stateUniqueIds")
        return Commit(
            batch,
            at_ms,
            int(form.get("nextBatchWatermarkMs", 0)),
            {
                (int(operator), partition): tuple(str(unique_id) for unique_id in stores)
                for operator, partitions in (ids or {}).items()
                for partition, stores in enumerate(partitions)
            },
            version == _COMMITS_ALWAYS_WITH_IDS or ids is not None,
        )
    except (TypeError, ValueError, AttributeError) as fault:
        raise CheckpointError(f"{file} is not an entry of Spark's commit log: {fault}") from fault


def read_begun(checkpoint: Path, batch: int) -> BegunBatch:
    """One entry of `offsets`. CheckpointError when the file is missing, cut off, or not an entry."""
    file = checkpoint / OFFSETS / str(batch)
    return parse_begun(str(file), batch, _content(file))


def parse_begun(file: str, batch: int, content: bytes) -> BegunBatch:
    """One entry of `offsets` from its content; `file` is for messages. Errors as in `read_begun`."""
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
        return BegunBatch(
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
    """Compare the content with the checksums that Hadoop's local file system keeps in a file beside it.

    That file has a mark of four bytes, the length of a piece, and a CRC32 of each piece. True where there is no such
    file, as on other storage.
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
    """The lines without empty ones at the end, and the version as a number. The first line holds the version."""
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
