"""Old batches leave the catalogue, and what stays is compacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.model import events
from tests.unit.agent.checkpoints.catalogue_in_memory import TablesInMemory, keeper, write_once
from tests.unit.checkpoint.made import Made

pytestmark = pytest.mark.slow


def test_old_batches_go_five_hundred_at_a_time(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=0), TablesInMemory()
    catalogue = keeper(tables, made.directory, retain=150)
    for batch in range(660):
        made.add(batch)
    for _ in range(3):  # two hundred a pass at most
        catalogue.write()
    assert tables.batches == list(range(600))
    catalogue.write()
    assert tables.batches == list(range(500, 660))
    catalogue.end()


def test_old_batches_of_short_runs_go_too(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=0), TablesInMemory()
    for batch in range(660):
        made.add(batch)
        if batch % 150 == 149 or batch == 659:
            write_once(tables, made.directory, run=f"run {batch}")
    assert tables.batches == list(range(500, 660))


def test_what_is_kept_for_long_is_compacted_when_it_is_full(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=0), TablesInMemory()
    catalogue = keeper(tables, made.directory, retain=100_000)
    for batch in range(660):
        made.add(batch)
    for _ in range(4):
        catalogue.write()
    catalogue.end()
    assert tables.vacuumed == 1, "the small files that were merged go too"
    assert tables.compacted == ["hundred >= -4 AND hundred < 1", "hundred >= 1 AND hundred < 6"]
    assert tables.batches == list(range(660))


def test_queries_may_share_a_table_and_lose_their_own_old_batches_only(tmp_path: Path) -> None:
    made, other, tables = Made(tmp_path / "it", batches=0), Made(tmp_path / "other", batches=3), TablesInMemory()
    catalogue = keeper(tables, made.directory, retain=50, table="ops.state_versions")
    catalogue.handle(events.QueryPlanned(1, "p", "run", "p", str(other.directory), 0, {0: 2}))
    for batch in range(560):
        made.add(batch)
    for _ in range(3):
        assert catalogue.write() == []
    catalogue.end()
    assert tables.named == {"ops.state_versions"}
    batches = {query: [row["batch"] for row in tables.rows if row["query"] == query] for query in "qp"}
    assert min(batches["q"]) == 500 and sorted(set(batches["p"])) == [0, 1, 2]
