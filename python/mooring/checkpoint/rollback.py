"""Takes a checkpoint back to an earlier batch, in place: it removes what came after that batch.

The newest batch goes first, and its commit goes before its offsets. So Spark could start from the rest at every moment:
the last batch is then at most begun and not committed, and Spark does such a batch again.
A note names the batch to go back to while the rollback is under way. The plugin then starts no query on the checkpoint,
and the next `mooring restore` finishes the rollback. The files of state that are no longer needed go last.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mooring.checkpoint.drain_marks import marks_after
from mooring.checkpoint.lease import DIRECTORY
from mooring.checkpoint.logs import COMMITS, OFFSETS, batches_in
from mooring.checkpoint.notes import leave_note
from mooring.checkpoint.source_log import cuts_after
from mooring.checkpoint.state_files import STATE, VersionFile
from mooring.checkpoint.survey import Survey
from mooring.errors import CheckpointError

UNDER_WAY: Final = "restoring.json"
UNDONE: Final = "undone.json"
"""A note for the plugin, which stays: the last batch that was undone. A sink may remember batches up to that one."""

_OF_BATCH: Final = re.compile(r"(\d+)(_.*)?")
_OF_OPERATOR: Final = ("_metadata", "_stateSchema")
_NAMED_BY_ARCHIVES: Final = ("SSTs", "logs")


@dataclass(frozen=True, slots=True)
class Rollback:
    """What is removed to go back to a batch, in this order; Hadoop's checksum files go with their files.

    `batches` are the batches that are undone, newest first. `missing_input` are input files of those batches that are
    gone: the query can not read them again. `directories` belong to partitions that have no state as of the batch. They
    go last. Spark's reader of state, and so a repartition, takes each directory for a partition with state.
    """

    checkpoint: Path
    to_batch: int
    batches: tuple[int, ...]
    missing_input: tuple[str, ...]
    files: tuple[Path, ...]
    directories: tuple[Path, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of all files that are still there."""
        return sum(file.stat().st_size for file in self.files if file.exists())


def plan_rollback(survey: Survey, to_batch: int) -> Rollback:
    """Decide what to remove. The plan is empty for the newest commit: Spark repeats a batch that was begun after it.

    CheckpointError when the query could not go on after that batch; the message lists the batches that are possible.
    CheckpointNotUnderstood where the rollback would undo a batch that can not be judged.
    """
    survey.refuse_to_return(to_batch)
    survey.refuse_to_undo(to_batch)
    checkpoint = survey.checkpoint
    committed, begun = (
        {batch for batch in batches_in(checkpoint, log) if batch > to_batch} for log in (COMMITS, OFFSETS)
    )
    # A later entry that can not be read is no commit. It must go too, as Spark would fail on it.
    is_newest = not committed and begun <= {to_batch + 1} and begun <= survey.begun.keys()
    if is_newest and under_way(checkpoint) is None:  # otherwise an earlier rollback was cut off here
        return Rollback(checkpoint, to_batch, (), (), ())
    batches = sorted(committed | begun, reverse=True)
    cuts = cuts_after(checkpoint, survey.begun, to_batch)
    later = dict.fromkeys(_of_state(checkpoint, to_batch))  # in order
    without_state = tuple(_partitions_without_state(checkpoint, to_batch))
    remaining = (path for directory in without_state for path in sorted(directory.rglob("*")) if path not in later)
    files = (
        *(path for batch in batches for log in (COMMITS, OFFSETS) if (path := checkpoint / log / str(batch)).exists()),
        *(entry for cut in cuts for entry in cut.entries),
        *later,
        *(path for path in remaining if path.is_file() and not path.name.startswith(".")),
        *marks_after(checkpoint, to_batch),
    )
    missing = tuple(path for cut in cuts for path in cut.missing)
    return Rollback(checkpoint, to_batch, tuple(batches), missing, files, without_state)


def carry_out(
    rollback: Rollback, check: Callable[[], None] = lambda: None, step: Callable[[Path], None] = lambda path: None
) -> None:
    """Go back.

    `check` is called when no query can start any more. If it raises, nothing is changed. `step` is called with each
    file before the file is removed. CheckpointError when a file can not be removed; the same call then goes on there.
    """
    note = rollback.checkpoint / DIRECTORY / UNDER_WAY
    was_begun = note.exists()
    try:
        leave_note(rollback.checkpoint, UNDER_WAY, {"to-batch": rollback.to_batch})
    except OSError as fault:
        raise CheckpointError(f"{fault.filename}: {fault.strerror}; nothing was changed") from fault
    try:
        try:
            check()
        except BaseException:
            if not was_begun:
                note.unlink(missing_ok=True)
            raise
        if rollback.batches:
            until = max(rollback.batches[0], undone_until(rollback.checkpoint))
            leave_note(rollback.checkpoint, UNDONE, {"until": until})
        for file in rollback.files:
            step(file)
            _remove(file)
        for directory in rollback.directories:
            shutil.rmtree(directory)
        note.unlink(missing_ok=True)
    except OSError as fault:
        raise CheckpointError(
            f"{fault.filename}: {fault.strerror}; the checkpoint is on its way to batch {rollback.to_batch}, and"
            " the same command goes on with that"
        ) from fault


def undone_until(checkpoint: Path) -> int:
    """The last batch that any rollback of this checkpoint has undone; -1 for none."""
    note = checkpoint / DIRECTORY / UNDONE
    try:
        return int(json.loads(note.read_text())["until"])
    except FileNotFoundError:
        return -1
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CheckpointError(f"{note} can not be read: {fault}") from fault


def under_way(checkpoint: Path) -> int | None:
    """The batch of a rollback that is not finished; None when there is no such rollback."""
    note = checkpoint / DIRECTORY / UNDER_WAY
    try:
        return int(json.loads(note.read_text())["to-batch"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CheckpointError(f"{note} can not be read: {fault}") from fault


def _of_state(checkpoint: Path, to_batch: int) -> Iterator[Path]:
    """Archives and changelogs of later versions, and later descriptions and schemas of operators.

    SST files stay: Spark's own clean-up removes those that no archive names.
    """
    for directory, folders, names in os.walk(checkpoint / STATE):
        folders.sort()
        of_operator = any(part in _OF_OPERATOR for part in Path(directory).relative_to(checkpoint).parts)
        for name in sorted(names):
            if name.startswith("."):
                continue  # Hadoop's checksum file, which is removed with its file
            if of_operator:
                found = _OF_BATCH.fullmatch(name)
                is_later = found is not None and int(found[1]) > to_batch
            else:
                version = VersionFile.parse(name.removesuffix(".crc"))
                is_later = version is not None and version.version > to_batch + 1
            if is_later:
                yield Path(directory, name)


def _partitions_without_state(checkpoint: Path, to_batch: int) -> Iterator[Path]:
    """Directories of partitions that have no state as of the batch and no unknown file.

    The first partition stays: it has the schema of all partitions.
    """
    for directory in sorted((checkpoint / STATE).glob("[0-9]*/[0-9]*")):
        files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".")]
        versions = [VersionFile.parse(path.name.removesuffix(".crc")) for path in files]
        is_known = all(
            version is not None or path.parent.name in _NAMED_BY_ARCHIVES
            for path, version in zip(files, versions, strict=True)
        )
        has_state = any(file and file.version <= to_batch + 1 for file in versions)
        if directory.name != "0" and is_known and not has_state:
            yield directory


def _remove(file: Path) -> None:
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # first: a second call looks for the file itself
    file.unlink(missing_ok=True)
