"""What executors report is in the catalogue's rows, and the JVM learns when it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.checkpoints.catalogue_keeper import CatalogueKeeper
from mooring.metadata.local_tree import LocalFileTree
from mooring.metadata.tree import FileEntry, FileTree
from mooring.model import events
from tests.unit.agent.checkpoints.catalogue_in_memory import TablesInMemory, committed, keeper, write_once
from tests.unit.checkpoint.made import Made

pytestmark = pytest.mark.slow


def test_what_executors_have_told_is_in_the_rows(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), TablesInMemory()
    told = [json.dumps([committed(made)]), "[]"]
    catalogue = CatalogueKeeper(tables, lambda most: told.pop(0), LocalFileTree, print)
    conf = {"spark.mooring.checkpoint.catalog.interval": "1h"}
    catalogue.handle(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
    catalogue.handle(events.QueryPlanned(1, "q", "run", "q", f"file:{made.directory}", 0, {0: 1}))
    catalogue._open_tree = lambda directory: LocalFileTree(directory.removeprefix("file:"))
    catalogue.write()
    assert tables.rows[0]["host"] == "h1"
    catalogue.end()


def test_a_batch_that_commits_while_the_log_is_looked_for_has_its_facts(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), TablesInMemory()
    told: list[dict[str, Any]] = []

    class Meanwhile(LocalFileTree):
        """An executor tells, and its batch is committed, just before the commit log is listed."""

        def list(self) -> list[FileEntry]:
            told.append(committed(made))
            return super().list()

    def take_reports(most: int) -> str:
        taken = json.dumps(told)
        told.clear()
        return taken

    catalogue = keeper(tables, made.directory, take_reports)
    catalogue._open_tree = Meanwhile
    catalogue.write()
    assert [row["host"] for row in tables.rows] == ["h1"]
    catalogue.end()


def test_what_executors_have_told_outlives_a_storage_that_refuses(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), TablesInMemory()
    told = [json.dumps([committed(made)]), "[]"]
    catalogue = keeper(tables, made.directory, lambda most: told.pop(0))
    tables.is_away = True
    assert [str(fault) for fault in catalogue.write()] == ["the storage refuses"]
    tables.is_away = False
    assert catalogue.write() == []
    assert [row["host"] for row in tables.rows] == ["h1"]
    catalogue.end()


def test_reports_beyond_those_of_one_call_are_taken_too(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), TablesInMemory()
    calls = 0

    def take_reports(most: int) -> str:
        nonlocal calls
        calls += 1
        others = [{**committed(made), "store": "/other/state/0/0", "id": str(number)} for number in range(most)]
        return json.dumps(others if calls == 1 else [committed(made)])

    catalogue = keeper(tables, made.directory, take_reports)
    catalogue.write()
    assert [row["host"] for row in tables.rows] == ["h1"]
    catalogue.end()


def test_the_reports_of_a_checkpoint_with_signs_in_its_path_are_found(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "100%20 #1?", batches=1, partitions=1), TablesInMemory()

    def open_tree(directory: str) -> FileTree:
        return LocalFileTree(directory.removeprefix("file:"))

    catalogue = CatalogueKeeper(tables, lambda most: json.dumps([committed(made)]), open_tree, print)
    conf = {"spark.mooring.checkpoint.catalog.interval": "1h"}
    catalogue.handle(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
    catalogue.handle(events.QueryPlanned(1, "q", "run", "q", f"file:{made.directory}", 0, {0: 1}))
    catalogue.write()
    assert [row["host"] for row in tables.rows] == ["h1"]
    catalogue.end()


def test_who_holds_copies_is_in_the_rows(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1), TablesInMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.handle(events.ExecutorRegistered(1, "2", "host-b", 1, ""))
    copies = (events.CopyOfState(0, "2", 1, 0, 5, 0), events.CopyOfState(1, "2", -1, 0, 0, 0))
    catalogue.handle(events.CopiesSeen(1, "q", 1, copies))
    catalogue.write()
    catalogue.end()
    assert {row["partition"]: row.get("standby_hosts") for row in tables.rows} == {0: '["host-b"]', 1: None}


def test_a_lost_executor_holds_no_copy(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1), TablesInMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.handle(events.ExecutorRegistered(1, "2", "host-b", 1, ""))
    catalogue.handle(events.CopiesSeen(1, "q", 1, (events.CopyOfState(0, "2", 1, 0, 5, 0),)))
    catalogue.handle(events.ExecutorLost(1, "2", "gone"))
    catalogue.write()
    catalogue.end()
    assert all(row.get("standby_hosts") is None for row in tables.rows)


@pytest.mark.parametrize("ends", ["query", "application"])
def test_a_snapshot_that_is_reported_after_the_last_batch_has_a_row(tmp_path: Path, ends: str) -> None:
    made, tables = Made(tmp_path / "it", batches=2, partitions=1), TablesInMemory()
    snapshot = {**committed(made), "report": "snapshot-saved", "archive": [], "files": []}
    told: list[dict[str, Any]] = [committed(made)]
    catalogue = keeper(tables, made.directory, lambda most: json.dumps(told))
    assert not catalogue.write()
    told[:] = [snapshot]
    assert not catalogue.write() and [row["kind"] for row in tables.rows] == ["commit", "commit"]
    if ends == "query":
        catalogue._queries["q"].has_ended = True
        assert not catalogue.write() and not catalogue._queries
    catalogue.end()
    assert [(row["kind"], row["batch"]) for row in tables.rows] == [("commit", 0), ("commit", 1), ("snapshot", 0)]


def test_a_snapshot_that_is_told_after_the_agent_was_replaced_has_its_row_once(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), TablesInMemory()
    fact = {**committed(made), "report": "snapshot-saved", "archive": [], "files": []}
    write_once(tables, made.directory)
    for batch in (1, 2):
        made.add(batch)
        write_once(tables, made.directory, take_reports=lambda most: json.dumps([fact]))
    assert [row["kind"] for row in tables.rows].count("snapshot") == 1


def test_the_jvm_learns_when_reports_are_in_rows(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1), TablesInMemory()
    told: list[list[int]] = []
    catalogue = keeper(tables, made.directory)
    catalogue._reports_written = lambda: told.append(tables.batches)
    tables.is_away = True
    assert catalogue.write() and not told
    tables.is_away = False
    assert not catalogue.write() and told == [[0]]
    catalogue.end()


def test_the_jvm_does_not_learn_it_while_further_batches_have_no_rows(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=201, partitions=1, archives=()), TablesInMemory()
    told: list[int] = []
    catalogue = keeper(tables, made.directory)
    catalogue._reports_written = lambda: told.append(tables.batches[-1])
    for _ in range(2):
        assert not catalogue.write()
    assert told == [200]
    made.add(201)
    made.add(202)
    made.write("commits/202", "v1\n{")
    assert not catalogue.write() and tables.batches[-1] == 201
    assert told == [200]
    made.commit(202)
    assert not catalogue.write()
    assert told == [200, 202]
    catalogue.end()
