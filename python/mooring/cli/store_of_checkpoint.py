"""Finds the records of an application by the checkpoint of its query, where they lie in the default place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mooring.checkpoint import lease_on, query_id
from mooring.cli.checkpoint_place import INSTEAD, checkpoint_directory
from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.local_paths import folders_in, stores_among
from mooring.client.client import parsed_status
from mooring.errors import MetadataStoreError, RecordError
from mooring.records.open import open_records

RECORDS: Final = "_mooring"
_LISTS_OF_QUERIES: Final = ("queries", "ended-queries", "drains")


def store_of(option: str, named: str) -> str:
    """The store of the application that runs the query of a checkpoint, else of the application that ran it last.

    BadUsage when `named` is no checkpoint, or when several stores are possible; CommandFailed when there is none.
    """
    checkpoint = checkpoint_directory(option, named, INSTEAD)
    beside = checkpoint.parent / RECORDS
    stores = stores_among((beside, *folders_in(beside)))
    if not stores:
        raise CommandFailed(
            f"{option} {named}: there are no records of an application in {beside} or in a directory of it; expected"
            " the place that spark.mooring.metadata says, by --metadata"
        )
    query, lease = query_id(checkpoint), lease_on(checkpoint)
    statuses = {place: status_in(place) for place in stores}
    knowing_the_query = [place for place, status in statuses.items() if query in _queries_of(status)]
    running = [
        place for place in stores if lease is not None and statuses[place].get("application") == lease.application
    ]
    found = running or knowing_the_query or stores
    if len(found) > 1 and not knowing_the_query and not running:
        shown = " or ".join(f"--metadata {place}" for place in stores)
        raise BadUsage(f"{option} {named}: the records do not say which application ran its query; expected {shown}")
    return str(max(found, key=lambda place: _written_ms(statuses[place])))


def status_in(store: Path) -> Mapping[str, Any]:
    """The status in a store that is a directory. It is empty where none can be read."""
    try:
        records = open_records(
            str(store), {}, lambda damage: None
        )  # a command that reads this store reports its damage
        try:
            text = records.status()
        finally:
            records.close()
        return {} if text is None else parsed_status(text, str(store))
    except (MetadataStoreError, RecordError):  # then it does not tell which query it is about
        return {}


def _queries_of(status: Mapping[str, Any]) -> set[str]:
    rows = [row for key in _LISTS_OF_QUERIES for row in _rows(status, key)]
    return {str(row.get("id")) for row in rows}


def _rows(status: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    rows = status.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _written_ms(status: Mapping[str, Any]) -> int:
    at = status.get("at")
    return at if isinstance(at, int) else 0
