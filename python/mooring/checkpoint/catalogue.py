"""The rows of the catalogue: what was committed, by the logs of the checkpoint and by what executors have told.

The commit log says which versions count, by their unique ids; executors tell, of each version that they have committed,
which files they wrote, with lengths and checksums, and later which snapshot was uploaded for it. What nobody told, as
while no agent was there, leaves the columns of files empty. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mooring.checkpoint.logs import Begun, Commit

TABLE: Final = "state_versions"
"""Below a checkpoint's `_mooring`."""

_FILE: Final = "STRUCT<name: STRING, bytes: BIGINT, crc32c: BIGINT>"
COLUMNS: Final = {
    "kind": "STRING",
    "query": "STRING",
    "batch": "BIGINT",
    "operator": "INT",
    "partition": "INT",
    "store": "STRING",
    "version": "BIGINT",
    "id": "STRING",
    "base": "STRING",
    "keys": "BIGINT",
    "bytes": "BIGINT",
    "changelog": _FILE,
    "archive": _FILE,
    "files": f"ARRAY<{_FILE}>",
    "host": "STRING",
    "watermark_ms": "BIGINT",
    "offsets": "ARRAY<STRING>",
    "deployment": "STRING",
    "committed_ms": "BIGINT",
    "standby_hosts": "ARRAY<STRING>",
    "line": "INT",
    "hundred": "BIGINT",
}
"""One row for each store of a committed batch (`kind` is `commit`), and one for each snapshot of one (`snapshot`).

`base` is the id of the version that it builds on, `bytes` what RocksDB's files of the store weigh, `keys` null where
they are not counted, `host` where it was committed, `standby_hosts` the locations that held a copy of some version when
the row was written. `line` is how often the query had gone back to an earlier batch. Times are milliseconds since
the epoch, checksums CRC32C.
"""

PARTITION: Final = "hundred"
"""The column by which the table is partitioned: the batch by hundreds, so that old ones go without being read."""

BATCHES_IN_PARTITION: Final = 100

SCHEMA: Final = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())

Row = Mapping[str, Any]
"""Column to value; what is null is left out."""

Copies = Mapping[int, Sequence[str]]
"""Partition to the locations that hold a copy of its state."""

_MOST_WAITING: Final = 100_000
_BATCHES_KNOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Which store of which batch a unique id is the version of."""

    batch: int
    operator: int
    partition: int
    store: str | None

    def columns(self, unique_id: str) -> dict[str, Any]:
        """What a row says of it."""
        return {
            "batch": self.batch,
            "operator": self.operator,
            "hundred": self.batch // BATCHES_IN_PARTITION,
            "partition": self.partition,
            "store": self.store,
            "version": self.batch + 1,
            "id": unique_id,
        }


@dataclass
class FactBook:
    """What executors have told of one query's versions and is not in a row yet."""

    commits: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    snapshots: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    def take(self, fact: Mapping[str, Any]) -> None:
        """One report. Those of tasks that were given up are never asked for, and go in time."""
        known = self.commits if fact["report"] == "version-committed" else self.snapshots
        known[fact["id"]] = fact
        while len(known) > _MOST_WAITING:
            known.pop(next(iter(known)))

    def rows(
        self, batches: Iterable[tuple[Commit, Begun | None]], of_all: Mapping[str, Any], copies: Copies
    ) -> list[Row]:
        """Those of some batches, in order, and of all snapshots of these and of the last batches before them.

        `of_all` are columns that are the same in every row; `copies` tells who holds a copy of a partition now.
        """
        found = []
        newest = -1
        for commit, begun in batches:
            newest = commit.batch
            for task, ids in sorted(commit.state_ids.items()):
                for unique_id in ids:
                    fact = self.commits.get(unique_id, {})
                    store = _store_of(fact) or ("default" if len(ids) == 1 else None)
                    self.places[unique_id] = Place(commit.batch, *task, store)
                    held = {"standby_hosts": list(copies[task[1]])} if copies.get(task[1]) else {}
                    found.append({**self._committed(unique_id, fact, commit, begun), **held})
        for unique_id in [one for one in self.snapshots if one in self.places]:
            found.append(self._uploaded(unique_id, self.snapshots[unique_id]))
        self.places = {one: at for one, at in self.places.items() if at.batch > newest - _BATCHES_KNOWN}
        return [_row({**of_all, **values}) for values in found]

    def know(self, rows: Iterable[Row]) -> None:
        """Rows that are in the table already: snapshots of these versions may be told of later, and once each."""
        told = list(rows)
        for row in told:
            if row["kind"] == "commit":
                place = Place(int(row["batch"]), int(row["operator"]), int(row["partition"]), row.get("store"))
                self.places[str(row["id"])] = place
        for row in told:
            if row["kind"] == "snapshot":
                self.places.pop(str(row["id"]), None)

    def settle(self, rows: Iterable[Row]) -> None:
        """These rows are in the table: what they were made from is not needed any more."""
        for row in rows:
            (self.commits if row["kind"] == "commit" else self.snapshots).pop(row["id"], None)

    def _committed(
        self, unique_id: str, fact: Mapping[str, Any], commit: Commit, begun: Begun | None
    ) -> dict[str, Any]:
        keys = int(fact.get("keys", -1))
        return {
            "kind": "commit",
            **self.places[unique_id].columns(unique_id),
            "base": fact.get("base") or None,
            "keys": keys if keys >= 0 else None,
            "bytes": fact.get("bytes"),
            "changelog": _file(fact.get("changelog")),
            "host": fact.get("host"),
            "watermark_ms": commit.watermark_ms,
            "offsets": None if begun is None else list(begun.offsets.values()),
            "committed_ms": commit.at_ms,
        }

    def _uploaded(self, unique_id: str, fact: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "kind": "snapshot",
            **self.places[unique_id].columns(unique_id),
            "store": _store_of(fact),
            "archive": _file(fact["archive"]),
            "files": fact["files"],
            "host": fact.get("host"),
        }


def is_path(table: str) -> bool:
    """Whether a table is named by where it lies; else by its name in Spark's catalog."""
    return "/" in table


def store_path(fact: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    """The checkpoint that a report is about, as a plain path, and the store below its `state`."""
    checkpoint, _, below = str(fact["store"]).rpartition("/state/")
    return checkpoint, below.split("/")


def facts_in(text: str) -> list[Mapping[str, Any]]:
    """Reports as the JVM hands them over."""
    found: list[Mapping[str, Any]] = json.loads(text)
    return found


def _row(values: Mapping[str, Any]) -> Row:
    return {column: value for column in COLUMNS if (value := values.get(column)) is not None}


def _store_of(fact: Mapping[str, Any]) -> str:
    if not fact:
        return ""
    below = store_path(fact)[1]
    return below[2] if len(below) > 2 else "default"


def _file(told: Sequence[Mapping[str, Any]] | None) -> Mapping[str, Any] | None:
    return told[0] if told else None
