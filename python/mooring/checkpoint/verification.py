"""Whether the state after a batch is what was written: files there, of the right length, and of the right content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mooring.checkpoint.needs import Needed
from mooring.checkpoint.survey import Survey

FaultOf = Callable[[Path, str], "str | None"]
"""What is wrong with the content of a file; the second argument is the compression of changelogs."""


class Verification:
    """Reads each file once, however many versions need it."""

    def __init__(self, survey: Survey, fault_of: FaultOf, step: Callable[[Path], None] = lambda file: None) -> None:
        """`step` hears of each file before it is read."""
        self._survey = survey
        self._fault_of = fault_of
        self._step = step
        self._known: dict[Path, str | None] = {}

    def faults_after(self, batch: int) -> tuple[str, ...]:
        """Everything for which the query could not go on after this batch with the state that it had."""
        obstacles = self._survey.obstacles_to(batch)
        if batch not in self._survey.commits:
            return obstacles
        damaged = [fault for needed in self._survey.needed_after(batch) for fault in self._damage(needed, batch)]
        return (*obstacles, *damaged)

    def newest_whole(self) -> int | None:
        """The newest batch after which nothing is wrong and a query can go on; None when there is none.

        A query does not go on after a batch in which a drain let its state out.
        """
        candidates = (batch for batch in reversed(list(self._survey.commits)) if not self._survey.is_flushed(batch))
        return next((batch for batch in candidates if not self.faults_after(batch)), None)

    def files_read(self) -> int:
        """How many files were read so far."""
        return len(self._known)

    def log_faults(self) -> tuple[str, ...]:
        """Entries of the logs that can not be read, or are missing between others."""
        return tuple(fault.message for fault in self._survey.log_faults)

    def _damage(self, needed: Needed, batch: int) -> list[str]:
        begun = self._survey.begun.get(batch)
        codec = "lz4" if begun is None else begun.codec
        wrong = set(" ".join(needed.faults).split())  # what is missing or cut off has been told
        found = []
        for name in needed.sizes:
            if name not in wrong and (fault := self._fault(needed.store.directory / name, codec)) is not None:
                found.append(f"{needed.store}: {name} is damaged: {fault}")
        return found

    def _fault(self, file: Path, codec: str) -> str | None:
        if file not in self._known:
            self._step(file)
            self._known[file] = self._fault_of(file, codec)
        return self._known[file]
