"""Makes a new checkpoint as of a batch of another one, for a second run of the same query.

The other checkpoint is not changed. The new one is put together beside its place and moved there in one step. It gets a
query id of its own: sinks that know batches by query id then do not mix the two. It holds that one batch only.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from mooring.checkpoint.logs import COMMITS, OFFSETS
from mooring.checkpoint.needs import Needed
from mooring.checkpoint.source_log import SOURCES, cuts_after
from mooring.checkpoint.state_files import STATE, VersionFile
from mooring.checkpoint.survey import Survey
from mooring.errors import CheckpointError

_METADATA: Final = "metadata"
_SCHEMA_PATH: Final = re.compile(r'"((?:[a-z0-9]+:)?)([^":\\]*)(/state/\d+/_stateSchema/)')


@dataclass(frozen=True, slots=True)
class Branch:
    """Which files are copied: `files` are paths below `source`.

    `missing_input` are input files that later batches have read and that are gone: the new query can not read them.
    """

    source: Path
    to_batch: int
    missing_input: tuple[str, ...]
    files: tuple[Path, ...]

    @property
    def bytes(self) -> int:
        """The size of all files to copy."""
        return sum((self.source / file).stat().st_size for file in self.files)


def plan_branch(survey: Survey, to_batch: int) -> Branch:
    """Decide which files to copy.

    CheckpointError when the query could not go on after that batch; the message lists the batches that are possible.
    """
    survey.refuse_to_return(to_batch)
    checkpoint = survey.checkpoint
    cuts = cuts_after(checkpoint, survey.begun, to_batch)
    later = {entry for cut in cuts for entry in cut.entries}
    files = {
        *(
            checkpoint / log / str(number)
            for log in (OFFSETS, COMMITS)
            for number in (to_batch - 1, to_batch)
            if number >= 0
        ),
        *(path for path in (checkpoint / SOURCES).rglob("*") if path not in later),
        *_of_operators(checkpoint, to_batch),
        *(file for needed in survey.needed_after(to_batch) for file in _of_state(needed)),
    }
    plain = (file.relative_to(checkpoint) for file in files if file.is_file() and not file.name.startswith("."))
    return Branch(checkpoint, to_batch, tuple(path for cut in cuts for path in cut.missing), tuple(sorted(plain)))


def carry_out(branch: Branch, into: Path, step: Callable[[Path], None] = lambda path: None) -> str:
    """Make the new checkpoint, and return the id of its query. `step` is called with each file before it is copied.

    CheckpointError when `into` is taken, or when a file can not be copied; then nothing is made at `into`.
    """
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise CheckpointError(f"{into} is there already: expected the path of a checkpoint that is to be made")
    unseen = into.with_name(f".{into.name}.{uuid4().hex}")
    try:
        new_id = _make(branch, unseen, into, step)
        if into.exists():
            into.rmdir()
        unseen.rename(into)
    except OSError as fault:
        shutil.rmtree(unseen, ignore_errors=True)  # half a copy is of no use; the first fault is the one to report
        raise CheckpointError(f"{fault.filename}: {fault.strerror}; nothing was made at {into}") from fault
    except BaseException:
        shutil.rmtree(unseen, ignore_errors=True)
        raise
    return new_id


def _make(branch: Branch, directory: Path, into: Path, step: Callable[[Path], None]) -> str:
    into.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir()
    new_id = str(uuid4())
    (directory / _METADATA).write_text(json.dumps({"id": new_id}))
    for folder in (OFFSETS, COMMITS):
        (directory / folder).mkdir()
    for file in branch.files:
        step(file)
        target = directory / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.parts[0] == STATE and "_metadata" in file.parts and "v2" in file.parts:
            text = (branch.source / file).read_text(encoding="utf-8")
            target.write_text(_with_own_schemas(text, file, branch.source, into), encoding="utf-8")
        else:
            shutil.copyfile(branch.source / file, target)
    return new_id


def _with_own_schemas(text: str, file: Path, source: Path, into: Path) -> str:
    """Replace the checkpoint's path in an operator's description, which names its schema files by absolute path.

    CheckpointError where the description has another path than `source`. Spark then knows the checkpoint by another
    path, and the right path of the copy is not known.
    """
    for found in _SCHEMA_PATH.finditer(text):
        if found[2] != str(source):
            raise CheckpointError(
                f"{file} names its schemas in {found[1]}{found[2]}, and not in {source}: a copy would read them there;"
                " call this with the path that Spark uses, or restore in place"
            )
    return _SCHEMA_PATH.sub(lambda found: f'"{found[1]}{into}{found[3]}', text)


def _of_operators(checkpoint: Path, to_batch: int) -> Iterator[Path]:
    """The descriptions and schemas that operators have written, up to the batch."""
    for folder in ("_metadata", "_stateSchema"):
        for directory in sorted((checkpoint / STATE).rglob(folder)):
            for path in directory.rglob("*"):
                number = path.name.partition("_")[0]
                if not (number.isdigit() and int(number) > to_batch):
                    yield path


def _of_state(needed: Needed) -> Iterator[Path]:
    for name in needed.sizes:
        file = needed.store.directory / name
        yield file
        if VersionFile.parse(file.name) is not None:
            yield file.with_name(f"{file.name}.crc")
