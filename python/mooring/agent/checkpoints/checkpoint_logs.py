"""Reads the logs of offsets and commits of a running query, on any storage, with the driver's credentials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mooring.checkpoint.logs import COMMITS, OFFSETS, BegunBatch, Commit, parse_begun, parse_commit
from mooring.errors import CheckpointError
from mooring.metadata.tree import FileEntry, FileTree, Unreadable

_MOST_BYTES: Final = 16 << 20
"""How large an entry of a log may be."""


@dataclass(frozen=True, slots=True)
class NewBatches:
    """Commits in order, each with its entry in the offset log; None where there is no such entry.

    `are_all` says whether the commit log had no further entries.
    """

    found: list[tuple[Commit, BegunBatch | None]]
    are_all: bool


class CheckpointLogs:
    """The two logs of one checkpoint. Each call reads them anew.

    Methods raise CheckpointError for an entry that is there and can not be read or understood, and MetadataStoreError
    where the storage does not answer.
    """

    def __init__(self, checkpoint: str, open_tree: Callable[[str], FileTree]) -> None:
        self._commits = open_tree(f"{checkpoint}/{COMMITS}")
        self._offsets = open_tree(f"{checkpoint}/{OFFSETS}")

    def committed_after(self, last: int) -> dict[int, FileEntry]:
        """Batch to its entry in the commit log, for the batches after `last`, in order."""
        by_batch = ((int(entry.name), entry) for entry in self._commits.list() if entry.name.isdigit())
        return dict(sorted((batch, entry) for batch, entry in by_batch if batch > last))

    def ids_of_first_partition(self, entry: FileEntry) -> frozenset[str]:
        """The unique ids of the versions of partition 0 in this commit; empty in checkpoints of format v1."""
        commit = self._commit(entry)
        return frozenset() if commit is None else commit.ids_of_first_partition

    def batches_after(self, last: int, most: int) -> NewBatches:
        """The commits after a batch, at most so many, up to the first entry that can not be read.

        Where that entry is the first of all, its CheckpointError is raised.
        """
        found: list[tuple[Commit, BegunBatch | None]] = []
        entries = list(self.committed_after(last).values())
        for entry in entries[:most]:
            try:
                commit, begun = self._commit(entry), self._begun(entry.name)
            except CheckpointError:
                if not found:
                    raise
                return NewBatches(found, are_all=False)
            if commit is not None:
                found.append((commit, begun))
        return NewBatches(found, are_all=len(entries) <= most)

    def _commit(self, entry: FileEntry) -> Commit | None:
        """The commit in this entry. None when Spark has removed the entry meanwhile, as it does with old entries."""
        where, content = _read(self._commits, entry.name)
        at_ms = int(entry.modified_seconds * 1000)
        return None if content is None else parse_commit(where, int(entry.name), content, at_ms)

    def _begun(self, name: str) -> BegunBatch | None:
        where, content = _read(self._offsets, name)
        return None if content is None else parse_begun(where, int(name), content)


def _read(log: FileTree, name: str) -> tuple[str, bytes | None]:
    """The path of an entry, and its content; None where there is no such file."""
    where, content = f"{log.place}/{name}", log.read(name, _MOST_BYTES)
    if isinstance(content, Unreadable):
        raise CheckpointError(f"{where} can not be read: {content.reason}")
    return where, content
