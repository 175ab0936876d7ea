"""`mooring apps PLACE`: the applications whose records lie at a place, and whether they run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mooring.cli import options
from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.local_paths import Kind, folders_in, kind_of, stores_among
from mooring.cli.output import print_json, table
from mooring.cli.records import Place, likely_below, why_nothing_is_there
from mooring.cli.store_of_checkpoint import RECORDS
from mooring.client.client import parsed_status
from mooring.client.liveness import Life, Liveness, ago, liveness_of, shown_time
from mooring.errors import MetadataStoreError, MetadataStoreMissing, MetadataStoreUnavailable, RecordError
from mooring.records.open import open_each

NAME: Final = "apps"
HELP: Final = "list the applications whose records lie at a place, and whether they run"


@dataclass(frozen=True, slots=True)
class Application:
    """One application, as its status shows it.

    `place` is what `--metadata` takes. `fault` says why the status cannot be read; None where it can.
    """

    place: str
    name: str | None
    status: Mapping[str, Any]
    fault: str | None = None

    def liveness(self, now_ms: int) -> Liveness:
        """Whether it runs."""
        return liveness_of(self.status, now_ms)

    @property
    def running(self) -> list[str]:
        """The names of its stateful queries that run, or that ran when the application ended."""
        return _names(self.status, "queries")

    @property
    def ended(self) -> list[str]:
        """The names of its stateful queries that ended earlier."""
        return _names(self.status, "ended-queries")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "place",
        metavar="PLACE",
        nargs="?",
        help="as --metadata of the other commands, or a directory above it, or a checkpoint (without it: the variable"
        " MOORING_METADATA)",
    )
    options.add_metadata_conf(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """List the applications; the one with the newest status comes first. CommandFailed when there is none."""
    place = Place.of("PLACE", arguments.place, arguments.metadata_conf)
    found = applications_at(place)
    now_ms = time.time_ns() // 1_000_000
    if arguments.json:
        print_json([as_json(application, now_ms) for application in found])
    else:
        print(as_text(found, now_ms))


def applications_at(place: Place) -> list[Application]:
    """The applications whose records lie at a place or below it, or beside it where it is a checkpoint.

    MetadataStoreUnavailable when the place can not be reached, CommandFailed when no application is there.
    """
    place.refuse_unreadable()
    stores = [place.text] if place.directory is None else [str(store) for store in _stores_at(place.directory)]
    try:
        found = [application for store in stores for application in _applications_in(store, place.options)]
    except (MetadataStoreUnavailable, MetadataStoreMissing):
        raise
    except MetadataStoreError as error:
        raise BadUsage(f"{place.named} {error}") from error
    if not found and place.directory is not None and kind_of(place.directory) is Kind.CHECKPOINT:
        beside = place.directory.parent / RECORDS
        raise CommandFailed(f"{place.text} is a checkpoint, and there are no records in {beside}")
    if not found:
        raise CommandFailed(f"there is no application in {place.text}: {why_nothing_is_there(place.directory)}")
    if all(application.fault for application in found):
        raise CommandFailed(f"{found[0].fault}")
    return sorted(found, key=lambda application: -(liveness_of(application.status, 0).written_ms or 0))


def as_json(application: Application, now_ms: int) -> dict[str, Any]:
    """One application under names that other tools may rely on."""
    liveness = application.liveness(now_ms)
    return {
        "name": application.name,
        "application": application.status.get("application"),
        "since": application.status.get("since"),
        "at": liveness.written_ms,
        "ended": liveness.ended_ms,
        "life": None if application.fault else liveness.life.value,
        "queries": application.running,
        "ended-queries": application.ended,
        "place": application.place,
        "fault": application.fault,
    }


def as_text(found: list[Application], now_ms: int) -> str:
    """A row for each application, and a line for each whose status cannot be read."""
    rows = [_row(application, application.liveness(now_ms), now_ms) for application in found if not application.fault]
    heading = ("name", "application", "since", "at", "life", "queries", "place")
    return "\n".join([table(heading, rows), *(application.fault for application in found if application.fault)])


def _row(application: Application, liveness: Liveness, now_ms: int) -> tuple[str | None, ...]:
    since, written_ms = application.status.get("since"), liveness.written_ms
    life = "alive" if liveness.life is Life.ALIVE else liveness.life.name
    if liveness.ended_ms is not None:
        life = f"{life} at {shown_time(liveness.ended_ms)}"
    queries = application.running + [f"{name} (ended)" for name in application.ended]
    if liveness.life is Life.ENDED:
        queries = application.running + application.ended
    return (
        application.name,
        application.status.get("application"),
        shown_time(since) if isinstance(since, int) else None,
        None if written_ms is None else ago(now_ms - written_ms),
        life,
        ", ".join(queries) or None,
        application.place,
    )


def _stores_at(directory: Path) -> list[Path]:
    kind = kind_of(directory)
    if kind is Kind.CHECKPOINT:
        beside = directory.parent / RECORDS
        candidates = [beside, *folders_in(beside)]
    else:
        candidates = [directory, *likely_below(directory)]
    return stores_among(candidates)


def _applications_in(store: str, options: Mapping[str, str]) -> list[Application]:
    """The applications of one store. Several may share a root of ZooKeeper; a store is empty before its first batch."""
    found = []
    damage: list[str] = []
    for place, records in open_each(store, options, damage.append):
        status: dict[str, Any] = {}
        fault = None
        try:
            text = records.status()
            if text is None and records.store() is None:
                continue  # no application has written there yet
            if damage:
                fault = f"the status in {place} is damaged: {'; '.join(damage)}"
            elif text is None:
                directory = None if "://" in place else Path(place)
                fault = f"there is no status in {place}: {why_nothing_is_there(directory)}"
            else:
                status = parsed_status(text, place)
        except RecordError as error:
            fault = str(error)
        found.append(Application(place, _name(status, place), status, fault))
    return found


def _name(status: Mapping[str, Any], place: str) -> str | None:
    """The name of an application. The status of an older version lacks it; its directory has that name."""
    name = status.get("name")
    directory = Path(place)
    named_by_place = directory.name if directory.parent.name == RECORDS else None
    return name if isinstance(name, str) else named_by_place


def _names(status: Mapping[str, Any], key: str) -> list[str]:
    rows = status.get(key)
    known = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [str(row.get("name") or row.get("id")) for row in known]
