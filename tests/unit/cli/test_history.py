"""What `history --catalog` adds to the batches of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from mooring.catalogue.table import CataloguedBatch
from mooring.cli.history import _of_this_history, _with_catalogue
from tests.unit.checkpoint.made import Made


def listed(batch: int, *ids: str) -> CataloguedBatch:
    return CataloguedBatch(batch, 1_000 + batch, 0, None, 7, 70, "app", frozenset(ids))


def test_batches_that_came_meanwhile_or_were_undone_are_left_out(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=4)
    (made.directory / "commits" / "0").unlink()
    survey = made.survey()
    here = [{"batch": batch, "keys": None, "bytes": None, "committed-at": None} for batch in survey.committed]
    assert survey.committed == (1, 2, 3)
    in_table = [
        listed(0, "long ago"),
        listed(1, made.id_of(2, 0)),
        listed(2, "of an attempt that was undone"),
        listed(3, made.id_of(4, 0)),
        listed(4, "committed meanwhile, or undone"),
    ]
    batches = _with_catalogue(here, _of_this_history(in_table, survey))
    assert {batch["batch"]: batch["committed-at"] for batch in batches} == {0: 1_000, 1: 1_001, 2: None, 3: 1_003}
    assert batches[0]["obstacles"] == ["the checkpoint no longer has it"] and batches[2]["keys"] is None


def test_batches_whose_commits_are_damaged_or_lost_are_listed(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=4)
    in_table = [listed(batch, made.id_of(batch + 1, 0)) for batch in range(4)]
    for batch in (2, 3):
        made.write(f"commits/{batch}", "v2\n{")
    survey = made.survey()
    assert survey.committed == (0, 1)
    assert _of_this_history([*in_table, listed(4, "committed meanwhile")], survey) == in_table
    for batch in range(4):
        (made.directory / "commits" / str(batch)).unlink()
    assert _of_this_history(in_table, made.survey()) == in_table
