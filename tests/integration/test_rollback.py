"""A query goes back to an earlier batch and goes on: the same answer, computed without Spark, for every kind of state.

The input is six small files, one a batch. Each batch's rows are in a file of its own, written over when the batch comes
again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mooring.cli.main import main
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.queries_with_pending_output import EVENTS, KINDS, Kind
from tests.integration.support.query_in_one_jvm import Job, same

pytestmark = pytest.mark.one_jvm

FILES = 6
IN_BRIEF = "sessions into windows"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def with_odd_partners(events: DataFrame) -> DataFrame:
    right = events.where("key % 2 = 1").select(f.col("key").alias("partner"), f.col("time").alias("at"))
    return of_key_and_time(events.join(right, f.expr("key = partner AND at = time")))


def of_key_and_time(rows: DataFrame) -> DataFrame:
    return rows.select("key", f.unix_millis("time").alias("time"))


ALL_KINDS = {
    **KINDS,  # and what holds nothing back
    "inner join": Kind(with_odd_partners, lambda: [(key, ms) for key, ms in EVENTS if key % 2]),
    "duplicates": Kind(lambda events: of_key_and_time(events.dropDuplicates(["key", "time"])), lambda: list(EVENTS)),
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    ours = {"drain_poll_interval": "100ms", "checkpoint_retain_batches": "120"}
    with application("rollback", tmp_path_factory.mktemp("rollback"), **ours) as session:
        yield session


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """The input as a stream: `key` and `time`, with a watermark of ten seconds."""
    return events_in_files(spark, tmp_path / "events", FILES).withWatermark("time", "10 seconds")


def restore(*arguments: str) -> dict[str, Any]:
    """What `mooring restore --json` says."""
    from contextlib import redirect_stdout
    from io import StringIO

    said = StringIO()
    with redirect_stdout(said):
        assert main(["restore", *arguments, "--json"]) == 0, said.getvalue()
    answer: dict[str, Any] = json.loads(said.getvalue())
    return answer


@pytest.fixture(params=["true", pytest.param("false", marks=pytest.mark.heavy)], ids=["changelogs", "archives"])
def changelog(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    spark.conf.set(CHANGELOG, request.param)
    yield request.param
    spark.conf.unset(CHANGELOG)


@pytest.mark.parametrize(
    "name", [name if name == IN_BRIEF else pytest.param(name, marks=pytest.mark.heavy) for name in ALL_KINDS]
)
def test_a_query_that_went_back_comes_to_the_same_answer(
    name: str, changelog: str, spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    kind = ALL_KINDS[name]
    job = Job(spark, tmp_path, kind.frame(events))
    job.start()
    job.read_all()
    job.stop(kind.is_endless)
    before = {path.name: path.read_text() for path in (job.checkpoint / "offsets").iterdir() if path.name.isdigit()}
    done = restore(str(job.checkpoint), "--to-batch", "1")
    assert done["done"] and len(done["undone"]) >= 4
    job.start()
    job.read_all(len(EVENTS) * 4 // 6)
    first = next(p["numInputRows"] for p in job.running.recentProgress if p["numInputRows"])
    reads = 2 if "join" in name else 1  # of each file
    assert first < reads * len(EVENTS) // 3, "the files come one by one, as they did"
    after = (job.checkpoint / "offsets" / "2").read_text()
    assert after.split("\n")[2] == before["2"].split("\n")[2], "and the batches are the same"
    job.drain()
    same(job, job.rows(), kind)


def test_a_query_goes_back_across_a_repartition(
    spark: SparkSession, events: DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = ALL_KINDS[IN_BRIEF]
    job = Job(spark, tmp_path, kind.frame(events))
    job.start()
    job.read_all()
    job.stop()
    spark.conf.set(FORMAT, "2")
    spark._streamingCheckpointManager.repartition(str(job.checkpoint), 3)
    spark.conf.unset(FORMAT)
    assert main(["history", str(job.checkpoint), "--json"]) == 0
    batches = json.loads(capsys.readouterr().out)["batches"]
    assert {one["whole"] for one in batches} == {"yes"}
    assert main(["verify", str(job.checkpoint), "--all"]) == 0
    victim = next((job.checkpoint / "state/0/2").rglob("*.sst"))
    content = victim.read_bytes()
    victim.write_bytes(content[:100] + bytes([content[100] ^ 8]) + content[101:])
    capsys.readouterr()
    assert main(["verify", str(job.checkpoint)]) == 1
    assert "operator 0, partition 2" in capsys.readouterr().out
    assert restore(str(job.checkpoint), "--to-newest-whole")["to-batch"] == batches[-2]["batch"]
    assert restore(str(job.checkpoint), "--to-batch", "1")["done"]
    job.start()
    job.read_all(len(EVENTS) * 4 // 6)
    job.drain()
    same(job, job.rows(), kind)


def test_spark_keeps_as_many_batches_as_are_wanted(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.streaming.minBatchesToRetain") == "120"


@pytest.mark.heavy
def test_two_runs_go_on_side_by_side(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    kind = KINDS["sessions into windows"]
    job = Job(spark, tmp_path, kind.frame(events))
    first = job.start()
    job.read_all()
    wait_until(lambda: (job.checkpoint / "_mooring" / "in-use.json").exists(), "the agent's note", 20)
    assert main(["restore", str(job.checkpoint), "--to-batch", "1"]) == 1, "while its application is running"
    branched, out = tmp_path / "branch", tmp_path / "branched"
    restore(str(job.checkpoint), "--to-batch", "2", "--into", str(branched))
    assert first.isActive
    job.drain()
    same(job, job.rows(), kind)
    kept = {path: path.stat().st_mtime for path in job.checkpoint.rglob("*") if path.is_file()}
    second = job.start(branched, out)
    assert second.id != first.id
    job.read_all(len(EVENTS) // 2)
    job.drain()
    earlier = spark.read.parquet(*(str(job.out / f"batch={batch}") for batch in range(3)))
    same(job, job.rows(out).unionByName(earlier), kind)
    assert kept == {path: path.stat().st_mtime for path in job.checkpoint.rglob("*") if path.is_file()}


def test_a_restore_that_was_cut_off_starts_no_query_until_it_is_done(
    spark: SparkSession, events: DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mooring.checkpoint import Proofs, Survey, plan_rollback, rollback

    kind = KINDS["windows"]
    job = Job(spark, tmp_path, kind.frame(events))
    job.start()
    job.read_all()
    job.stop()
    removed: list[Path] = []

    def cut(file: Path) -> None:
        removed.append(file)
        if len(removed) > 3:
            raise KeyboardInterrupt

    with Proofs() as proofs, pytest.raises(KeyboardInterrupt):
        rollback.carry_out(plan_rollback(Survey(job.checkpoint, proofs.lineage), 1), step=cut)
    query = job.start()
    with pytest.raises(StreamingQueryException, match="on its way back to batch 1"):
        query.awaitTermination(60)
    assert main(["history", str(job.checkpoint)]) == 0
    assert "a restore to batch 1 was interrupted" in capsys.readouterr().out
    # The agent hears late of a query that fails at once: its note that the checkpoint is in use may yet come and go.
    again = ["restore", str(job.checkpoint), "--to-batch", "1"]
    wait_until(lambda: main(again) == 0, "the restore to go on", 20)
    job.start()
    job.read_all(len(EVENTS) * 4 // 6)
    job.drain()
    same(job, job.rows(), kind)


LOGS = ("offsets", "commits")
HARMS = [(kind, harm) for kind in ("zip", "sst", "changelog", *LOGS) for harm in ("delete", "empty", "flip")]


def harmed(job: Job, kind_of_file: str, harm: str) -> Path:
    """The newest file of this kind, with harm done to it."""
    if kind_of_file in LOGS:
        files = [path for path in (job.checkpoint / kind_of_file).iterdir() if path.name.isdigit()]
        victim = max(files, key=lambda path: int(path.name))
    else:
        stores = (job.checkpoint / "state" / "0").glob("[01]")
        files = [path for store in stores for path in store.rglob(f"*.{kind_of_file}")]
        victim = max(files, key=lambda path: path.stat().st_mtime_ns)
    content = victim.read_bytes()
    if harm == "delete":
        victim.unlink()
        victim.with_name(f".{victim.name}.crc").unlink(missing_ok=True)  # Hadoop's
    elif harm == "empty":
        victim.write_bytes(b"")
    else:
        middle = len(content) // 3
        victim.write_bytes(content[:middle] + bytes([content[middle] ^ 8]) + content[middle + 1 :])
    return victim


@pytest.fixture
def stopped(request: pytest.FixtureRequest, spark: SparkSession, events: DataFrame, tmp_path: Path) -> Iterator[Job]:
    """A job that has read all, and is stopped; with changelogs where a test is about those."""
    kind_of_file = request.node.callspec.params["kind_of_file"]
    spark.conf.set(CHANGELOG, "true" if kind_of_file == "changelog" else "false")
    job = Job(spark, tmp_path, KINDS["windows"].frame(events))
    job.start()
    job.read_all()
    job.stop()
    yield job
    spark.conf.unset(CHANGELOG)


@pytest.mark.heavy
@pytest.mark.parametrize(("kind_of_file", "harm"), HARMS)
def test_a_damaged_file_is_found_and_the_query_goes_on_from_the_newest_whole_batch(
    kind_of_file: str, harm: str, stopped: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    job = stopped
    assert main(["verify", str(job.checkpoint), "--all"]) == 0
    newest = max(int(path.name) for path in (job.checkpoint / "commits").iterdir() if path.name.isdigit())
    victim = harmed(job, kind_of_file, harm)
    capsys.readouterr()
    began = time.monotonic()
    code = main(["verify", str(job.checkpoint)])
    said = capsys.readouterr()
    print(f"{said.out}{said.err}in {time.monotonic() - began:.1f} s")
    to = newest
    if (kind_of_file, harm) == ("commits", "delete"):  # as if the batch had not come to its end
        assert code == 0
        to = newest - 1
    else:
        assert code == 1
        where = (
            "partition " + victim.relative_to(job.checkpoint).parts[2]
            if kind_of_file not in LOGS
            else f"{kind_of_file}/{newest}"
        )
        assert where in said.out + said.err
        assert any(text in said.err for text in ("the newest whole one is", "is whole", "no batch is left"))
    if "no batch is left" in said.err:
        return
    if code == 1:
        to = restore(str(job.checkpoint), "--to-newest-whole")["to-batch"]
        assert to < newest
        assert main(["verify", str(job.checkpoint)]) == 0
    job.start()
    left = len(EVENTS) - (to + 1) * len(EVENTS) // FILES
    if left > 0:
        job.read_all(left)
    job.drain()
    same(job, job.rows(), KINDS["windows"])


@pytest.mark.heavy
@pytest.mark.parametrize(("kind_of_file", "harm"), [one for one in HARMS if one[0] not in LOGS])
def test_a_query_whose_state_is_damaged_in_the_checkpoint_goes_on_from_the_copy_of_its_host(
    kind_of_file: str, harm: str, stopped: Job
) -> None:
    job = stopped
    harmed(job, kind_of_file, harm)
    job.start()
    job.drain()
    same(job, job.rows(), KINDS["windows"])
