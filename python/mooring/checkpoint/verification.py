"""Whether the state after a batch is what was written: files there, of the right length, and of the right content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from mooring.checkpoint.needs import Needed
from mooring.checkpoint.survey import Judgement, Survey
from mooring.errors import CheckpointError, CheckpointNotUnderstood

FaultOf = Callable[[Path, str], "str | None"]
"""What is wrong with the content of a file; the second argument is the compression of changelogs.

CheckpointNotUnderstood for a file that can not be judged.
"""


class Verification:
    """Reads each file once, however many versions need it."""

    def __init__(self, survey: Survey, fault_of: FaultOf, step: Callable[[Path], None] = lambda file: None) -> None:
        """`step` hears of each file before it is read."""
        self._survey = survey
        self._fault_of = fault_of
        self._step = step
        self._known: dict[Path, str | CheckpointNotUnderstood | None] = {}

    def judged(self, batch: int) -> Judgement:
        """Whether the query could go on after this batch with the state that it had, by contents too."""
        judged = self._survey.judged(batch)
        if batch not in self._survey.commits or judged.unknown or judged.barred:
            return judged
        try:
            needed_files = self._survey.needed_after(batch)
        except CheckpointError:
            return judged  # which says why
        damage = [fault for needed in needed_files for fault in self._damage(needed, batch)]
        unknown = [f"{needed.store}: {what}" for needed in needed_files for what in self._not_understood(needed, batch)]
        return Judgement((*judged.faults, *damage), tuple(unknown))

    def faults_after(self, batch: int) -> tuple[str, ...]:
        """Everything that is wrong with the state that the query had after this batch, or with the logs there."""
        return self.judged(batch).faults

    def newest_whole(self) -> int | None:
        """The newest batch after which nothing is wrong and a query can go on; None when there is none.

        A query does not go on after a batch in which a drain let its state out. CheckpointNotUnderstood where a batch
        that can not be judged comes first: it may be good, and nobody passes it over.
        """
        for batch in reversed(self._survey.committed):
            judged = self.judged(batch)
            if judged.unknown:
                raise CheckpointNotUnderstood(f"batch {batch} of {self._survey.checkpoint}: {judged.unknown[0]}")
            if judged.verdict == "yes" and not self._survey.is_flushed(batch):
                return batch
        return None

    def files_read(self) -> int:
        """How many files were read so far."""
        return len(self._known)

    def log_faults(self) -> tuple[str, ...]:
        """Entries of the logs that can not be read, or are missing between others."""
        return tuple(fault.message for fault in self._survey.log_faults if fault.is_damage)

    def logs_not_understood(self) -> tuple[str, ...]:
        """What this version can not judge in the logs."""
        return tuple(fault.message for fault in self._survey.log_faults if not fault.is_damage)

    def _damage(self, needed: Needed, batch: int) -> list[str]:
        return [
            f"{needed.store}: {name} is damaged: {fault}"
            for name, fault in self._told(needed, batch)
            if isinstance(fault, str)
        ]

    def _not_understood(self, needed: Needed, batch: int) -> list[str]:
        return [
            f"{name}: {fault.what}"
            for name, fault in self._told(needed, batch)
            if isinstance(fault, CheckpointNotUnderstood)
        ]

    def _told(self, needed: Needed, batch: int) -> Iterator[tuple[str, str | CheckpointNotUnderstood | None]]:
        """What is told of the content of each file but those that are missing or cut off, which the survey tells."""
        begun = self._survey.begun.get(batch)
        codec = "lz4" if begun is None else begun.codec
        wrong = set(" ".join(needed.faults).split())
        for name in needed.sizes:
            if name not in wrong:
                yield name, self._fault(needed.store.directory / name, codec)

    def _fault(self, file: Path, codec: str) -> str | CheckpointNotUnderstood | None:
        if file not in self._known:
            self._step(file)
            try:
                self._known[file] = self._fault_of(file, codec)
            except CheckpointNotUnderstood as unknown:
                self._known[file] = unknown
        return self._known[file]
