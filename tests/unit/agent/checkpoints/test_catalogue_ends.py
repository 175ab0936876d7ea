"""The last rows of a query that has ended, and of an application that ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.model import events
from mooring.testing.probes import wait_until
from tests.unit.agent.checkpoints.catalogue_in_memory import TablesInMemory, committed, keeper
from tests.unit.checkpoint.made import Made

pytestmark = pytest.mark.slow


def test_a_query_that_has_ended_has_all_its_batches_and_is_then_forgotten(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=450), TablesInMemory()
    catalogue = keeper(tables, made.directory, lambda most: json.dumps([committed(made)]))
    catalogue.handle(events.QueryEnded(2, "q", "run", ""))
    wait_until(lambda: not catalogue._queries, "the ended query to be forgotten", 20)
    assert tables.batches == list(range(450))
    assert catalogue._report_books, "reports may come late"
    with catalogue._lock:
        catalogue._unclaimed_since = dict.fromkeys(catalogue._report_books, float("-inf"))
    catalogue.write()
    assert not catalogue._report_books
    catalogue.end()


def test_a_query_that_has_ended_and_fails_ten_times_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    told: list[list[int]] = []
    catalogue = keeper(tables, made.directory)
    catalogue._reports_written = lambda: told.append(tables.batches)
    catalogue.handle(events.QueryPlanned(1, "p", "run", "p", str(tmp_path / "gone"), 0, {0: 2}))
    (tmp_path / "gone").write_text("no directory")
    catalogue._queries["p"].has_ended = True  # without the event: the thread would make passes of its own
    assert [len(catalogue.write()) for _ in range(9)] == [1] * 9
    assert not told and set(catalogue._queries) == {"q", "p"}
    made.add(3)
    assert catalogue.write() == []
    assert told == [[0, 1, 2, 3]] and set(catalogue._queries) == {"q"}
    assert capsys.readouterr().out.startswith("the catalogue lacks rows of the query p, which has ended (")
    catalogue.end()


def test_a_query_that_has_begun_again_is_not_given_up(tmp_path: Path) -> None:
    tables = TablesInMemory()
    (tmp_path / "gone").write_text("no directory")
    catalogue = keeper(tables, tmp_path / "gone")
    catalogue._queries["q"].has_ended = True
    for _ in range(9):
        assert catalogue.write()
    catalogue.handle(events.QueryPlanned(1, "q", "next", "q", str(tmp_path / "gone"), 0, {0: 2}))
    assert [len(catalogue.write()) for _ in range(3)] == [1] * 3
    catalogue._queries["q"].has_ended = True
    assert catalogue.write() and set(catalogue._queries) == {"q"}
    catalogue.end()


def test_the_end_of_the_application_is_not_the_end_of_the_last_batches(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.end()
    assert tables.batches == [0, 1, 2] and catalogue._thread is not None and not catalogue._thread.is_alive()


def test_a_failure_of_the_last_pass_is_not_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark may have ended before it. The batches get their rows at the next start."""
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    catalogue = keeper(tables, made.directory)
    tables.has_bug = True
    catalogue.end()
    assert tables.batches == [] and capsys.readouterr().out == ""
