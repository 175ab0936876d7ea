"""Reads a checkpoint: its batches, and whether the state after each is whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from mooring.checkpoint.drain_marks import FLUSHED_FROM_MS
from mooring.checkpoint.logs import COMMITS, OFFSETS, BegunBatch, Commit, batches_in, read_begun, read_commit
from mooring.checkpoint.needs import Lineage, Needed, Span, StateHistory
from mooring.checkpoint.state_files import Operator, StateStore, VersionFile, has_one_partition, operators_in, stores_of
from mooring.errors import CheckpointError, CheckpointNotUnderstood

_ROCKSDB = ("RocksDBStateStoreProvider", "HostAffinityStateStoreProvider")
_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class LogFault:
    """An entry of a log that can not be read: damaged, or not understood."""

    batch: int
    message: str
    is_damage: bool = True

    @property
    def text(self) -> str:
        """The fault as a sentence."""
        return self.message if self.is_damage else str(CheckpointNotUnderstood(self.message))


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a query could go on after a batch. It could when all three fields are empty.

    `faults` are sentences on damage. `unknown` are sentences on what this program can not judge: the batch may be good.
    `barred` is for a batch that is whole and that a query still can not go back to: one word, and the reason.
    """

    faults: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    barred: tuple[str, str] | None = None

    @property
    def verdict(self) -> str:
        """`yes`, `no`, `not understood`, or the word of `barred`."""
        if self.unknown:
            return "not understood"
        return "no" if self.faults else self.barred[0] if self.barred else "yes"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the query could not go on, in sentences; empty when it could."""
        unknown = tuple(str(CheckpointNotUnderstood(what)) for what in self.unknown)
        return (*unknown, *((self.barred[1],) if self.barred else ()), *self.faults)


class Survey:
    """Reads a checkpoint, each file once, and keeps what it has read. It reads small files only.

    When the query runs, its checkpoint changes meanwhile. A file that Spark's clean-up removes then shows as missing.
    """

    def __init__(self, checkpoint: Path, lineage: Lineage) -> None:
        self.checkpoint = checkpoint
        self._lineage = lineage
        self._listed_logs: dict[str, frozenset[int]] = {}

    @cached_property
    def _commits_read(self) -> tuple[dict[int, Commit], tuple[LogFault, ...]]:
        return self._read_log(COMMITS, read_commit)

    @property
    def commits(self) -> Mapping[int, Commit]:
        """The commits that can be read, in order of batches."""
        return self._commits_read[0]

    @property
    def ids_of_batches(self) -> dict[int, list[str]]:
        """Batch to the unique ids of all its versions, for the commits that can be read and have ids."""
        ids = {
            batch: [id for of_task in commit.state_ids.values() for id in of_task]
            for batch, commit in self.commits.items()
        }
        return {batch: of_batch for batch, of_batch in ids.items() if of_batch}

    @cached_property
    def committed(self) -> tuple[int, ...]:
        """The batches that were committed, in order, with those whose entry is not understood."""
        unknown = (fault.batch for fault in self._commits_read[1] if not fault.is_damage)
        return tuple(sorted((*self.commits, *unknown)))

    @property
    def newest_commit(self) -> int | None:
        """The newest batch with an entry in the commit log, also one that can not be read; None where it has none."""
        return max(self._entries(COMMITS), default=None)

    @cached_property
    def begun(self) -> Mapping[int, BegunBatch]:
        """The entries of the offset log that can be read, in order of batches."""
        return self._begun_read[0]

    @cached_property
    def _begun_read(self) -> tuple[dict[int, BegunBatch], tuple[LogFault, ...]]:
        return self._read_log(OFFSETS, read_begun)

    def _read_log(
        self, log: str, read: Callable[[Path, int], _Entry]
    ) -> tuple[dict[int, _Entry], tuple[LogFault, ...]]:
        """The entries that can be read, in order of batches, and the faults of the others."""
        found, faults = {}, []
        for batch in sorted(self._entries(log)):
            try:
                found[batch] = read(self.checkpoint, batch)
            except CheckpointNotUnderstood as fault:
                faults.append(LogFault(batch, fault.what, is_damage=False))
            except CheckpointError as fault:
                faults.append(LogFault(batch, str(fault)))
        return found, tuple(faults)

    @property
    def log_faults(self) -> tuple[LogFault, ...]:
        """Entries of the logs that can not be read, and entries that are missing between others."""
        missing = {log: self._missing_in(log) for log in (COMMITS, OFFSETS)}
        in_neither = missing[COMMITS] & missing[OFFSETS] if self._is_stateless else set()
        gaps = [
            LogFault(batch, f"{self.checkpoint / log / str(batch)} is missing")
            for log, batches in missing.items()
            for batch in sorted(batches - in_neither)
        ]
        if in_neither:
            batches = described(tuple(sorted(in_neither)))
            what = f"{self.checkpoint} has {batches} in neither log, as where progress is tracked asynchronously"
            gaps.append(LogFault(min(in_neither), what, is_damage=False))
        return (*self._commits_read[1], *self._begun_read[1], *gaps)

    def _missing_in(self, log: str) -> set[int]:
        """Batches without an entry between batches that have one."""
        there = self._entries(log)
        return set(range(min(there), max(there) + 1)) - there if there else set()

    def _entries(self, log: str) -> frozenset[int]:
        """The batches that have an entry, also one that can not be read."""
        if log not in self._listed_logs:
            self._listed_logs[log] = frozenset(batches_in(self.checkpoint, log))
        return self._listed_logs[log]

    @cached_property
    def _is_stateless(self) -> bool:
        try:
            return not operators_in(self.checkpoint)
        except CheckpointError:
            return False  # there are operators, whatever is wrong with them

    @cached_property
    def _repartitions(self) -> tuple[int, ...]:
        """The batches that an offline repartition has written: the number of state partitions changes there."""
        entries = list(self.begun.values())
        return tuple(
            later.batch
            for earlier, later in pairwise(entries)
            if None not in (earlier.partitions, later.partitions) and earlier.partitions != later.partitions
        )

    @cached_property
    def _skipped(self) -> Mapping[int, int]:
        """Batches that a repartition has skipped, each with the repartition's batch.

        They were begun and not committed when the repartition came. It writes the entry of the last committed batch
        once more, under its own batch, and empty commits for the batches in between.
        """
        found: dict[int, int] = {}
        for batch in self._repartitions:
            entry = replace(self.begun[batch], batch=0, partitions=None)
            same = (
                earlier
                for earlier, begun in self.begun.items()
                if earlier < batch and replace(begun, batch=0, partitions=None) == entry
            )
            found |= dict.fromkeys(range(max(same, default=batch) + 1, batch), batch)
        return found

    @cached_property
    def _listed(self) -> dict[StateStore, StateStore]:
        return {}

    @cached_property
    def _histories(self) -> dict[tuple[tuple[Operator, ...], int | None, Span], StateHistory]:
        return {}

    @cached_property
    def _needed(self) -> dict[int, tuple[Needed, ...]]:
        return {}

    def _history_of(self, operators: tuple[Operator, ...], batch: int) -> StateHistory:
        """The history for a batch. A repartition changes the partitions, so histories differ between batches."""
        partitions = self.begun[batch].partitions if batch in self.begun else None
        first = max((at + 1 for at in self._repartitions if at <= batch), default=0)
        span = Span(first, min((at + 1 for at in self._repartitions if at > batch), default=None))
        key = (operators, partitions, span)
        if key not in self._histories:
            stores = stores_of(self.checkpoint, operators, partitions)
            newest = max(self.begun, default=None)
            codec = "lz4" if newest is None else self.begun[newest].codec
            listed = tuple(self._listed.setdefault(store, store) for store in stores)
            one_partition_operators = frozenset(
                operator.id for operator in operators if has_one_partition(self.checkpoint, operator)
            )
            self._histories[key] = StateHistory(
                listed, self.commits, codec, self._lineage, span, one_partition_operators
            )
        return self._histories[key]

    def needed_after(self, batch: int) -> tuple[Needed, ...]:
        """The files that the state after a committed batch needs, and what is wrong with them, store by store.

        CheckpointError when an operator's description is damaged. CheckpointNotUnderstood when it can not be judged.
        """
        if batch not in self._needed:
            history = self._history_of(operators_in(self.checkpoint, batch), batch)
            self._needed[batch] = history.needed_after(batch)
        return self._needed[batch]

    @cached_property
    def _judgements(self) -> dict[int, Judgement]:
        return {}

    def judgement_of(self, batch: int) -> Judgement:
        """Whether the query could go on after this batch, judged by names and lengths of files."""
        if batch not in self._judgements:
            self._judgements[batch] = self._barred(batch) or self._judge(batch)
        return self._judgements[batch]

    def obstacles_to(self, batch: int) -> tuple[str, ...]:
        """Why the query could not go on after this batch, in sentences; empty when it could."""
        return self.judgement_of(batch).reasons

    def _barred(self, batch: int) -> Judgement | None:
        if batch in self._skipped:
            by = self._skipped[batch]
            return Judgement(barred=("skipped", f"batch {batch} was skipped by the repartition in batch {by}"))
        is_oldest = 0 < batch == min(self._entries(OFFSETS), default=None) and batch in self.begun
        if is_oldest and batch < max(self.committed, default=batch):
            what = f"batch {batch} is the oldest that is kept, and Spark wants offsets of the one before it too"
            return Judgement(barred=("oldest", what))
        return None

    def _judge(self, batch: int) -> Judgement:
        wanted = [(OFFSETS, batch), (COMMITS, batch), *([(OFFSETS, batch - 1)] if batch > 0 else [])]
        known = {OFFSETS: self.begun, COMMITS: self.commits}
        log_faults = {OFFSETS: self._begun_read[1], COMMITS: self._commits_read[1]}
        unknown = tuple(
            fault.message
            for log, number in wanted
            for fault in log_faults[log]
            if fault.batch == number and not fault.is_damage
        )
        if self._is_stateless and batch - 1 in self._missing_in(OFFSETS) & self._missing_in(COMMITS):
            unknown = (*unknown, f"the batch before batch {batch} is in neither log")
        logs = tuple(
            f"{log}/{number} can not be read or is missing" for log, number in wanted if number not in known[log]
        )
        if unknown or batch not in self.commits or batch not in self.begun:
            return Judgement(() if unknown else logs, unknown)
        provider = self.begun[batch].provider
        try:
            if not provider.endswith(_ROCKSDB):
                is_stateless = not operators_in(self.checkpoint, batch)
                state = f"its state is kept by {provider}, which is not known here"
                return Judgement(logs, () if is_stateless else (state,))
            needed_files = self.needed_after(batch)
        except CheckpointNotUnderstood as fault:
            return Judgement(logs, (fault.what,))
        except CheckpointError as fault:
            return Judgement((*logs, str(fault)))
        faults = tuple(f"{needed.store}: {fault}" for needed in needed_files for fault in needed.faults)
        return Judgement(
            (*logs, *faults), tuple(f"{needed.store}: {what}" for needed in needed_files for what in needed.unknown)
        )

    def is_flushed(self, batch: int) -> bool:
        """Whether a drain flushed state in this batch. Rows after it would be late by thousands of years."""
        commit, begun = self.commits.get(batch), self.begun.get(batch)
        return any(entry is not None and entry.watermark_ms >= FLUSHED_FROM_MS for entry in (commit, begun))

    def refuse_to_return(self, batch: int) -> None:
        """CheckpointError where the query could not go on after this batch; the message lists the possible batches."""
        obstacles = self.obstacles_to(batch)
        if self.judgement_of(batch).unknown:
            raise CheckpointNotUnderstood(f"batch {batch} of {self.checkpoint}: {self.judgement_of(batch).unknown[0]}")
        if self.is_flushed(batch):
            obstacles = (*obstacles, "a drain let its state out, by a watermark after which every new row is late")
        if obstacles:
            more = f" (and {len(obstacles) - 1} faults more)" if len(obstacles) > 1 else ""
            possible = described(
                tuple(possible_batch for possible_batch in self.whole_batches() if not self.is_flushed(possible_batch))
            )
            raise CheckpointError(
                f"{self.checkpoint} can not go back to batch {batch}: {obstacles[0]}{more}; possible: {possible}"
            )

    def refuse_to_undo(self, batch: int) -> None:
        """CheckpointNotUnderstood where a later batch can not be judged: it may be good, so it is not undone."""
        begun = (*self.begun, *(fault.batch for fault in self._begun_read[1] if not fault.is_damage))
        later = [
            other for other in sorted({*self.committed, *begun}) if other > batch and self.judgement_of(other).unknown
        ]
        if later:
            first = self.judgement_of(later[0]).unknown[0]
            raise CheckpointNotUnderstood(
                f"{self.checkpoint}, batch {described(tuple(later))}: {first}; nothing was undone, and --into makes a"
                " checkpoint as of an earlier batch beside it"
            )

    def whole_batches(self) -> tuple[int, ...]:
        """The batches after which the query could go on, oldest first."""
        return tuple(batch for batch in self.commits if not self.obstacles_to(batch))

    def state_bytes(self, batch: int) -> int | None:
        """The size of the files of the state after a batch; None where it is not known."""
        if self.judgement_of(batch).unknown or batch not in self.commits:
            return None
        try:
            needed_files = self.needed_after(batch)
        except CheckpointError:
            return None  # `judgement_of` says why
        total = 0
        for needed in needed_files:
            sizes = {**needed.store.sizes, **needed.store.immutable_sizes}
            total += sum(sizes.get(path, 0) for path in needed.sizes)
        return total

    def keys(self, batch: int) -> int | None:
        """The number of keys of all stores after a batch; None unless each store has a good archive of that version."""
        total = 0
        if self.obstacles_to(batch):
            return None
        for needed in self.needed_after(batch):
            version = self.commits[batch].version
            archives = [
                archive for path in needed.sizes if (archive := VersionFile.parse(path)) and archive.kind == "zip"
            ]
            newest = [archive for archive in archives if archive.version == version]
            keys = needed.store.archive(newest[0]).keys if newest else None
            if keys is None:
                return None
            total += keys
        return total


def described(batches: tuple[int, ...]) -> str:
    """Batches as text, such as `3 to 9, 12`; `none` when there are none."""
    runs: list[list[int]] = []
    for batch in batches:
        if runs and runs[-1][1] == batch - 1:
            runs[-1][1] = batch
        else:
            runs.append([batch, batch])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs) or "none"
