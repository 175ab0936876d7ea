"""Reads the agent's records for a command. A store out of reach and a damaged record are errors here."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.local_paths import Kind, folders_in, holds_later_records, kind_of, why_closed, why_missing
from mooring.cli.machine.conf_file import read_conf_file
from mooring.cli.store_of_checkpoint import store_of
from mooring.client import MooringClient
from mooring.client.client import parsed_status
from mooring.client.forecast import newest_with_tasks
from mooring.errors import InvalidJobModelError, MetadataStoreError, MetadataStoreUnavailable, RecordError
from mooring.model import JobModel
from mooring.records.open import open_records
from mooring.records.records import STATUS
from mooring.settings import Settings

METADATA_VARIABLE: Final = "MOORING_METADATA"
_EXPECTED: Final = (
    "expected the directory where the agent keeps its records: spark.mooring.metadata, else "
    "<spark.sql.streaming.checkpointLocation>/_mooring, else _mooring/<application name> beside the query's checkpoint"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is.

    `text` is the place, `named` the option or variable that named it, for messages, and `options` are those of the
    store's client.
    """

    text: str
    named: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, option: str, given: str | None, conf_file: str | None, checkpoint: str | None = None) -> Place:
        """The place that is named by an option, else by a checkpoint, else by `--metadata-conf`, else by the variable.

        BadUsage when none of them names a store.
        """
        settings = read_conf_file(Path(conf_file)) if conf_file else Settings.from_conf({})
        if given and checkpoint:
            raise BadUsage(f"{option} and --checkpoint: expected one of them, as both name the records")
        options = settings.metadata_options
        if given:
            return cls(given, option, options)
        if checkpoint:
            return cls(store_of("--checkpoint", checkpoint), f"--checkpoint {checkpoint}", options)
        if settings.metadata:
            return cls(settings.metadata, "--metadata-conf", options)
        found = os.environ.get(METADATA_VARIABLE, "")
        if not found:
            raise BadUsage(
                f"no metadata store is named: give {option} or set {METADATA_VARIABLE}; {_EXPECTED}"
                f"{'' if option == 'PLACE' else '; or name the checkpoint of a query with --checkpoint'}"
            )
        return cls(found, METADATA_VARIABLE, options)

    @property
    def directory(self) -> Path | None:
        """The directory of a store that is a directory; None for ZooKeeper, Kafka and the like."""
        if "://" in self.text and not self.text.startswith("file:"):
            return None
        return Path(self.text.removeprefix("file://").removeprefix("file:")).expanduser().absolute()

    def refuse_unreadable(self) -> None:
        """MetadataStoreUnavailable where the directory is a file, or this user may not read it."""
        kind = None if self.directory is None else kind_of(self.directory)
        if kind is Kind.FILE:
            raise MetadataStoreUnavailable(f"{self.named} {self.text}: {kind.value}; {_EXPECTED}")
        if kind is Kind.CLOSED and self.directory is not None:
            raise MetadataStoreUnavailable(f"{self.named} {self.text}: {why_closed(self.directory)}")


class CommandRecords:
    """The records in one metadata store, for a command. The agent uses `RecordsWriter`.

    MetadataStoreUnavailable when the store can not be reached.
    """

    def __init__(self, place: Place | str) -> None:
        """Open the store; a text is a place without options. BadUsage for a store that a client does not reach."""
        place = place if isinstance(place, Place) else Place(place, "--metadata", {})
        self.place = place.text
        self._directory = place.directory
        self._damage: list[str] = []
        try:
            self._records = open_records(place.text, place.options, self._damage.append)
        except MetadataStoreError as error:
            raise BadUsage(f"{place.named} {error}") from error
        place.refuse_unreadable()

    @classmethod
    def named_by(cls, arguments: argparse.Namespace) -> CommandRecords:
        """The records that the options of a command name."""
        checkpoint = getattr(arguments, "of_checkpoint", None)
        return cls(Place.of("--metadata", arguments.metadata, arguments.metadata_conf, checkpoint))

    def status(self) -> dict[str, Any]:
        """The status as the agent wrote it. CommandFailed when there is none, or when it is damaged."""
        try:
            return parsed_status(self._present(STATUS, self._records.status()), self.place)
        except RecordError as error:
            raise CommandFailed(f"{error}") from error

    def status_if_any(self) -> dict[str, Any]:
        """The status, or an empty one when there is none that can be read."""
        try:
            return self.status()
        except CommandFailed:
            return {}

    def job_model(self) -> JobModel:
        """The newest job model that has tasks, else the newest: the tasks of a query leave the model when it ends.

        CommandFailed when there is none, or when the newest is damaged.
        """
        models = self._records.job_models()
        if not models:
            self._present("job model", None)
        try:
            return newest_with_tasks(models)
        except InvalidJobModelError as error:
            raise CommandFailed(f"job model {max(models)} in {self.place} is damaged: {error}") from error

    def task_locality(self) -> dict[str, str]:
        """Task name to the location where the task ran last."""
        return self._records.task_locality()

    def client(self) -> MooringClient:
        """A client for requests to the application. CommandFailed when no application has written there yet."""
        store = self._records.store()
        if store is None:
            raise CommandFailed(f"there is no application in {self.place}: {why_nothing_is_there(self._directory)}")
        return MooringClient(store, records=self._records)

    def _present(self, what: str, record: bytes | None) -> bytes:
        if record is not None:
            return record
        if self._damage and self._is_store():
            raise CommandFailed(f"the {what} in {self.place} is damaged: {'; '.join(self._damage)}")
        raise CommandFailed(f"there is no {what} in {self.place}: {why_nothing_is_there(self._directory)}")

    def _is_store(self) -> bool:
        """Whether a file that can not be read is a damaged record of Mooring, and not another file."""
        at = self._directory
        return at is None or (kind_of(at) is Kind.RECORDS and not holds_later_records(at))


def why_nothing_is_there(directory: Path | None) -> str:
    """Why a place has no records, with the place that was most likely meant: one below or beside it."""
    if directory is None:
        return "has an application whose spark.mooring.metadata says the same run a stateful query?"
    kind = kind_of(directory)
    if kind is Kind.MISSING:
        return f"{why_missing(directory)}; {_EXPECTED}"
    if kind is Kind.CHECKPOINT:
        return f"{kind.value}: say --checkpoint {directory}, or name the records; {_EXPECTED}"
    if holds_later_records(directory):
        return "a later Mooring wrote what is there, in a format that this one does not read: use its own command"
    below = [path for path in likely_below(directory) if kind_of(path) is Kind.RECORDS]
    if below:
        return f"did you mean {' or '.join(map(str, below))}"
    empty = f"{kind.value}; " if kind is Kind.EMPTY else ""
    return f"{empty}has an application with Mooring run a stateful query? {_EXPECTED}"


def likely_below(directory: Path) -> list[Path]:
    """The directories below one in which records may lie."""
    candidates = [directory / "_mooring", *folders_in(directory), *folders_in(directory / "_mooring")]
    return list(dict.fromkeys(path for path in candidates if kind_of(path) is not Kind.MISSING))
