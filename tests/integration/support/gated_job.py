"""A job whose tasks wait on a host while a test keeps a gate there shut, and the files in its checkpoint."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import zstandard

from tests.integration.support import answers
from tests.integration.support.file_fed_job import JOB, Load


@dataclass(frozen=True)
class Start:
    """The start of a task, from the driver's log."""

    stage: int
    attempt: int
    partition: int
    host: str
    locality: str


class GatedJob(Load):
    """The job with a gate on each host, and the files in its checkpoint."""

    job = JOB.with_name("gated.py")
    query = "results"
    answer = staticmethod(answers.auction_results)

    def shut_gate(self, host: str) -> None:
        gate = self.events / "gates" / host
        gate.parent.mkdir(exist_ok=True)
        gate.touch()

    def open_gate(self, host: str) -> None:
        (self.events / "gates" / host).unlink()

    def fail_once(self, host: str) -> None:
        """Make the next task on a host raise an error."""
        mark = self.events / "failures" / host
        mark.parent.mkdir(exist_ok=True)
        mark.touch()

    def held(self, host: str) -> int | None:
        """The partition whose task waits at the gate of a host; None while no task waits."""
        mark = self.events / "gates" / f"{host}.held"
        return int(mark.read_text()) if mark.exists() and mark.read_text() else None

    def starts(self, driver_log: str, batch: int) -> list[list[Start]]:
        """The task starts in a batch of the query, stage by stage, in order of time."""
        task = (
            r"Starting task \d+\.(\d+) in stage (\d+)\.\d+ \(TID \d+\) \(([\d.]+),executor \d+, partition (\d+), (\w+),"
        )
        found = re.findall(self._line_prefix(batch) + task, driver_log)
        starts = [
            Start(int(stage), int(attempt), int(p), host, locality) for attempt, stage, host, p, locality in found
        ]
        stages = sorted({start.stage for start in starts})
        return [[start for start in starts if start.stage == stage] for stage in stages]

    def finished(self, driver_log: str, batch: int) -> int:
        """The number of tasks that have succeeded in a batch of the query, over all its stages."""
        return len(re.findall(self._line_prefix(batch) + "Finished task", driver_log))

    def _line_prefix(self, batch: int) -> str:
        query = json.loads((self.checkpoint / "metadata").read_text())["id"]
        return rf"\[queryId = {query[:5]}\] \[batchId = {batch}\] "

    def state_of(self, partition: int, version: int) -> list[Path]:
        """The files of this version of the partition's state, of all tasks that have written it."""
        return self.files_of(partition, f"{version}_*")

    def files_of(self, partition: int, stem: str) -> list[Path]:
        directory = self.checkpoint / "state" / "0" / str(partition)
        return [file for end in ("zip", "changelog") for file in directory.glob(f"{stem}.{end}")]

    def committed_name(self, partition: int, batch: int) -> str:
        """The version after a batch with its unique id, from the commit log."""
        entry = json.loads((self.checkpoint / "commits" / str(batch)).read_text().splitlines()[1])
        (unique_id,) = entry["stateUniqueIds"]["0"][partition]
        return f"{batch + 1}_{unique_id}"

    def own_of(self, file: Path, other: Path) -> set[str]:
        """The names that show that a later file builds on this file, and not on the other one."""
        return self.named_in(file) - self.named_in(other)

    def named_in(self, file: Path) -> set[str]:
        """The file's own version, and what it builds on: SST files of a snapshot, or versions of a changelog."""
        if file.suffix == ".zip":
            with zipfile.ZipFile(file) as archive:
                built_on = re.findall(r'"dfsSstFileName":"([^"]+)"', archive.read("metadata").decode())
        else:
            with file.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as reader:
                entries = re.findall(rb'{"version":(\d+),"checkpointUniqueId":"([^"]+)"}', reader.read())
                built_on = [b"_".join(entry).decode() for entry in entries]
        return {file.stem, *built_on}
