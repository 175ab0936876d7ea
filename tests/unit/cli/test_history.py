"""What `history --catalog` adds to the batches of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from mooring.catalogue.table import CataloguedBatch
from mooring.cli.checkpoint.history import _of_this_history, _with_catalogue
from tests.unit.checkpoint.made import Made


def listed(batch: int) -> CataloguedBatch:
    return CataloguedBatch(batch, 1_000 + batch, 0, None, 7, 70, "app")


def test_batches_that_came_meanwhile_are_left_out(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=4)
    (made.directory / "commits" / "0").unlink()
    survey = made.survey()
    here = [{"batch": batch, "keys": None, "bytes": None, "committed-at": None} for batch in survey.committed]
    assert survey.committed == (1, 2, 3)
    in_table = [listed(batch) for batch in (0, 1, 3, 4)]
    batches = _with_catalogue(here, _of_this_history(in_table, survey))
    assert {batch["batch"]: batch["committed-at"] for batch in batches} == {0: 1_000, 1: 1_001, 2: None, 3: 1_003}
    assert batches[0]["obstacles"] == ["the checkpoint no longer has it"] and batches[2]["keys"] is None


def test_batches_whose_commits_are_damaged_or_lost_are_listed(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=4)
    in_table = [listed(batch) for batch in range(4)]
    for batch in (2, 3):
        made.write(f"commits/{batch}", "v2\n{")
    survey = made.survey()
    assert survey.committed == (0, 1)
    assert _of_this_history([*in_table, listed(4)], survey) == in_table
    for batch in range(4):
        (made.directory / "commits" / str(batch)).unlink()
    assert _of_this_history(in_table, made.survey()) == in_table


def test_the_ids_of_all_partitions_tell_an_undone_attempt_from_the_valid_one(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=2)
    assert made.survey().ids_of_batches == {0: ["u1p0", "u1p1"], 1: ["u2p0", "u2p1"]}
    assert Made(tmp_path / "without", batches=2, with_ids=False).survey().ids_of_batches == {}
