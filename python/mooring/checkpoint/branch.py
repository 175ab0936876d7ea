"""A new checkpoint as of a batch of another one, which is left as it is: for a second run of the same query.

It is put together beside its place and comes there in one step. It has an id of its own, so that sinks that know
batches by the query's id take its batches for those of another query, and reaches back to that one batch only.
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
    """Which files are copied, by path below the checkpoint.

    `missing_input` are files that later batches have read and that are gone: the new query will not read them.
    """

    source: Path
    to_batch: int
    missing_input: tuple[str, ...]
    files: tuple[Path, ...]

    @property
    def bytes(self) -> int:
        """What they weigh."""
        return sum((self.source / file).stat().st_size for file in self.files)


def plan_branch(survey: Survey, to_batch: int) -> Branch:
    """What is to be copied. CheckpointError when that batch can not be gone back to, with the batches that can."""
    survey.refuse_to_return(to_batch)
    checkpoint = survey.checkpoint
    cuts = cuts_after(checkpoint, survey.begun, to_batch)
    later = {entry for cut in cuts for entry in cut.entries}
    files = {
        *(checkpoint / log / str(one) for log in (OFFSETS, COMMITS) for one in (to_batch - 1, to_batch) if one >= 0),
        *(path for path in (checkpoint / SOURCES).rglob("*") if path not in later),
        *_of_operators(checkpoint, to_batch),
        *(file for needed in survey.needed_after(to_batch) for file in _of_state(needed)),
    }
    plain = (file.relative_to(checkpoint) for file in files if file.is_file() and not file.name.startswith("."))
    return Branch(checkpoint, to_batch, tuple(path for cut in cuts for path in cut.missing), tuple(sorted(plain)))


def carry_out(branch: Branch, into: Path, step: Callable[[Path], None] = lambda path: None) -> str:
    """Make the new checkpoint, and answer the id of its query.

    CheckpointError when the place is taken, or a file can not be copied; there is nothing at the place then.
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
        shutil.rmtree(unseen, ignore_errors=True)  # what was copied is of no use, and the first fault is what matters
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
    """An operator's description names the files of its schemas by whole paths, those of its own checkpoint.

    CheckpointError where Spark knows the checkpoint by another path: then it is not known by which it will know this.
    """
    for found in _SCHEMA_PATH.finditer(text):
        if found[2] != str(source):
            raise CheckpointError(
                f"{file} names its schemas in {found[1]}{found[2]}, and not in {source}: a copy would read them there;"
                " call this with the path that Spark uses, or restore in place"
            )
    return _SCHEMA_PATH.sub(lambda found: f'"{found[1]}{into}{found[3]}', text)


def _of_operators(checkpoint: Path, to_batch: int) -> Iterator[Path]:
    """What operators have written of themselves until the batch."""
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
