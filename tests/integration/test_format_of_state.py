"""Spark's own tools take the format of state from the checkpoint, as a query does, whatever a session is set to."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from tests.integration.one_jvm import application
from tests.integration.stages import FORMAT_KEY

pytestmark = pytest.mark.one_jvm

ROWS = 20  # of each batch
KEYS = 7
BEFORE, AFTER = 2, 5  # partitions
LONGEST_RUN = 120  # seconds
CHANGELOGS = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
FORMATS = ("1", "2")
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


class Checkpoints:
    """One of each format, of two committed batches, and copies of them."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark, self._directory = spark, directory
        for format in FORMATS:
            session = self.session(format)
            for _ in range(2):
                run(session, directory / format)

    def session(self, chosen: str | None) -> SparkSession:
        """A second session of the application, with this value of the setting."""
        session = self.spark.newSession()
        if chosen is not None:
            session.conf.set(FORMAT_KEY, chosen)
        return session

    def copy(self, format: str) -> Path:
        return Path(shutil.copytree(self._directory / format, self._directory / f"{format}-{uuid4().hex}"))


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


@pytest.mark.heavy
def test_a_repartitioned_checkpoint_goes_on_with_stock_spark(tmp_path: Path) -> None:
    ready: dict[tuple[str, bool], Path] = {}
    with application("formats", tmp_path, CHANGELOGS) as spark:
        checkpoints = Checkpoints(spark, tmp_path)
        for format in FORMATS:
            for skips in (False, True):
                checkpoint = ready[format, skips] = checkpoints.copy(format)
                if skips:
                    forget_commit(checkpoint, 1)
                repartition(checkpoints.session(UNSET), checkpoint, enforce_exactly_once_sink=not skips)
    with stock(tmp_path) as spark:
        for (format, skips), checkpoint in ready.items():
            session = spark.newSession()
            session.conf.set(FORMAT_KEY, format)
            assert run(session, checkpoint) == answer(2 if skips else 3)
            # Only now: stock Spark 4.2.0 reads no snapshot in an application that has not yet run a query with state.
            assert counts(read_state(session, checkpoint)) == answer(2 if skips else 3)
    with application("formats", tmp_path, CHANGELOGS) as spark:
        for (_, skips), checkpoint in ready.items():
            assert run(spark.newSession(), checkpoint) == answer(3 if skips else 4), "and with Mooring again"


@contextmanager
def stock(here: Path) -> Iterator[SparkSession]:
    """The same application without the plugin."""
    with application("stock", here, {**CHANGELOGS, "spark.plugins": ""}) as spark:
        assert spark.conf.get("spark.sql.extensions", None) is None, "Mooring is not there"
        yield spark


def rows_of(session: SparkSession) -> DataFrame:
    """One more batch of the numbers from 0 for each run."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 1)
    return source.option("startTimestamp", 0).load()


def run(session: SparkSession, checkpoint: Path) -> Counter[int]:
    """Run one batch more; what it has counted then."""
    name = f"counts_{uuid4().hex}"
    counted = rows_of(session).groupBy((col("value") % KEYS).alias("key")).count()
    writer = counted.writeStream.format("memory").queryName(name).outputMode("complete")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(LONGEST_RUN), query.status
    finally:
        query.stop()
    return Counter({row["key"]: row["count"] for row in session.table(name).collect()})


def answer(batches: int) -> Counter[int]:
    """What so many batches count."""
    return Counter(number % KEYS for number in range(batches * ROWS))


def read_state(session: SparkSession, checkpoint: Path, **options: int | bool) -> DataFrame:
    return session.read.format("statestore").options(**options).load(str(checkpoint))


def counts(state: DataFrame) -> Counter[int]:
    return Counter({row["key"][0]: row["value"]["count"] for row in state.collect()})


def repartition(session: SparkSession, checkpoint: Path, enforce_exactly_once_sink: bool = True) -> None:
    session._streamingCheckpointManager.repartition(str(checkpoint), AFTER, enforce_exactly_once_sink)


def formats_of_commits(checkpoint: Path) -> list[str]:
    commits = checkpoint / "commits"
    batches = sorted(int(path.name) for path in commits.glob("[0-9]*"))
    return [(commits / str(batch)).read_text().splitlines()[0] for batch in batches]


def forget_commit(checkpoint: Path, batch: int) -> None:
    """As after a driver's death at the end of that batch."""
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


def with_sink(checkpoint: Path, batch: int) -> None:
    """The commit as a session in which sinks may be exchanged writes it."""
    entry = checkpoint / "commits" / str(batch)
    commit = json.loads(entry.read_text().partition("\n")[2])
    sink = {"sinkName": "s", "commitOffset": "-", "providerName": "memory", "apiVersion": "DSv2", "isActive": True}
    forget_commit(checkpoint, batch)
    entry.write_text("v3\n" + json.dumps({**commit, "sinkMetadataMap": {"s": sink}}))


def begin_repartition(checkpoint: Path, batch: int, base: int) -> None:
    """The entry of the offset log that Spark writes before it rewrites the state."""
    offsets = checkpoint / "offsets"
    key = '"spark.sql.shuffle.partitions":'
    entry = (offsets / str(base)).read_text()
    assert f'{key}"{BEFORE}"' in entry
    (offsets / str(batch)).write_text(entry.replace(f'{key}"{BEFORE}"', f'{key}"{AFTER}"'))
