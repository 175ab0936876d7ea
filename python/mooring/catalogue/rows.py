"""Makes the rows of the catalogue from the logs of a checkpoint and from the reports of executors. No input and output.

The commit log says which versions count, by their unique ids. An executor reports each version that it has committed,
with the files, their lengths and their checksums. Later it reports the snapshot that was uploaded for that version.
Where no report came, for example because no agent ran, the row of a version lacks changelog, base, keys, bytes
and host. A snapshot without a report has no row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mooring.checkpoint.logs import BegunBatch, Commit

TABLE: Final = "state_versions"
"""The name of the table's directory, in a checkpoint's `_mooring`."""

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
"""The columns. There is one row for each store of a committed batch, and one for each snapshot.

`kind` is `commit` or `snapshot`. `base` is the id of the version that this version builds on. `bytes` is the size of
the store's SST files. With changelogs it is null while the store has keys and no SST file yet. `keys` is null where
keys are not counted. `host` is where the version was committed, or where the snapshot was uploaded. `standby_hosts` are
the locations that held a copy of the partition, of this version or of an earlier one, when the row was written.
`line` is how often the query had gone back to an earlier batch when the row was written; it is no line of Spark. Times
are milliseconds since the epoch, checksums are CRC32C.
"""

TABLE_PARTITION_COLUMN: Final = "hundred"
"""The column by which the table is partitioned: the batch divided by 100. Old batches are deleted without a read.

The column `partition` is another one: the partition of the state.
"""

BATCHES_IN_PARTITION: Final = 100

SCHEMA: Final = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())

CatalogueRow = Mapping[str, Any]
"""Column to value; columns that are null are left out."""

LocationsOfCopies = Mapping[int, Sequence[str]]
"""Partition to the locations that hold a copy of its state."""

_MOST_WAITING: Final = 100_000
"""How many reports of one kind wait for their row."""

_BATCHES_KNOWN: Final = 200
"""For how many batches a snapshot may be reported after its version got a row."""


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """Which version of which store a unique id names, by the batch that made it.

    `store` is None where the name of the store is not known.
    """

    batch: int
    operator: int
    partition: int
    store: str | None

    def columns(self, unique_id: str) -> dict[str, Any]:
        """The columns of a row that name the version."""
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
class ReportBook:
    """The reports of executors on one query's versions that are not in a row yet, by unique id.

    `commits` are reports of committed versions, `snapshots` those of uploaded snapshots. `versions` maps
    the ids in the newest rows to their versions: a snapshot is often reported after its version got a row.
    """

    commits: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    snapshots: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    versions: dict[str, NamedVersion] = field(default_factory=dict)

    def add(self, report: Mapping[str, Any]) -> None:
        """Add one report.

        Reports of abandoned tasks never become rows. The oldest reports are removed when there are more than
        `_MOST_WAITING`.
        """
        known = self.commits if report["report"] == "version-committed" else self.snapshots
        known[report["id"]] = report
        while len(known) > _MOST_WAITING:
            known.pop(next(iter(known)))

    def rows(
        self,
        batches: Iterable[tuple[Commit, BegunBatch | None]],
        common_columns: Mapping[str, Any],
        copies: LocationsOfCopies,
    ) -> list[CatalogueRow]:
        """A row for each version in these batches, in order, and then a row for each reported snapshot.

        The snapshots are those of versions in these batches, and in the last `_BATCHES_KNOWN` batches before them.
        `common_columns` are the same in every row. `copies` are the locations that hold a copy of a partition now.
        """
        found = []
        newest = -1
        for commit, begun in batches:
            newest = commit.batch
            for task, ids in sorted(commit.state_ids.items()):
                for unique_id in ids:
                    report = self.commits.get(unique_id, {})
                    store = _store_of(report) or ("default" if len(ids) == 1 else None)
                    self.versions[unique_id] = NamedVersion(commit.batch, *task, store)
                    held = {"standby_hosts": list(copies[task[1]])} if copies.get(task[1]) else {}
                    found.append({**self._committed(unique_id, report, commit, begun), **held})
        for unique_id in [snapshot for snapshot in self.snapshots if snapshot in self.versions]:
            found.append(self._uploaded(unique_id, self.snapshots[unique_id]))
        self.versions = {
            known: version for known, version in self.versions.items() if version.batch > newest - _BATCHES_KNOWN
        }
        return [_row({**common_columns, **values}) for values in found]

    def note_rows_of_table(self, rows: Iterable[CatalogueRow], last: int) -> None:
        """Note the rows that the table has already. A snapshot that is reported later then gets exactly one row.

        Batches after `last` were undone, or have no rows yet: a snapshot of an undone version gets no row.
        """
        in_table = [row for row in rows if int(row["batch"]) <= last]
        self.versions = {known: version for known, version in self.versions.items() if version.batch <= last}
        for row in in_table:
            if row["kind"] == "commit":
                version = NamedVersion(int(row["batch"]), int(row["operator"]), int(row["partition"]), row.get("store"))
                self.versions[str(row["id"])] = version
        for row in in_table:
            if row["kind"] == "snapshot":
                self.versions.pop(str(row["id"]), None)

    def drop_written(self, rows: Iterable[CatalogueRow], newest: int) -> None:
        """Remove the reports from which these rows were made, and reports that can not get a row any more.

        Call it when the table has the rows of all batches up to `newest`. A version of these batches that is reported
        later has its row already, or belongs to a task that was given up. A snapshot that is reported again gets no
        second row.
        """
        for row in rows:
            if row["kind"] == "commit":
                self.commits.pop(row["id"], None)
            else:
                self.snapshots.pop(row["id"], None)
                self.versions.pop(row["id"], None)
        self.commits = _after(self.commits, newest)
        self.snapshots = _after(self.snapshots, newest - _BATCHES_KNOWN)

    def _committed(
        self, unique_id: str, report: Mapping[str, Any], commit: Commit, begun: BegunBatch | None
    ) -> dict[str, Any]:
        """The columns of the row for a committed version; `report` is empty where no executor has reported it."""
        return {
            "kind": "commit",
            **self.versions[unique_id].columns(unique_id),
            "base": report.get("base") or None,
            "keys": _known(report.get("keys")),
            "bytes": _known(report.get("bytes")),
            "changelog": _file(report.get("changelog")),
            "host": report.get("host"),
            "watermark_ms": commit.watermark_ms,
            "offsets": None if begun is None else list(begun.offsets.values()),
            "committed_ms": commit.at_ms,
        }

    def _uploaded(self, unique_id: str, report: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of the row for an uploaded snapshot."""
        return {
            "kind": "snapshot",
            **self.versions[unique_id].columns(unique_id),
            "store": _store_of(report),
            "archive": _file(report["archive"]),
            "files": report["files"],
            "host": report.get("host"),
        }


