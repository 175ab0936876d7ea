"""A checkpoint goes back to an earlier batch, in place: what came after it is removed.

Newest batch first, its commit before its offsets, so that Spark could start from what is left at every moment: in
between, the last batch is one that was begun and not committed, which it does again. A note says meanwhile that this is
under way, and where to; the plugin starts no query on it, and the next `mooring restore` goes on. Files of state that
nothing names any more go last.
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
"""For the plugin, for good: up to which batch the query does again what its sink may remember."""

_OF_BATCH: Final = re.compile(r"(\d+)(_.*)?")
_OF_OPERATOR: Final = ("_metadata", "_stateSchema")
_NAMED_BY_ARCHIVES: Final = ("SSTs", "logs")


@dataclass(frozen=True, slots=True)
class Rollback:
    """What is removed to go back to a batch, in this order; sidecar checksums of Hadoop's go with their files.

    `batches` are those that are undone, newest first. `missing_input` are files that they have read and that are gone:
    the query will not read them again. `directories` go last, of partitions that have no state as of the batch: Spark's
    reader of state, and so a repartition, takes each that is there for a partition with state.
    """

    checkpoint: Path
    to_batch: int
    batches: tuple[int, ...]
    missing_input: tuple[str, ...]
    files: tuple[Path, ...]
    directories: tuple[Path, ...] = ()

    @property
    def bytes(self) -> int:
        """What the files weigh."""
        return sum(file.stat().st_size for file in self.files if file.exists())


def plan_rollback(survey: Survey, to_batch: int) -> Rollback:
    """How to go back. CheckpointError when that is not possible, with the batches that are.

    CheckpointNotUnderstood where it would undo a batch that can not be judged.

    Back to the newest commit nothing is to be undone: a batch that was begun after it is repeated as it was, by Spark.
    """
    survey.refuse_to_return(to_batch)
    survey.refuse_to_undo(to_batch)
    checkpoint = survey.checkpoint
    committed, begun = ({one for one in batches_in(checkpoint, log) if one > to_batch} for log in (COMMITS, OFFSETS))
    # A later entry that can not be read is no commit, and Spark would end at it all the same.
    is_newest = not committed and begun <= {to_batch + 1} and begun <= survey.begun.keys()
    if is_newest and under_way(checkpoint) is None:  # else it is what is left of one that was cut off
        return Rollback(checkpoint, to_batch, (), (), ())
    batches = sorted(committed | begun, reverse=True)
    cuts = cuts_after(checkpoint, survey.begun, to_batch)
    later = dict.fromkeys(_of_state(checkpoint, to_batch))  # in order
    without_state = tuple(_partitions_without_state(checkpoint, to_batch))
    left = (path for directory in without_state for path in sorted(directory.rglob("*")) if path not in later)
    files = (
        *(path for one in batches for log in (COMMITS, OFFSETS) if (path := checkpoint / log / str(one)).exists()),
        *(entry for cut in cuts for entry in cut.entries),
        *later,
        *(path for path in left if path.is_file() and not path.name.startswith(".")),
        *marks_after(checkpoint, to_batch),
    )
    missing = tuple(path for cut in cuts for path in cut.missing)
    return Rollback(checkpoint, to_batch, tuple(batches), missing, files, without_state)


def carry_out(
    rollback: Rollback, check: Callable[[], None] = lambda: None, step: Callable[[Path], None] = lambda path: None
) -> None:
    """Go back. `check` is called when no query can start any more; what it raises ends this before anything changes.

    `step` hears of each file before it is removed. CheckpointError when one can not be: then the same call goes on with
    what is left.
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
    """The last batch that was ever undone here; -1 for none."""
    note = checkpoint / DIRECTORY / UNDONE
    try:
        return int(json.loads(note.read_text())["until"])
    except FileNotFoundError:
        return -1
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CheckpointError(f"{note} can not be read: {fault}") from fault


def under_way(checkpoint: Path) -> int | None:
    """The batch to which a rollback was begun and not ended; None when there is none."""
    note = checkpoint / DIRECTORY / UNDER_WAY
    try:
        return int(json.loads(note.read_text())["to-batch"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CheckpointError(f"{note} can not be read: {fault}") from fault


def _of_state(checkpoint: Path, to_batch: int) -> Iterator[Path]:
    """Archives and changelogs of later versions, and what operators have written of themselves since.

    SST files stay until Spark's own clean-up finds that no archive names them.
    """
    for directory, folders, names in os.walk(checkpoint / STATE):
        folders.sort()
        of_operator = any(part in _OF_OPERATOR for part in Path(directory).relative_to(checkpoint).parts)
        for name in sorted(names):
            if name.startswith("."):
                continue  # Hadoop's checksum of another, which goes with it
            if of_operator:
                found = _OF_BATCH.fullmatch(name)
                is_later = found is not None and int(found[1]) > to_batch
            else:
                version = VersionFile.parse(name.removesuffix(".crc"))
                is_later = version is not None and version.version > to_batch + 1
            if is_later:
                yield Path(directory, name)


def _partitions_without_state(checkpoint: Path, to_batch: int) -> Iterator[Path]:
    """As of the batch; those in which nothing lies that is not known. The first partition has the schema of all."""
    for directory in sorted((checkpoint / STATE).glob("[0-9]*/[0-9]*")):
        files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".")]
        versions = [VersionFile.parse(path.name.removesuffix(".crc")) for path in files]
        is_known = all(
            one is not None or path.parent.name in _NAMED_BY_ARCHIVES for path, one in zip(files, versions, strict=True)
        )
        if directory.name != "0" and is_known and not any(one and one.version <= to_batch + 1 for one in versions):
            yield directory


def _remove(file: Path) -> None:
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # before its file, which is what is looked for
    file.unlink(missing_ok=True)
