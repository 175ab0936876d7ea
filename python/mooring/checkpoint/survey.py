"""A checkpoint as it lies there: its batches, and whether the state after each is whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mooring.checkpoint.drain_marks import FLUSHED_FROM_MS
from mooring.checkpoint.logs import COMMITS, OFFSETS, Begun, Commit, batches_in, read_begun, read_commit
from mooring.checkpoint.needs import Lineage, Needed, StateHistory
from mooring.checkpoint.state_files import Operator, StateStore, VersionFile, operators_in, stores_of
from mooring.errors import CheckpointError

_ROCKSDB = ("RocksDBStateStoreProvider", "HostAffinityStateStoreProvider")


@dataclass(frozen=True, slots=True)
class LogFault:
    """An entry of a log that can not be read."""

    batch: int
    message: str


class Survey:
    """Everything that is read of a checkpoint, each thing once.

    Lists and reads small files only. A checkpoint whose query runs changes meanwhile: what its clean-up removes just
    then shows as missing.
    """

    def __init__(self, checkpoint: Path, lineage: Lineage) -> None:
        self.checkpoint = checkpoint
        self._lineage = lineage

    @cached_property
    def _commits_read(self) -> tuple[dict[int, Commit], tuple[LogFault, ...]]:
        found, faults = {}, []
        for batch in batches_in(self.checkpoint, COMMITS):
            try:
                found[batch] = read_commit(self.checkpoint, batch)
            except CheckpointError as fault:
                faults.append(LogFault(batch, str(fault)))
        return found, tuple(faults)

    @property
    def commits(self) -> Mapping[int, Commit]:
        """The batches that were committed, in order, those that can be read."""
        return self._commits_read[0]

    @cached_property
    def begun(self) -> Mapping[int, Begun]:
        """The entries of the offset log, in order, those that can be read."""
        return self._begun_read[0]

    @cached_property
    def _begun_read(self) -> tuple[dict[int, Begun], tuple[LogFault, ...]]:
        found, faults = {}, []
        for batch in batches_in(self.checkpoint, OFFSETS):
            try:
                found[batch] = read_begun(self.checkpoint, batch)
            except CheckpointError as fault:
                faults.append(LogFault(batch, str(fault)))
        return found, tuple(faults)

    @property
    def log_faults(self) -> tuple[LogFault, ...]:
        """Entries that can not be read, and those that are missing between others."""
        gaps = []
        for log in (COMMITS, OFFSETS):
            there = batches_in(self.checkpoint, log)
            missing = sorted(set(range(there[0], there[-1] + 1)) - set(there)) if there else []
            gaps += [LogFault(one, f"{self.checkpoint / log / str(one)} is missing") for one in missing]
        return (*self._commits_read[1], *self._begun_read[1], *gaps)

    @cached_property
    def _listed(self) -> dict[StateStore, StateStore]:
        return {}

    @cached_property
    def _histories(self) -> dict[tuple[Operator, ...], StateHistory]:
        return {}

    @cached_property
    def _needed(self) -> dict[int, tuple[Needed, ...]]:
        return {}

    def _history_of(self, operators: tuple[Operator, ...]) -> StateHistory:
        """By the operators as they were then: their number of partitions may have been changed since."""
        if operators not in self._histories:
            stores = tuple(self._listed.setdefault(one, one) for one in stores_of(self.checkpoint, operators))
            newest = max(self.begun, default=None)
            codec = "lz4" if newest is None else self.begun[newest].codec
            self._histories[operators] = StateHistory(stores, self.commits, codec, self._lineage)
        return self._histories[operators]

    def needed_after(self, batch: int) -> tuple[Needed, ...]:
        """The files that the state after a committed batch needs, and what is wrong with them, store by store.

        CheckpointError when an operator has no description.
        """
        if batch not in self._needed:
            history = self._history_of(operators_in(self.checkpoint, batch))
            self._needed[batch] = history.needed_after(batch)
        return self._needed[batch]

    def obstacles_to(self, batch: int) -> tuple[str, ...]:
        """Why the query could not go on after this batch; nothing when it can."""
        wanted = [(OFFSETS, batch), (COMMITS, batch), *([(OFFSETS, batch - 1)] if batch > 0 else [])]
        known = {OFFSETS: self.begun, COMMITS: self.commits}
        logs = tuple(f"{log}/{one} can not be read or is missing" for log, one in wanted if one not in known[log])
        if batch not in self.commits or batch not in self.begun:
            return logs
        provider = self.begun[batch].provider
        try:
            if not provider.endswith(_ROCKSDB):
                is_stateless = not operators_in(self.checkpoint, batch)
                return logs if is_stateless else (*logs, f"its state is kept by {provider}, which is not known here")
            needed_files = self.needed_after(batch)
        except CheckpointError as fault:
            return (*logs, str(fault))
        state = tuple(f"{needed.store}: {fault}" for needed in needed_files for fault in needed.faults)
        return (*logs, *state)

    def is_flushed(self, batch: int) -> bool:
        """Whether a drain let state out in this batch: what came after it would be late by thousands of years."""
        commit, begun = self.commits.get(batch), self.begun.get(batch)
        return any(one is not None and one.watermark_ms >= FLUSHED_FROM_MS for one in (commit, begun))

    def refuse_to_return(self, batch: int) -> None:
        """CheckpointError where the query could not go on after this batch, with the batches after which it could."""
        obstacles = self.obstacles_to(batch)
        if self.is_flushed(batch):
            obstacles = (*obstacles, "a drain let its state out, by a watermark after which every new row is late")
        if obstacles:
            more = f" (and {len(obstacles) - 1} faults more)" if len(obstacles) > 1 else ""
            possible = described(tuple(one for one in self.whole_batches() if not self.is_flushed(one)))
            raise CheckpointError(
                f"{self.checkpoint} can not go back to batch {batch}: {obstacles[0]}{more}; possible: {possible}"
            )

    def whole_batches(self) -> tuple[int, ...]:
        """The batches after which the query could go on, oldest first."""
        return tuple(batch for batch in self.commits if not self.obstacles_to(batch))

    def state_bytes(self, batch: int) -> int | None:
        """What the files of the state after a batch weigh; None where its operators are not described."""
        try:
            needed_files = self.needed_after(batch)
        except CheckpointError:
            return None  # an obstacle, which says why
        total = 0
        for needed in needed_files:
            sizes = {**needed.store.sizes, **needed.store.immutable_sizes}
            total += sum(sizes.get(path, 0) for path in needed.sizes)
        return total

    def keys(self, batch: int) -> int | None:
        """How many keys all stores have after a batch; None unless each has a good archive of just that version."""
        total = 0
        if self.obstacles_to(batch):
            return None
        for needed in self.needed_after(batch):
            version = self.commits[batch].version
            archives = [one for path in needed.sizes if (one := VersionFile.parse(path)) and one.kind == "zip"]
            newest = [one for one in archives if one.version == version]
            keys = needed.store.archive(newest[0]).keys if newest else None
            if keys is None:
                return None
            total += keys
        return total


def described(batches: tuple[int, ...]) -> str:
    """`3 to 9, 12`; `none` when there are none."""
    runs: list[list[int]] = []
    for batch in batches:
        if runs and runs[-1][1] == batch - 1:
            runs[-1][1] = batch
        else:
            runs.append([batch, batch])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs) or "none"
