"""Spark's offline repartition: each batch has as many partitions as the offset log says, whatever descriptions say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mooring.checkpoint import Verification, branch, plan_branch, plan_rollback, rollback
from mooring.checkpoint.survey import Survey
from tests.unit.checkpoint.made import Made, no_lineage

pytestmark = pytest.mark.slow

FORMS = pytest.mark.parametrize("with_ids", [True, False], ids=["with ids", "without ids"])
SIZES = pytest.mark.parametrize("partitions", [1, 5], ids=["fewer", "more"])


def repartitioned(place: Path, with_ids: bool, partitions: int) -> Made:
    """Batches 0 to 3 have three partitions; from batch 4 on it is another number."""
    made = Made(place, batches=4, partitions=3, with_ids=with_ids)
    made.repartition(4, partitions)
    for batch in (5, 6):
        made.add(batch)
    return made


@FORMS
@SIZES
def test_batches_before_and_after_it_are_whole(with_ids: bool, partitions: int, tmp_path: Path) -> None:
    survey = repartitioned(tmp_path / "it", with_ids, partitions).survey()
    assert survey.whole_batches() == tuple(range(7))
    assert [len(survey.needed_after(batch)) for batch in (3, 4, 6)] == [3, partitions, partitions]
    verification = Verification(survey, lambda file, codec: None)
    assert not any(verification.faults_after(batch) for batch in survey.commits)
    assert verification.newest_whole() == 6


@FORMS
@pytest.mark.parametrize("partition", [0, 4])
def test_what_is_lost_after_it_is_missed(with_ids: bool, partition: int, tmp_path: Path) -> None:
    made = repartitioned(tmp_path / "it", with_ids, 5)
    made.file(partition, 6, "changelog").unlink()
    survey = made.survey()
    assert survey.whole_batches() == (0, 1, 2, 3, 4)
    assert survey.obstacles_to(6)[0].startswith(f"operator 0, partition {partition}: neither 6")
    assert survey.judgement_of(6).verdict == "no"


@FORMS
@SIZES
def test_the_query_can_go_back_across_it(with_ids: bool, partitions: int, tmp_path: Path) -> None:
    made = repartitioned(tmp_path / "it", with_ids, partitions)
    into = tmp_path / "branch"
    branch.carry_out(plan_branch(made.survey(), 2), into)
    assert Survey(into, no_lineage).whole_batches() == (2,)
    assert not (into / "state/0/4").exists()
    rollback.carry_out(plan_rollback(made.survey(), 2))
    assert made.survey().whole_batches() == (0, 1, 2)
    there = {path.name for path in (made.directory / "state/0").iterdir()}
    assert there == {"0", "1", "2", "_metadata"}, "Spark would take another directory for one of a partition"
    made.partitions = 3
    made.add(3)
    made.repartition(4, 2)
    assert made.survey().whole_batches() == (0, 1, 2, 3, 4), "and it can be repartitioned once more"


@FORMS
def test_a_batch_that_it_has_skipped_is_neither_damaged_nor_a_place_to_go_back_to(
    with_ids: bool, tmp_path: Path
) -> None:
    made = Made(tmp_path / "it", batches=4, partitions=3, with_ids=with_ids)
    made.begin(4)
    made.repartition(5, 5, last_committed=3)
    made.add(6)
    survey = made.survey()
    assert survey.judgement_of(4).verdict == "skipped" and survey.judgement_of(4).faults == ()
    assert survey.obstacles_to(4) == ("batch 4 was skipped by the repartition in batch 5",)
    assert survey.whole_batches() == (0, 1, 2, 3, 5, 6)


def test_an_operator_of_one_partition_is_written_in_all_by_a_repartition_alone(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=4, partitions=3, with_ids=False, operator="stateStoreSave")
    made.describe_key()
    for partition in (1, 2):
        shutil.rmtree(made.directory / f"state/0/{partition}")
    made.repartition(4, 5)
    for batch in (5, 6):
        made.add(batch)
        for partition in range(1, 5):
            made.file(partition, batch + 1, "changelog").unlink()
    assert made.survey().whole_batches() == tuple(range(7))
    made.file(3, 5, "zip").unlink()
    assert made.survey().whole_batches() == (0, 1, 2, 3, 5, 6)
    for batch in range(5):  # Spark's clean-up, after which nobody knows of the repartition
        for log in ("offsets", "commits"):
            (made.directory / log / str(batch)).unlink()
    assert made.survey().judgement_of(6).verdict == "not understood"


def test_without_a_number_in_the_log_the_descriptions_count(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    for batch in range(6):
        entry = made.directory / f"offsets/{batch}"
        made.write(f"offsets/{batch}", entry.read_text().replace(', "spark.sql.shuffle.partitions": "2"', ""))
    assert made.survey().begun[5].partitions is None and made.survey().whole_batches() == tuple(range(6))


def test_the_oldest_batch_that_is_left_is_no_damage(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    for log in ("offsets", "commits"):
        for batch in (0, 1):
            (made.directory / log / str(batch)).unlink()
    survey = made.survey()
    assert survey.judgement_of(2).verdict == "oldest" and "the oldest that is kept" in survey.obstacles_to(2)[0]
    assert survey.whole_batches() == (3, 4, 5)
    for batch in (3, 4, 5):
        (made.directory / "commits" / str(batch)).unlink()
    assert made.survey().judgement_of(2).verdict == "no", "the query would go on from it, and can not"
