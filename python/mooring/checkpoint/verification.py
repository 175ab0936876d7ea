"""Checks the state after a batch: all files are there, with the length and the content that was written."""

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
        """`step` is called with each file before the file is read."""
        self._survey = survey
        self._fault_of = fault_of
        self._step = step
        self._known: dict[Path, str | CheckpointNotUnderstood | None] = {}

    def judgement_of(self, batch: int) -> Judgement:
        """Whether the query could go on after this batch, judged also by the contents of files."""
        judgement = self._survey.judgement_of(batch)
        if batch not in self._survey.commits or judgement.unknown or judgement.barred:
            return judgement
        try:
            needed_files = self._survey.needed_after(batch)
        except CheckpointError:
            return judgement  # its faults say why
        damage = [fault for needed in needed_files for fault in self._damage(needed, batch)]
        unknown = [f"{needed.store}: {what}" for needed in needed_files for what in self._not_understood(needed, batch)]
        return Judgement((*judgement.faults, *damage), tuple(unknown))

    def faults_after(self, batch: int) -> tuple[str, ...]:
        """Everything that is wrong with the state after this batch, or with its entries in the logs."""
        return self.judgement_of(batch).faults

    def newest_whole(self) -> int | None:
        """The newest batch after which nothing is wrong and a query can go on; None when there is none.

        A query does not go on after a batch in which a drain flushed its state. CheckpointNotUnderstood where a newer
        batch can not be judged: it may be good, so it is not skipped.
        """
        for batch in reversed(self._survey.committed):
            judgement = self.judgement_of(batch)
            if judgement.unknown:
                raise CheckpointNotUnderstood(f"batch {batch} of {self._survey.checkpoint}: {judgement.unknown[0]}")
            if judgement.verdict == "yes" and not self._survey.is_flushed(batch):
                return batch
        return None

    def files_read(self) -> int:
        """The number of files that were read so far."""
        return len(self._known)

    def log_faults(self) -> tuple[str, ...]:
        """Sentences on entries of the logs that can not be read, or that are missing between others."""
        return tuple(fault.message for fault in self._survey.log_faults if fault.is_damage)

    def logs_not_understood(self) -> tuple[str, ...]:
        """Sentences on entries of the logs that this program can not judge."""
        return tuple(fault.message for fault in self._survey.log_faults if not fault.is_damage)

    def _damage(self, needed: Needed, batch: int) -> list[str]:
        return [
            f"{needed.store}: {name} is damaged: {fault}"
            for name, fault in self._content_faults(needed, batch)
            if isinstance(fault, str)
        ]

    def _not_understood(self, needed: Needed, batch: int) -> list[str]:
        return [
            f"{name}: {fault.what}"
            for name, fault in self._content_faults(needed, batch)
            if isinstance(fault, CheckpointNotUnderstood)
        ]

    def _content_faults(self, needed: Needed, batch: int) -> Iterator[tuple[str, str | CheckpointNotUnderstood | None]]:
        """Each file with the fault of its content. Missing and cut off files are left out: the survey reports them."""
        begun = self._survey.begun.get(batch)
        codec = "lz4" if begun is None else begun.codec
        for name in needed.sizes:
            if name not in needed.bad_files:
                yield name, self._fault(needed.store.directory / name, codec)

    def _fault(self, file: Path, codec: str) -> str | CheckpointNotUnderstood | None:
        if file not in self._known:
            self._step(file)
            try:
                self._known[file] = self._fault_of(file, codec)
            except CheckpointNotUnderstood as unknown:
                self._known[file] = unknown
        return self._known[file]
