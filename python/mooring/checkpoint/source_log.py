"""Decides where to cut the logs of file sources, `sources/<source>`, for a query that goes back to a batch.

A file source notes in its log the files that it has found. Without the cut, the next batch would read all files in the
log at once. Source: Spark 4.2's FileStreamSourceLog. An entry is a file named by its number. Every tenth entry (or as
the job sets it) is named `<number>.compact` and also has all earlier entries. Spark keeps entries for as many batches
as the offset log has, so each batch that a query can go back to has its entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mooring.checkpoint.logs import BegunBatch
from mooring.errors import CheckpointError, CheckpointNotUnderstood

SOURCES: Final = "sources"
_COMPACT: Final = ".compact"
_VERSION: Final = "v1"


@dataclass(frozen=True, slots=True)
class SourceCut:
    """What is cut off from the log of one source.

    `entries` are the files of the log, newest first. `missing` are input files in those entries that are gone. A source
    that reads again skips missing files without an error.
    """

    entries: tuple[Path, ...]
    missing: tuple[str, ...]


def cuts_after(checkpoint: Path, begun: Mapping[int, BegunBatch], batch: int) -> tuple[SourceCut, ...]:
    """The cuts of all file sources of the query, as of a batch.

    CheckpointError where an entry is missing, or where it is not clear which log belongs to which source.
    """
    offsets = begun[batch].offsets
    found: dict[Path, SourceCut] = {}
    for source, offset in offsets.items():
        last = _last_entry(offset)
        if last is None and offset is None and _is_of_files(source, begun.values()):
            last = -1  # the source had found no file yet
        if last is not None:
            log = _log_of(checkpoint, source, offsets, begun.values())
            found[log] = _cut(log, last)
    return tuple(found.values())


def _log_of(checkpoint: Path, source: str, offsets: Mapping[str, str | None], begun: Iterable[BegunBatch]) -> Path:
    """The log of a source.

    Each file source makes its log when it starts. So if there is one log, and all offsets of each batch are the same,
    then the query reads one source, possibly more than once. CheckpointError where log and source can not be matched,
    for example when a query reads one source twice, and others beside it.
    """
    sources = checkpoint / SOURCES
    there = {path.name for path in sources.iterdir() if path.is_dir()} if sources.is_dir() else set()
    if there == {"0"} and all(len(set(batch.offsets.values())) == 1 for batch in begun):
        return sources / "0"
    if source not in there or len(there) > len(offsets):
        raise CheckpointError(
            f"{sources} has {', '.join(sorted(there)) or 'nothing'} for the sources {', '.join(offsets)}: it can not be"
            " told whose log is which, as where a query reads one source twice beside others"
        )
    return sources / source


def _is_of_files(source: str, begun: Iterable[BegunBatch]) -> bool:
    return any(_last_entry(batch.offsets.get(source)) is not None for batch in begun)


def _last_entry(offset: str | None) -> int | None:
    """The number of the entry that a file source's offset means; None for the offset of another source."""
    try:
        form = json.loads(offset or "")
    except ValueError:
        return None
    number = form.get("logOffset") if isinstance(form, dict) and set(form) == {"logOffset"} else None
    return number if isinstance(number, int) else None


def _cut(log: Path, last: int) -> SourceCut:
    numbers = {path: number for path in log.iterdir() if (number := _number(path.name)) is not None}
    kept = {number for number in numbers.values() if number <= last}
    compact = [number for path, number in numbers.items() if number <= last and path.name.endswith(_COMPACT)]
    missing = sorted(set(range(max(compact, default=0), last + 1)) - kept)
    if missing:
        raise CheckpointError(f"{log} has no entry {missing[0]} any more, of the files that were found until {last}")
    entries = tuple(sorted((path for path in numbers if numbers[path] > last), key=lambda path: -numbers[path]))
    return SourceCut(entries, tuple(sorted({file for entry in entries for file in _files_gone(entry, last)})))


def _files_gone(entry: Path, last: int) -> Iterator[str]:
    """The files of an entry that are gone, as far as this machine can see their file system."""
    try:
        lines = entry.read_text(encoding="utf-8").splitlines()
        version = lines[0] if lines else ""
        if version != _VERSION and version[:1] == "v" and version[1:].isdigit():
            raise CheckpointNotUnderstood(f"{entry} is of version {version}; known is {_VERSION}")
        for line in lines[1:]:
            form = json.loads(line)
            parts = urlsplit(str(form["path"]))
            is_later = int(form.get("batchId", last + 1)) > last
            if is_later and parts.scheme in ("", "file") and not Path(unquote(parts.path)).exists():
                yield str(form["path"])
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CheckpointError(f"{entry} can not be read: {fault}") from fault


def _number(name: str) -> int | None:
    number = name.removesuffix(_COMPACT)
    return int(number) if number.isdigit() else None
