"""The agent's records, read as a client does: an unreachable store is an error here, and so is a damaged record."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Final

from mooring.agent.open_records import open_records
from mooring.agent.records import STATUS
from mooring.cli.conf_file import read_conf_file
from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.local_paths import Kind, folders_in, holds_later_records, kind_of, why_closed, why_missing
from mooring.cli.store_of_checkpoint import store_of
from mooring.client import MooringClient
from mooring.client.client import parsed_status
from mooring.client.forecast import newest_with_tasks
from mooring.errors import InvalidJobModelError, MetadataStoreError, MetadataStoreUnavailable, RecordError
from mooring.model import JobModel
from mooring.settings import Settings

METADATA_VARIABLE: Final = "MOORING_METADATA"
_EXPECTED: Final = (
    "expected the directory where the agent keeps its records: spark.mooring.metadata, else "
    "<spark.sql.streaming.checkpointLocation>/_mooring, else _mooring/<application name> beside the query's checkpoint"
)


class Records:
    """What is in one metadata store. MetadataStoreUnavailable when it cannot be reached."""

    def __init__(self, place: str | None, conf_file: str | None = None, checkpoint: str | None = None) -> None:
        """`place` is what `--metadata` says, `conf_file` what `--metadata-conf` says, both before MOORING_METADATA.

        `checkpoint`, of a query of the application, stands in for `place`: the store is the one beside it. BadUsage
        when none of them names a store.
        """
        settings = read_conf_file(Path(conf_file)) if conf_file else Settings.from_conf({})
        if place and checkpoint:
            raise BadUsage("--metadata and --checkpoint: expected one of them, as both name the records")
        found = place or (store_of("--checkpoint", checkpoint) if checkpoint else None)
        self.place = found or settings.metadata or os.environ.get(METADATA_VARIABLE, "")
        if not self.place:
            raise BadUsage(
                f"no metadata store is named: give --metadata or --checkpoint, or set {METADATA_VARIABLE}; {_EXPECTED}"
            )
        named = "--metadata" if place else "--metadata-conf" if settings.metadata else METADATA_VARIABLE
        self._damage: list[str] = []
        try:
            self._records = open_records(self.place, settings.metadata_options, self._damage.append)
        except MetadataStoreError as error:
            raise BadUsage(f"{named} {error}") from error
        self._directory = local_directory(self.place)
        if self._directory is not None:
            self._refuse_unreadable(named, self._directory)

    @classmethod
    def named_by(cls, arguments: argparse.Namespace) -> Records:
        """Those that the options of a command name."""
        return cls(arguments.metadata, arguments.metadata_conf, getattr(arguments, "of_checkpoint", None))

    def _refuse_unreadable(self, named: str, directory: Path) -> None:
        kind = kind_of(directory)
        if kind is Kind.FILE:
            raise MetadataStoreUnavailable(f"{named} {self.place}: {kind.value}; {_EXPECTED}")
        if kind is Kind.CLOSED:
            raise MetadataStoreUnavailable(f"{named} {self.place}: {why_closed(directory)}")

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
        if self._damage and self._is_store():
            raise CommandFailed(f"the {what} in {self.place} is damaged: {'; '.join(self._damage)}")
        raise CommandFailed(f"there is no {what} in {self.place}: {self._why_nothing_is_there()}")

    def _is_store(self) -> bool:
        """Whether what can not be read there is a damaged record, and not just another file."""
        at = self._directory
        return at is None or (kind_of(at) is Kind.RECORDS and not holds_later_records(at))

    def _why_nothing_is_there(self) -> str:
        """What a user most likely meant: a folder below or beside the one that was named."""
        if self._directory is None:
            return "has an application whose spark.mooring.metadata says the same run a stateful query?"
        kind = kind_of(self._directory)
        if kind is Kind.MISSING:
            return f"{why_missing(self._directory)}; {_EXPECTED}"
        if kind is Kind.CHECKPOINT:
            return f"{kind.value}: say --checkpoint {self._directory}, or name the records; {_EXPECTED}"
        if holds_later_records(self._directory):
            return "a later Mooring wrote what is there, in a format that this one does not read: use its own command"
        below = [path for path in likely_below(self._directory) if kind_of(path) is Kind.RECORDS]
        if below:
            return f"did you mean {' or '.join(map(str, below))}"
        empty = f"{kind.value}; " if kind is Kind.EMPTY else ""
        return f"{empty}has an application with Mooring run a stateful query? {_EXPECTED}"


def local_directory(place: str) -> Path | None:
    """The directory of a store that is one; None for ZooKeeper, Kafka and the like."""
    if "://" in place and not place.startswith("file:"):
        return None
    return Path(place.removeprefix("file://").removeprefix("file:")).expanduser().absolute()


def likely_below(directory: Path) -> list[Path]:
    """Where records may lie when a directory above them was named."""
    candidates = [directory / "_mooring", *folders_in(directory), *folders_in(directory / "_mooring")]
    return list(dict.fromkeys(path for path in candidates if kind_of(path) is not Kind.MISSING))
