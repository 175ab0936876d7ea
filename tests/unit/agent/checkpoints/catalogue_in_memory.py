"""The keeper of the catalogue of one query, on tables in memory, and what an executor reports to it."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mooring.agent.checkpoints.catalogue_keeper import CatalogueKeeper
from mooring.agent.checkpoints.table_damage import DamageCounts
from mooring.catalogue.rows import COLUMNS, CatalogueRow
from mooring.errors import AgentError
from mooring.metadata.local_tree import LocalFileTree
from mooring.model import events
from tests.unit.checkpoint.made import Made


class TablesInMemory:
    """As Delta's transactions have it: a writer's number is written once, and rises. SQL is SQLite's."""

    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.row_factory = sqlite3.Row
        self.written: dict[str, int] = {}
        self.named: set[str] = set()
        self.compacted: list[str] = []
        self.vacuumed = 0
        self.is_away = False
        self.has_bug = False
        self.is_damaged = False
        self.damaged_column: str | None = None  # none but this one, if it is set
        self.damage = ""  # what is raised then

    def append(
        self, table: str, schema: str, partition_column: str, rows: list[CatalogueRow], writer: str, number: int
    ) -> None:
        if self.is_away:
            raise AgentError("the storage refuses")
        if self.has_bug:
            raise RuntimeError("a class of error that nobody expects")
        assert partition_column in COLUMNS
        self.named.add(table)
        columns = ", ".join(f'"{column}"' for column in COLUMNS)
        self.database.execute(f"CREATE TABLE IF NOT EXISTS rows ({columns})")
        if number > self.written.get(writer, -1):
            self.written[writer] = number
            for row in rows:
                values = [json.dumps(one) if isinstance(one, dict | list) else one for one in map(row.get, COLUMNS)]
                self.database.execute(f"INSERT INTO rows VALUES ({', '.join('?' * len(values))})", values)

    def select(self, path: str, columns: Sequence[str], where: str) -> list[CatalogueRow] | None:
        if self.is_damaged and columns != ("1",) and (self.damaged_column is None or self.damaged_column in columns):
            raise AgentError(self.damage)
        try:
            found = self.database.execute(f"SELECT {', '.join(columns)} FROM rows WHERE {where}").fetchall()
        except sqlite3.OperationalError as fault:
            assert "no such table" in str(fault)
            return None
        return [{key: row[key] for key in row.keys() if row[key] is not None} for row in found]  # noqa: SIM118

    def compact(self, table: str, where: str) -> None:
        self.compacted.append(where)

    def remove(self, table: str, where: str) -> None:
        self.database.execute(f"DELETE FROM rows WHERE {where}")

    def vacuum(self, path: str) -> None:
        self.vacuumed += 1

    def exists(self, path: str) -> bool:
        return self.select(path, ("1",), "true") is not None

    def rename(self, path: str, to: str) -> None:
        self.database.execute("ALTER TABLE rows RENAME TO aside")
        self.written.clear()
        self.is_damaged = False

    @property
    def rows(self) -> list[CatalogueRow]:
        return self.select("", ("*",), "true") or []

    @property
    def batches(self) -> list[int]:
        return sorted({row["batch"] for row in self.rows})


def keeper(
    tables: TablesInMemory,
    checkpoint: Path,
    take_reports: Callable[[int], str] = lambda most: "[]",
    retain: int = 100,
    run: str = "run",
    **more: str,
) -> CatalogueKeeper:
    """Thirty seconds pass from each damaged reading of a table to the next."""
    made = CatalogueKeeper(tables, take_reports, LocalFileTree, print)
    conf = {
        "spark.mooring.checkpoint.catalog.interval": "1h",
        "spark.mooring.checkpoint.catalog.retain.batches": str(retain),
        **{f"spark.mooring.checkpoint.catalog.{name}": value for name, value in more.items()},
    }
    made._damage = DamageCounts(itertools.count(0, 30).__next__)
    made.handle(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
    made.handle(events.QueryPlanned(1, "q", run, "q", str(checkpoint), 0, {0: 2}))
    return made


def write_once(tables: TablesInMemory, checkpoint: Path, **more: Any) -> None:
    """Make a keeper that writes what is new, and ends."""
    catalogue = keeper(tables, checkpoint, **more)
    catalogue.write()
    catalogue.end()


def committed(made: Made) -> dict[str, Any]:
    """What an executor tells of the first version of the first partition."""
    return {
        "report": "version-committed",
        "store": f"{made.directory}/state/0/0",
        "host": "h1",
        "version": 1,
        "id": made.id_of(1, 0),
        "base": "",
        "keys": -1,
        "bytes": 5,
        "changelog": [],
    }
