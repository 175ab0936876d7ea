"""Spark's own tools take the format of state from the checkpoint, as a query does, whatever a session is set to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from tests.integration.support.application_in_one_jvm import application
from tests.integration.support.restarted_job import FORMAT_KEY
from tests.integration.support.state_formats import (
    BEFORE,
    CHANGELOGS,
    KEYS,
    LONGEST_RUN,
    Checkpoints,
    answer,
    begin_repartition,
    counts,
    forget_commit,
    formats_of_commits,
    read_state,
    repartition,
    rows_of,
    run,
    with_sink,
)

pytestmark = pytest.mark.one_jvm

UNSET = None
CELLS = [
    pytest.param(format, chosen, id=f"format {format}, setting {chosen}", marks=marks)
    for format, chosen, marks in (
        ("1", UNSET, ()),
        ("1", "1", pytest.mark.heavy),
        ("1", "2", pytest.mark.heavy),
        ("2", UNSET, ()),
        ("2", "1", pytest.mark.heavy),
        ("2", "2", pytest.mark.heavy),
    )
]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkpoints]:
    here = tmp_path_factory.mktemp("formats")
    with application("formats", here, CHANGELOGS) as spark:
        yield Checkpoints(spark, here)


@pytest.mark.parametrize(("format", "chosen"), CELLS)
def test_state_is_read_as_the_checkpoint_has_it(format: str, chosen: str | None, checkpoints: Checkpoints) -> None:
    session, checkpoint = checkpoints.session(chosen), checkpoints.copy(format)
    assert counts(read_state(session, checkpoint)) == answer(2)
    assert counts(read_state(session, checkpoint, batchId=0)) == answer(1)
    changes = read_state(session, checkpoint, readChangeFeed=True, changeStartBatchId=0)
    assert changes.filter("change_type = 'update'").count() == 2 * KEYS
    metadata = session.read.format("state-metadata").load(str(checkpoint)).first()
    assert metadata is not None and metadata["numPartitions"] == BEFORE
    assert session.conf.get(FORMAT_KEY) == (chosen or "1"), "the setting itself stays as it was"


@pytest.mark.parametrize(("format", "chosen"), CELLS)
def test_a_checkpoint_is_repartitioned_in_its_format(format: str, chosen: str | None, checkpoints: Checkpoints) -> None:
    session, checkpoint = checkpoints.session(chosen), checkpoints.copy(format)
    repartition(session, checkpoint)
    assert formats_of_commits(checkpoint) == [f"v{format}"] * 3
    assert counts(read_state(session, checkpoint)) == answer(2)
    assert run(session, checkpoint) == answer(3)
    assert session.conf.get(FORMAT_KEY) == (chosen or "1"), "the setting itself stays as it was"


@pytest.mark.parametrize(("format", "chosen"), CELLS)
def test_a_repartition_that_skips_a_batch_keeps_the_format(
    format: str, chosen: str | None, checkpoints: Checkpoints
) -> None:
    session, checkpoint = checkpoints.session(chosen), checkpoints.copy(format)
    forget_commit(checkpoint, 1)
    repartition(session, checkpoint, enforce_exactly_once_sink=False)
    assert formats_of_commits(checkpoint) == [f"v{format}"] * 3
    assert run(session, checkpoint) == answer(2), "the batch that was skipped is computed anew"


@pytest.mark.parametrize(
    "chosen", [UNSET, pytest.param("2", marks=pytest.mark.heavy), "3"], ids=["unset", "setting 2", "setting 3"]
)
@pytest.mark.parametrize("skips", [False, True], ids=["nothing skipped", "a batch skipped"])
def test_commits_that_name_a_sink_stay_so(skips: bool, chosen: str | None, checkpoints: Checkpoints) -> None:
    """Spark writes commits of version 3 where sinks may be exchanged; state is of format 2 where they have its ids."""
    session, checkpoint = checkpoints.session(chosen), checkpoints.copy("2")
    if skips:
        forget_commit(checkpoint, 1)
    for batch in range(1 if skips else 2):
        with_sink(checkpoint, batch)
    assert counts(read_state(session, checkpoint)) == answer(1 if skips else 2)
    repartition(session, checkpoint, enforce_exactly_once_sink=False)
    assert formats_of_commits(checkpoint) == ["v3", "v2" if skips else "v3", "v3"]
    assert counts(read_state(session, checkpoint)) == answer(1 if skips else 2)
    assert run(session, checkpoint) == answer(2 if skips else 3)


def test_state_of_format_1_is_read_beside_commits_that_name_a_sink(checkpoints: Checkpoints) -> None:
    checkpoint = checkpoints.copy("1")
    for batch in range(2):
        with_sink(checkpoint, batch)
    assert counts(read_state(checkpoints.session(UNSET), checkpoint)) == answer(2)
    assert run(checkpoints.session(UNSET), checkpoint) == answer(3)


def test_a_checkpoint_is_not_taken_for_the_one_before_it(checkpoints: Checkpoints) -> None:
    """Of the second one Mooring can not tell the format: then the session's setting decides, as with stock Spark."""
    session, first, second = checkpoints.session("1"), checkpoints.copy("2"), checkpoints.copy("1")
    entry = second / "commits" / "1"
    text = entry.read_text()
    forget_commit(second, 1)
    entry.write_text(text.replace("v1\n", "v1 \n"))  # Spark takes it for v1
    repartition(session, first)
    repartition(session, second)
    assert run(session, first) == run(session, second) == answer(3)


@pytest.mark.parametrize("skipped", [False, True], ids=["nothing skipped", "a batch skipped"])
def test_an_unfinished_repartition_can_be_finished(skipped: bool, checkpoints: Checkpoints) -> None:
    """As one that ended with STATE_CHECKPOINT_FORMAT_VERSION_MISMATCH left it."""
    session, checkpoint = checkpoints.session(UNSET), checkpoints.copy("2")
    if skipped:
        forget_commit(checkpoint, 1)
        (checkpoint / "commits" / "1").write_text('v1\n{"nextBatchWatermarkMs":0}')
    begin_repartition(checkpoint, 2, base=0 if skipped else 1)
    with pytest.raises(StreamingQueryException, match="STREAMING_UNFINISHED_REPARTITION_DETECTED"):
        run(session, checkpoint)
    repartition(session, checkpoint, enforce_exactly_once_sink=False)
    assert run(session, checkpoint) == answer(2 if skipped else 3)


def test_state_is_read_inside_a_batch_of_a_query(checkpoints: Checkpoints) -> None:
    """The thread that runs a query's function is the stream's own, and the state that it reads is another query's."""
    other, found = checkpoints.copy("2"), []
    session = checkpoints.session("1")
    repartitioned = checkpoints.copy("2")

    def look(batch: DataFrame, number: int) -> None:
        found.append(counts(read_state(session, other)))
        repartition(session, repartitioned)

    writer = rows_of(session).writeStream.foreachBatch(look)
    writer = writer.option("checkpointLocation", str(other.with_name("looks"))).trigger(availableNow=True)
    assert writer.start().awaitTermination(LONGEST_RUN)
    assert found == [answer(2)]
    assert run(session, repartitioned) == answer(3)
