from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from mooring.checkpoint import Survey, branch, plan_branch, plan_rollback, query_id, rollback, under_way
from mooring.checkpoint.drain_marks import FLUSHED_FROM_MS
from mooring.errors import CheckpointError
from tests.unit.checkpoint.made import Made, no_lineage

pytestmark = pytest.mark.slow


def test_what_came_after_the_batch_goes_and_nothing_else(tmp_path: Path) -> None:
    made, short = Made(tmp_path / "it"), Made(tmp_path / "short", batches=3)
    rollback.carry_out(plan_rollback(made.survey(), 2))
    left, wanted = (
        {name for name in one.content() if not name.endswith((".sst", ".sst.crc"))} for one in (made, short)
    )
    assert left == wanted | {"_mooring/undone.json"}
    assert under_way(made.directory) is None and rollback.undone_until(made.directory) == 5


def test_how_far_a_sink_may_remember_outlives_a_second_rollback(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    rollback.carry_out(plan_rollback(made.survey(), 3))
    rollback.carry_out(plan_rollback(made.survey(), 1))
    assert rollback.undone_until(made.directory) == 5


def test_a_batch_that_was_begun_and_not_committed_goes_too(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    (made.directory / "commits" / "5").unlink()
    plan = plan_rollback(made.survey(), 3)
    assert plan.batches == (5, 4) and made.directory / "offsets" / "5" in plan.files


def test_back_to_the_newest_commit_there_is_nothing_to_undo_and_spark_repeats_what_was_begun(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    (made.directory / "commits" / "5").unlink()
    assert plan_rollback(made.survey(), 4).files == ()
    (made.directory / "offsets" / "5").write_text("")
    assert plan_rollback(made.survey(), 4).batches == (5,), "which it could not repeat"


def test_at_every_moment_spark_could_start_from_what_is_left(tmp_path: Path) -> None:
    """The last offsets are those of the last commit, or of the one after it, and the state of both is whole."""
    made = Made(tmp_path / "it")

    def check(file: Path) -> None:
        offsets = sorted(int(p.name) for p in (made.directory / "offsets").iterdir() if p.name.isdigit())
        survey = made.survey()
        last = max(survey.commits)
        assert offsets[-1] - last in (0, 1)
        assert survey.obstacles_to(last) == ()

    rollback.carry_out(plan_rollback(made.survey(), 1), step=check)


@pytest.mark.parametrize("after", range(0, 30, 3))
def test_one_that_is_cut_off_is_known_and_gone_on_with(after: int, tmp_path: Path) -> None:
    made, whole = Made(tmp_path / "it"), Made(tmp_path / "whole")
    rollback.carry_out(plan_rollback(whole.survey(), 1))
    removed: list[Path] = []

    def cut(file: Path) -> None:
        removed.append(file)
        if len(removed) > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rollback.carry_out(plan_rollback(made.survey(), 1), step=cut)
    assert under_way(made.directory) == 1
    rollback.carry_out(plan_rollback(made.survey(), 1))
    assert under_way(made.directory) is None and made.content().keys() == whole.content().keys()


def test_a_batch_whose_state_is_gone_is_refused_with_those_that_are_there(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    made.file(0, 2, "changelog").unlink()
    before = made.content()
    with pytest.raises(CheckpointError, match=r"can not go back to batch 2: .*partition 0.*possible: 0, 3 to 5"):
        plan_rollback(made.survey(), 2)
    assert made.content() == before


def test_that_it_was_drained_holds_no_more_before_that(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    made.write("_mooring/drained.json", '{"batch": 5}')
    assert made.directory / "_mooring/drained.json" not in plan_rollback(made.survey(), 5).files
    assert made.directory / "_mooring/drained.json" in plan_rollback(made.survey(), 4).files


def test_what_a_drain_let_out_is_no_place_to_go_on_from(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    for batch in (4, 5):
        text = (made.directory / f"commits/{batch}").read_text()
        made.write(
            f"commits/{batch}",
            text.replace(f'"nextBatchWatermarkMs": {batch + 1}000', f'"nextBatchWatermarkMs": {FLUSHED_FROM_MS}'),
        )
    with pytest.raises(CheckpointError, match=r"a drain let its state out.*possible: 0 to 3"):
        plan_rollback(made.survey(), 4)


@pytest.mark.parametrize(
    ("name", "text", "goes"),
    [
        ("draining.json", '{"batch": 3, "phase": "flushing"}', True),
        ("draining.json", '{"batch": 3, "phase": "asked"}', False),
        ("draining.json", '{"batch": 1, "phase": "frozen"}', False),
        ("reset.json", '{"from": 3, "to": 3, "watermark": 0}', True),
        ("reset.json", '{"from": 2, "to": 2, "watermark": 0}', False),
    ],
)
def test_marks_of_what_comes_later_go(name: str, text: str, goes: bool, tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    made.write(f"_mooring/{name}", text)
    assert (made.directory / "_mooring" / name in plan_rollback(made.survey(), 2).files) == goes


def test_input_that_is_gone_is_told_of(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    for batch in (1, 4):  # the first one is not read again
        (made.input / f"{batch}.json").unlink()
    assert plan_rollback(made.survey(), 2).missing_input == (f"file:{made.input}/4.json",)
    assert plan_branch(made.survey(), 2).missing_input == (f"file:{made.input}/4.json",)


def test_a_source_that_had_found_nothing_begins_anew_and_one_that_is_read_twice_is_refused(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    offsets = made.directory / "offsets" / "2"
    made.write("offsets/2", offsets.read_text().replace('{"logOffset":2}', "-"))
    gone = plan_rollback(made.survey(), 2).files
    assert {made.directory / f"sources/0/{number}" for number in range(6)} <= set(gone)
    made.write("offsets/2", offsets.read_text().replace("-", '{"logOffset":2}\n{"logOffset":1}'))
    with pytest.raises(CheckpointError, match="can not be told whose log is which"):
        plan_rollback(made.survey(), 2)


@pytest.mark.parametrize("damage", ["", "v1\n{"])
def test_an_entry_of_the_newest_commit_that_can_not_be_read_goes(damage: str, tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=4)
    made.write("commits/3", damage)
    plan = plan_rollback(made.survey(), 2)
    assert plan.batches == (3,)
    assert {made.directory / "commits/3", made.directory / "offsets/3"} <= set(plan.files)


def test_an_entry_with_another_content_than_hadoop_has_noted_is_damaged(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=4)
    entry = made.directory / "offsets" / "3"
    content = entry.read_bytes()
    pieces = [content[at : at + 512] for at in range(0, len(content), 512)]
    noted = b"crc\0" + (512).to_bytes(4, "big") + b"".join(zlib.crc32(one).to_bytes(4, "big") for one in pieces)
    entry.with_name(".3.crc").write_bytes(noted)
    assert made.survey().log_faults == ()
    entry.write_bytes(content.replace(b"3", b"4"))
    assert [fault.batch for fault in made.survey().log_faults] == [3]
    entry.with_name(".3.crc").write_bytes(b"somebody else's")
    assert made.survey().log_faults == ()


def test_a_source_that_is_read_twice_and_no_other_has_one_log(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    before = plan_rollback(made.survey(), 2).files
    for file in (made.directory / "offsets").iterdir():
        if file.name.isdigit():
            offset = f'{{"logOffset":{file.name}}}'
            made.write(f"offsets/{file.name}", file.read_text().replace(offset, f"{offset}\n{offset}"))
    assert plan_rollback(made.survey(), 2).files == before


def test_sources_that_have_names_have_logs_of_these_names(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    (made.directory / "sources" / "0").rename(made.directory / "sources" / "clicks")
    for batch in range(6):
        text = (made.directory / f"offsets/{batch}").read_text()
        made.write(f"offsets/{batch}", text.replace("v1", "v2").replace('\n{"logOffset"', '\nclicks:{"logOffset"'))
    assert made.directory / "sources/clicks/3" in plan_rollback(made.survey(), 2).files


def test_who_has_started_meanwhile_is_seen_before_anything_goes(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    before = made.content()

    def refuse() -> None:
        assert under_way(made.directory) == 1, "no query can start any more"
        raise CheckpointError("it runs")

    with pytest.raises(CheckpointError, match="it runs"):
        rollback.carry_out(plan_rollback(made.survey(), 1), refuse)
    assert made.content() == before and under_way(made.directory) is None


def test_schemas_that_spark_knows_by_another_path_are_no_branchs(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    made.write(
        "state/0/_metadata/v2/0", 'v1\n{"stateSchemaFilePaths": ["s3a://b/it/state/0/_stateSchema/default/0_s"]}'
    )
    made.write("state/0/_metadata/v2/1", (made.directory / "state/0/_metadata/metadata").read_text())
    with pytest.raises(CheckpointError, match="names its schemas in s3a:"):
        branch.carry_out(plan_branch(made.survey(), 4), tmp_path / "branch")
    assert not (tmp_path / "branch").exists()


def test_what_operators_wrote_of_themselves_later_goes(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    text = (made.directory / "state/0/_metadata/metadata").read_text()
    for batch in (0, 4):
        made.write(f"state/0/_metadata/v2/{batch}", text)
        made.write(f"state/0/_stateSchema/default/{batch}_schema", "fields")
    rollback.carry_out(plan_rollback(made.survey(), 2))
    left = made.content()
    assert "state/0/_metadata/v2/0" in left and "state/0/_stateSchema/default/0_schema" in left
    assert "state/0/_metadata/v2/4" not in left and "state/0/_stateSchema/default/4_schema" not in left


def test_a_branch_holds_what_its_batch_needs_has_an_id_of_its_own_and_leaves_the_other_alone(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    made.write("state/0/_metadata/v2/0", f'v1\n{{"paths": ["file:{made.directory}/state/0/_stateSchema/default/0_s"]}}')
    made.write("state/0/_metadata/v2/1", (made.directory / "state/0/_metadata/metadata").read_text())
    before, into = made.content(), tmp_path / "branch"
    new_id = branch.carry_out(plan_branch(made.survey(), 4), into)
    assert made.content() == before and query_id(into) == new_id != query_id(made.directory)
    survey = Survey(into, no_lineage)
    assert survey.whole_batches() == (4,) and max(survey.begun) == 4
    names = {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}
    assert {"sources/0/4", "state/0/0/5_u5p0.changelog.crc"} <= names
    assert not {"sources/0/5", "state/0/0/6_u6p0.changelog", "commits/5"} & names
    assert f"file:{into}/state" in (into / "state/0/_metadata/v2/0").read_text()


def test_a_branch_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    made, into = Made(tmp_path / "it"), tmp_path / "branch"
    copied: list[Path] = []

    def cut(file: Path) -> None:
        copied.append(file)
        if len(copied) > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        branch.carry_out(plan_branch(made.survey(), 4), into, cut)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it", "it input"]
    (into / "something").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="is there already"):
        branch.carry_out(plan_branch(made.survey(), 4), into)
