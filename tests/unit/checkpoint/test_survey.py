from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mooring.checkpoint import Survey, Verification, described
from mooring.checkpoint.drain_marks import FLUSHED_FROM_MS
from mooring.errors import CheckpointError
from tests.unit.checkpoint.made import SST, Made


def test_a_version_needs_the_last_archive_before_it_what_that_names_and_the_changelogs_since(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    needed = made.survey().needed_after(5)
    assert [set(one.sizes) for one in needed] == [
        {f"4_u4p{p}.zip", f"SSTs/{SST}", f"5_u5p{p}.changelog", f"6_u6p{p}.changelog"} for p in range(2)
    ]
    assert all(one.is_whole for one in needed)


def test_before_the_first_archive_changelogs_build_on_the_empty_store(tmp_path: Path) -> None:
    needed = Made(tmp_path / "it", archives=()).survey().needed_after(2)
    assert set(needed[1].sizes) == {f"{v}_u{v}p1.changelog" for v in (1, 2, 3)} and needed[1].is_whole


def test_versions_without_unique_ids_are_found_by_their_numbers(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", with_ids=False)
    assert set(made.survey().needed_after(5)[0].sizes) == {"4.zip", f"SSTs/{SST}", "5.changelog", "6.changelog"}
    made.file(0, 5, "changelog").unlink()
    assert "neither 5.zip nor 5.changelog is there" in made.survey().obstacles_to(5)[0]


def test_a_file_of_a_batch_that_was_tried_twice_is_nobodys(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    made.write("state/0/0/5_other.changelog", "of a task that was lost")
    assert made.survey().whole_batches() == tuple(range(6))
    assert "5_other.changelog" not in made.survey().needed_after(5)[0].sizes


def test_where_the_log_does_not_reach_the_changelog_is_asked_what_it_builds_on(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    made.write("state/0/0/5_other.changelog", "of a task that was lost")
    for batch in range(5):
        (made.directory / "commits" / str(batch)).unlink()
    asked: list[str] = []

    def lineage(changelog: Path, codec: str) -> dict[int, str]:
        asked.append(f"{changelog.name} {codec}")
        return {4: "u4p0", 5: "u5p0"}

    needed = Survey(made.directory, lineage).needed_after(5)
    assert asked == ["6_u6p0.changelog zstd"] and all(one.is_whole for one in needed)
    assert "5_u5p0.changelog" in needed[0].sizes


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda m: m.file(1, 5, "changelog").unlink(), "neither 5_u5p1.zip nor 5_u5p1.changelog is there"),
        (lambda m: m.file(1, 5, "changelog").write_text(""), "5_u5p1.changelog is empty"),
        (lambda m: (m.directory / f"state/0/1/SSTs/{SST}").unlink(), f"SSTs/{SST} is missing"),
        (lambda m: (m.directory / f"state/0/1/SSTs/{SST}").write_text("cut"), f"SSTs/{SST} has 3 bytes instead of 20"),
        (lambda m: m.file(1, 4, "zip").write_text("no zip"), "4_u4p1.zip can not be read"),
    ],
)
def test_what_is_lost_is_said_with_its_partition(harm: object, told: str, tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    harm(made)  # type: ignore[operator]
    survey = made.survey()
    (obstacle,) = survey.obstacles_to(5)
    assert obstacle.startswith("operator 0, partition 1: ") and told in obstacle
    assert 5 not in survey.whole_batches()


def test_a_whole_directory_that_is_lost_is_missed(tmp_path: Path) -> None:
    import shutil

    made = Made(tmp_path / "it")
    shutil.rmtree(made.directory / "state/0/1")
    assert made.survey().whole_batches() == ()


@pytest.mark.parametrize("content", [None, "", "v2", "v2\n{", "v2\n[]", 'v2\n{"stateUniqueIds": 3}'])
def test_an_entry_of_a_log_that_is_damaged_costs_its_batch_alone(content: str | None, tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    entry = made.directory / "commits" / "3"
    if content is None:
        entry.unlink()
    else:
        entry.write_text(content)
    survey = made.survey()
    if content == "v2":  # Spark reads it as an entry that says nothing
        assert survey.commits[3].state_ids == {}
    else:
        assert 3 not in survey.whole_batches()
        assert str(entry) in survey.log_faults[0].message
    assert {0, 1, 2, 5} <= set(survey.whole_batches())


def test_offsets_are_needed_of_the_batch_before_too(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    (made.directory / "offsets" / "2").write_text("")
    assert made.survey().whole_batches() == (0, 1, 4, 5)


def test_keys_and_bytes_are_known_where_archives_tell(tmp_path: Path) -> None:
    survey = Made(tmp_path / "it").survey()
    assert survey.keys(3) == 20 and survey.keys(4) is None
    assert survey.state_bytes(0) > 40


def test_content_is_read_once_and_what_is_damaged_costs_every_batch_that_needs_it(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    read: list[str] = []

    def fault_of(file: Path, codec: str) -> str | None:
        read.append(str(file.relative_to(made.directory)))
        return "its blocks are wrong" if file.name == "5_u5p0.changelog" else None

    verification = Verification(made.survey(), fault_of)
    assert verification.faults_after(5) == (
        "operator 0, partition 0: 5_u5p0.changelog is damaged: its blocks are wrong",
    )
    assert verification.newest_whole() == 3
    assert len(read) == len(set(read)) == verification.files_read()


def test_the_newest_whole_batch_is_one_before_a_drain_let_its_state_out(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    text = (made.directory / "commits/5").read_text()
    made.write("commits/5", text.replace('"nextBatchWatermarkMs": 6000', f'"nextBatchWatermarkMs": {FLUSHED_FROM_MS}'))
    assert Verification(made.survey(), lambda file, codec: None).newest_whole() == 4


def test_an_operator_without_a_description_is_refused_by_name(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    made.write("state/0/_metadata/metadata", "v1\n{")
    with pytest.raises(CheckpointError, match="state/0/_metadata/metadata does not describe the operator 0"):
        made.survey().needed_after(5)
    for provider in (made.provider, "org.example.MyProvider"):
        other = Made(tmp_path / provider, provider=provider)
        other.write("state/0/_metadata/metadata", "v1\n{")
        assert "does not describe the operator 0" in other.survey().obstacles_to(5)[0]


def test_one_partition_alone_has_state_of_a_global_limit_and_a_lost_one_is_missed(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", partitions=3, with_ids=False, operator="globalLimit")
    _lose(made, 1, 2)
    assert 5 in made.survey().whole_batches()
    other = Made(tmp_path / "other", partitions=3, with_ids=False, operator="globalLimit")
    _lose(other, 1)
    assert other.survey().whole_batches() == ()


@pytest.mark.parametrize("key", [None, ("key",)], ids=["no schema", "a key"])
@pytest.mark.parametrize("operator", ["stateStoreSave", "dedupe", "symmetricHashJoin"])
@pytest.mark.parametrize("partitions", [2, 4])
def test_a_checkpoint_that_has_lost_all_partitions_but_the_first_is_not_whole(
    partitions: int, operator: str, key: tuple[str] | None, tmp_path: Path
) -> None:
    made = Made(tmp_path / "it", partitions=partitions, with_ids=False, operator=operator)
    if key is not None:
        made.describe_key(*key)
    assert made.survey().whole_batches() == tuple(range(6))
    _lose(made, *range(1, partitions))
    survey = made.survey()
    assert survey.whole_batches() == ()
    assert {survey.judgement_of(batch).verdict for batch in range(6)} == {"not understood"}
    assert survey.judgement_of(5).unknown[0] == (
        "operator 0, partition 1: neither 6.zip nor 6.changelog is there, as in all partitions but the first"
    )


def test_an_aggregation_without_a_key_has_state_in_one_partition_alone(tmp_path: Path) -> None:
    made = Made(tmp_path / "it", partitions=4, with_ids=False, operator="stateStoreSave")
    _lose(made, 1, 2, 3)
    made.describe_key()
    assert made.survey().whole_batches() == tuple(range(6))
    schema = made.directory / "state/0/0/_metadata/schema"
    whole = schema.read_bytes()
    for damaged in (whole[:20], b"", whole.replace(b"v2", b"v9"), whole.replace(b"{", b"[")):
        schema.write_bytes(damaged)
        assert made.survey().judgement_of(5).verdict == "not understood"
    schema.write_bytes(whole[:3] + b"1" + whole[8:])  # as Spark before 3 wrote it
    assert made.survey().judgement_of(5).verdict == "yes"


def test_a_commit_of_version_3_without_ids_has_state_of_format_1(tmp_path: Path) -> None:
    """Spark writes that version for the sake of its sinks, in sessions of both formats of state."""
    made = Made(tmp_path / "it", with_ids=False)
    for batch in range(6):
        made.write(f"commits/{batch}", 'v3\n{"nextBatchWatermarkMs":1,"sinkMetadataMap":{"sink":{"isActive":true}}}')
    assert made.survey().whole_batches() == tuple(range(6))
    made.file(1, 6, "changelog").unlink()
    assert made.survey().judgement_of(5).verdict == "no"
    other = Made(tmp_path / "other")
    text = (other.directory / "commits/5").read_text()
    other.write("commits/5", text.replace("v2", "v3").replace("stateUniqueIds", "sinks"))
    other.file(1, 6, "changelog").unlink()
    assert other.survey().judgement_of(5).verdict == "not understood", "other commits have ids"


def _lose(made: Made, *partitions: int) -> None:
    for partition in partitions:
        shutil.rmtree(made.directory / f"state/0/{partition}")


def test_a_changelog_that_can_not_be_read_costs_its_batches_alone(tmp_path: Path) -> None:
    made = Made(tmp_path / "it")
    made.write("state/0/0/5_other.changelog", "of a task that was lost")
    (made.directory / "commits" / "4").unlink()

    def lineage(changelog: Path, codec: str) -> dict[int, str]:
        raise CheckpointError(f"{changelog} can not be read")

    survey = Survey(made.directory, lineage)
    assert "6_u6p0.changelog can not be read" in survey.obstacles_to(5)[0]
    assert survey.whole_batches() == (0, 1, 2, 3)


def test_state_of_another_provider_is_not_taken_for_whole(tmp_path: Path) -> None:
    survey = Made(tmp_path / "it", provider="org.example.MyProvider").survey()
    assert survey.whole_batches() == () and "org.example.MyProvider" in survey.obstacles_to(5)[0]


def test_batches_are_described_in_runs() -> None:
    assert described((3, 4, 5, 9)) == "3 to 5, 9" and described(()) == "none"
