"""Which batches get rows in the catalogue, over several passes, agents and failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.checkpoints.catalogue_keeper import CatalogueKeeper
from mooring.metadata.local_tree import LocalFileTree
from mooring.metadata.tree import Unreadable
from mooring.model import events
from tests.unit.agent.checkpoints.catalogue_in_memory import TablesInMemory, keeper, write_once
from tests.unit.checkpoint.made import Made

pytestmark = pytest.mark.slow


def test_each_pass_adds_the_batches_that_are_new(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.write()
    assert tables.batches == [0, 1, 2] and len(tables.rows) == 6
    made.add(3)
    catalogue.write()
    catalogue.write()
    assert tables.batches == [0, 1, 2, 3] and len(tables.rows) == 8
    catalogue.end()


def test_an_agent_that_comes_later_goes_on_after_the_last_batch_in_the_table(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    write_once(tables, made.directory)
    made.add(3)
    made.add(4)  # while no agent was there
    write_once(tables, made.directory)
    assert tables.batches == [0, 1, 2, 3, 4] and len(tables.rows) == 10


def test_two_agents_at_once_write_each_batch_once(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    one, other = keeper(tables, made.directory), keeper(tables, made.directory)
    one.write()
    other.write()
    made.add(3)
    for catalogue in (other, one):
        catalogue.write()
        catalogue.end()
    assert len(tables.rows) == 8


def test_what_storage_refuses_for_a_while_comes_later(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    catalogue = keeper(tables, made.directory)
    tables.is_away = True
    assert [str(fault) for fault in catalogue.write()] == ["the storage refuses"]
    tables.is_away = False
    assert catalogue.write() == []
    assert tables.batches == [0, 1, 2]
    catalogue.end()


def test_batches_that_were_undone_are_gone_and_those_that_came_instead_are_there(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=5), TablesInMemory()
    write_once(tables, made.directory)
    for batch in (3, 4):
        (made.directory / "commits" / str(batch)).unlink()
    again = Made(tmp_path / "again", batches=6, ids="w")
    for batch in (3, 4, 5):
        for log in ("commits", "offsets"):
            (made.directory / log / str(batch)).write_bytes((again.directory / log / str(batch)).read_bytes())
    write_once(tables, made.directory, run="next")
    ids = {row["batch"]: row["id"] for row in tables.rows if row["partition"] == 0}
    assert ids == {batch: (made if batch < 3 else again).id_of(batch + 1, 0) for batch in range(6)}
    assert {row["line"] for row in tables.rows if row["batch"] < 3} == {0}
    assert {row["line"] for row in tables.rows if row["batch"] >= 3} == {1}


def test_a_commit_that_is_not_understood_removes_no_rows(tmp_path: Path) -> None:
    for content in ("v4\n{}", 'v1\n{"nextBatchWatermarkMs":0}', 'v2\n{"nextBatchWatermarkMs":0}'):
        made, tables = Made(tmp_path / f"{content[:2]} {len(content)}", batches=4), TablesInMemory()
        keeper(tables, made.directory).write()
        before = tables.rows
        made.write("commits/3", content)
        keeper(tables, made.directory, run="another").write()
        assert tables.rows == before and tables.batches == [0, 1, 2, 3]


def test_a_commit_that_can_not_be_read_for_a_while_is_not_left_out(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=4), TablesInMemory()
    refused = {"2"}

    class Refusing(LocalFileTree):
        def read(self, name: str, limit: int) -> bytes | Unreadable | None:
            return Unreadable("permission denied") if name in refused else super().read(name, limit)

    catalogue = keeper(tables, made.directory)
    catalogue._open_tree = Refusing
    assert catalogue.write() == [] and tables.batches == [0, 1]
    (fault,) = catalogue.write()
    assert str(fault).endswith("commits/2 can not be read: permission denied")
    refused.clear()
    assert catalogue.write() == [] and tables.batches == [0, 1, 2, 3]
    catalogue.end()


def test_an_error_that_nobody_expects_holds_up_no_other_query_and_no_later_pass(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    catalogue = keeper(tables, made.directory)
    tables.has_bug = True
    assert [type(fault) for fault in catalogue.write()] == [RuntimeError]
    tables.has_bug = False
    assert catalogue.write() == [] and tables.batches == [0, 1, 2]
    catalogue.end()


def test_a_table_that_is_ahead_of_a_log_that_was_taken_back_waits_for_its_batches(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=5), TablesInMemory()
    write_once(tables, made.directory)
    (made.directory / "commits" / "4").unlink()
    second = keeper(tables, made.directory, run="next")
    second.write()
    assert tables.batches == [0, 1, 2, 3]
    made.add(4)
    second.write()
    second.end()
    assert tables.batches == [0, 1, 2, 3, 4] and len(tables.rows) == 10


def test_a_table_that_is_gone_is_begun_anew_with_the_batches_that_the_log_has(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.write()
    tables.rename("", "")
    made.add(3)
    catalogue.write()
    catalogue.end()
    assert tables.batches == [0, 1, 2, 3] and len(tables.rows) == 8


def test_a_query_whose_table_can_not_be_written_holds_up_no_other(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.handle(events.QueryPlanned(1, "p", "run", "p", str(tmp_path / "gone"), 0, {0: 2}))
    (tmp_path / "gone").write_text("no directory")
    assert len(catalogue.write()) == 1 and tables.batches == [0, 1, 2]
    catalogue.end()


def test_without_delta_there_is_no_thread(tmp_path: Path) -> None:
    catalogue = CatalogueKeeper(TablesInMemory(), lambda most: "[]", LocalFileTree, print)
    catalogue.handle(events.ApplicationStarted(1, "app-7", "job", {}, ""))
    catalogue.handle(events.QueryPlanned(1, "q", "run", "q", str(tmp_path), 0, {0: 2}))
    assert catalogue._thread is None
