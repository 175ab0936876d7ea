"""The agent's records, read as a client does: an unreachable store is an error here, and so is a damaged record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mooring.agent.open_records import open_records
from mooring.agent.records import STATUS
from mooring.cli.conf_file import read_conf_file
from mooring.cli.exits import BadUsage, CommandFailed
from mooring.client import MooringClient
from mooring.client.client import parsed_status
from mooring.client.forecast import newest_with_tasks
from mooring.errors import InvalidJobModelError, MetadataStoreError, RecordError, nearest
from mooring.model import JobModel
from mooring.settings import Settings

METADATA_VARIABLE = "MOORING_METADATA"
_EXPECTED = (
    "expected the directory where the agent keeps its records: spark.mooring.metadata, else "
    "<spark.sql.streaming.checkpointLocation>/_mooring, else _mooring/<application name> beside the query's checkpoint"
)


class Records:
    """What is in one metadata store. MetadataStoreUnavailable when it cannot be reached."""

    def __init__(self, place: str | None, conf_file: str | None = None) -> None:
        """`place` is what `--metadata` says, `conf_file` what `--metadata-conf` says, both before MOORING_METADATA.

        BadUsage when none of them names a store.
        """
        settings = read_conf_file(Path(conf_file)) if conf_file else Settings.from_conf({})
        self.place = place or settings.metadata or os.environ.get(METADATA_VARIABLE, "")
        if not self.place:
            raise BadUsage(f"no metadata store is named: give --metadata or set {METADATA_VARIABLE}; {_EXPECTED}")
        self._damage: list[str] = []
        try:
            self._records = open_records(self.place, settings.metadata_options, self._damage.append)
        except MetadataStoreError as error:
            raise BadUsage(f"--metadata {self.place}: {error}") from error

    def status(self) -> dict[str, Any]:
        """The status as the agent wrote it. CommandFailed when there is none, or when it is damaged."""
        try:
            return parsed_status(self._whole(STATUS, self._records.status()), self.place)
        except RecordError as error:
            raise CommandFailed(f"{error}") from error

    def status_if_any(self) -> dict[str, Any]:
        """The status, or an empty one when there is none that can be read."""
        try:
            return self.status()
        except CommandFailed:
            return {}

    def job_model(self) -> JobModel:
        """The newest job model that has tasks, else the newest: queries that end take their tasks out of it.

        CommandFailed when there is none, or when the newest is damaged.
        """
        models = self._records.job_models()
        if not models:
            self._whole("job model", None)
        try:
            return newest_with_tasks(models)
        except InvalidJobModelError as error:
            raise CommandFailed(f"job model {max(models)} in {self.place} is damaged: {error}") from error

    def task_locality(self) -> dict[str, str]:
        """Task name to the location where it ran last."""
        return self._records.task_locality()

    def client(self) -> MooringClient:
        """For requests to the application. CommandFailed when there is none yet."""
        store = self._records.store()
        if store is None:
            raise CommandFailed(f"there is no application in {self.place}: {self._why_nothing_is_there()}")
        return MooringClient(store, records=self._records)

    def _whole(self, what: str, record: bytes | None) -> bytes:
        if record is not None:
            return record
        if self._damage:
            raise CommandFailed(f"the {what} in {self.place} is damaged: {'; '.join(self._damage)}")
        raise CommandFailed(f"there is no {what} in {self.place}: {self._why_nothing_is_there()}")

    def _why_nothing_is_there(self) -> str:
        """What a user most likely meant: a folder below or beside the one that was named."""
        if "://" in self.place and not self.place.startswith("file:"):
            return "has an application whose spark.mooring.metadata says the same run a stateful query?"
        directory = Path(self.place.removeprefix("file://").removeprefix("file:"))
        if not directory.is_dir():
            siblings = [str(directory.parent / name) for name in _folders(directory.parent)]
            return f"there is no such directory; {_EXPECTED}{nearest(str(directory), siblings)}"
        below = [path for path in _likely_below(directory) if any(path.glob("k-*.v1"))]
        if below:
            return f"did you mean {' or '.join(map(str, below))}"
        return f"has an application with Mooring run a stateful query? {_EXPECTED}"


def _likely_below(directory: Path) -> list[Path]:
    candidates = [directory / "_mooring", *(directory / name for name in _folders(directory))]
    candidates += [directory / "_mooring" / name for name in _folders(directory / "_mooring")]
    return list(dict.fromkeys(path for path in candidates if path.is_dir()))


def _folders(directory: Path) -> list[str]:
    try:
        return sorted(path.name for path in directory.iterdir() if path.is_dir())
    except OSError:
        return []