def is_path(table: str) -> bool:
    """Whether a table is given by its path; otherwise by its name in Spark's catalog."""
    return "/" in table


def store_path(report: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    """The path of the checkpoint that a report is about, and the parts of the store's path below `state`."""
    checkpoint, _, below = str(report["store"]).rpartition("/state/")
    return checkpoint, below.split("/")


def reports_in(text: str) -> list[Mapping[str, Any]]:
    """The reports in a JSON text of the JVM."""
    found: list[Mapping[str, Any]] = json.loads(text)
    return found


def _row(values: Mapping[str, Any]) -> CatalogueRow:
    return {column: value for column in COLUMNS if (value := values.get(column)) is not None}


def _store_of(report: Mapping[str, Any]) -> str:
    """The name of the store that a report is about; empty for an empty report."""
    if not report:
        return ""
    below = store_path(report)[1]
    return below[2] if len(below) > 2 else "default"


def _after(reports: Mapping[str, Mapping[str, Any]], batch: int) -> dict[str, Mapping[str, Any]]:
    """The reports on versions of later batches."""
    return {unique_id: report for unique_id, report in reports.items() if int(report["version"]) > batch + 1}


def _known(number: int | None) -> int | None:
    """A reported number; None where none was reported, or -1: the executor did not know it."""
    return None if number is None or number < 0 else number


def _file(reported: Sequence[Mapping[str, Any]] | None) -> Mapping[str, Any] | None:
    return reported[0] if reported else None
