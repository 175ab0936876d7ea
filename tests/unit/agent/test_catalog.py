from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.agent.catalog import CatalogKeeper
from mooring.checkpoint.catalogue import Row
from mooring.errors import AgentError
from mooring.metadata.local_tree import LocalFileTree
from mooring.model import events
from tests.unit.checkpoint.made import Made


class InMemory:
    """As Delta's transactions have it: a writer's number is written once, and rises."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.written: dict[str, int] = {}
        self.is_away = False

    def append(self, path: str, schema: str, rows: list[Row], writer: str, number: int) -> None:
        if self.is_away:
            raise AgentError("the storage refuses")
        if number > self.written.get(writer, -1):
            self.written[writer] = number
            self.rows += rows

    def greatest(self, path: str, column: str) -> int | None:
        return max((row["batch"] for row in self.rows), default=None)

    @property
    def batches(self) -> list[int]:
        return sorted({row["batch"] for row in self.rows})


def keeper(tables: InMemory, checkpoint: Path) -> CatalogKeeper:
    made = CatalogKeeper(tables, lambda most: "[]", LocalFileTree, print)
    conf = {"spark.mooring.checkpoint.catalog.interval": "1h"}
    made.take(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
    made.take(events.QueryPlanned(1, "q", "run", "q", str(checkpoint), 0, {0: 2}))
    return made


def test_each_round_adds_the_batches_that_are_new(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    catalog = keeper(tables, made.directory)
    catalog.write()
    assert tables.batches == [0, 1, 2] and len(tables.rows) == 6
    made.add(3)
    catalog.write()
    catalog.write()
    assert tables.batches == [0, 1, 2, 3] and len(tables.rows) == 8
    catalog.end()


def test_an_agent_that_comes_later_goes_on_after_the_last_batch_in_the_table(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    first = keeper(tables, made.directory)
    first.write()
    first.end()
    made.add(3)
    made.add(4)  # while no agent was there
    second = keeper(tables, made.directory)
    second.write()
    second.end()
    assert tables.batches == [0, 1, 2, 3, 4] and len(tables.rows) == 10


def test_two_agents_at_once_write_each_batch_once(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    one, other = keeper(tables, made.directory), keeper(tables, made.directory)
    one.write()
    other.write()
    made.add(3)
    for catalog in (other, one):
        catalog.write()
        catalog.end()
    assert len(tables.rows) == 8


def test_what_storage_refuses_for_a_while_comes_later(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    catalog = keeper(tables, made.directory)
    tables.is_away = True
    with pytest.raises(AgentError):
        catalog.write()
    tables.is_away = False
    catalog.write()
    assert tables.batches == [0, 1, 2]
    catalog.end()


def test_what_executors_have_told_is_in_the_rows(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), InMemory()
    fact = {
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
    told = [json.dumps([fact]), "[]"]
    catalog = CatalogKeeper(tables, lambda most: told.pop(0), LocalFileTree, print)
    conf = {"spark.mooring.checkpoint.catalog.interval": "1h"}
    catalog.take(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
    catalog.take(events.QueryPlanned(1, "q", "run", "q", f"file:{made.directory}", 0, {0: 1}))
    catalog._open_tree = lambda directory: LocalFileTree(directory.removeprefix("file:"))
    catalog.write()
    assert tables.rows[0]["host"] == "h1"
    catalog.end()


def test_without_delta_there_is_no_thread(tmp_path: Path) -> None:
    catalog = CatalogKeeper(InMemory(), lambda most: "[]", LocalFileTree, print)
    catalog.take(events.ApplicationStarted(1, "app-7", "job", {}, ""))
    catalog.take(events.QueryPlanned(1, "q", "run", "q", str(tmp_path), 0, {0: 2}))
    assert catalog._thread is None
