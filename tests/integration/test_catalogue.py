"""The catalogue in a real Delta table: what it says of each committed version, beside the files that lie there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mooring.catalogue.rows import SCHEMA, TABLE_PARTITION_COLUMN
from mooring.catalogue.table import batches_listed, newest_bytes
from mooring.spark.delta import DeltaTables
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.job_outputs import last_commit
from tests.integration.support.queries_with_pending_output import outer_join_in_windows, window_counts
from tests.integration.support.restarted_job import FORMAT_KEY
from tests.integration.support.spark_packages import delta
from tests.unit.cli import records

pytestmark = pytest.mark.one_jvm

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FILES = 6


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """With Delta's jars, which the session does not use."""
    conf = {
        "spark.jars.packages": delta(),
        "spark.databricks.delta.requiredSparkConfsCheck.enabled": "false",
    }
    ours = {"checkpoint_catalog_enabled": "true", "checkpoint_catalog_interval": "1s"}
    with application("catalogue", tmp_path_factory.mktemp("catalogue"), conf, **ours) as session:
        yield session


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return events_in_files(spark, tmp_path / "events", FILES).withWatermark("time", "10 seconds")


@pytest.mark.parametrize("changelog", ["true", pytest.param("false", marks=pytest.mark.heavy)])
def test_every_version_that_was_committed_is_in_the_table_with_its_files(
    changelog: str, spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    spark.conf.set(CHANGELOG, changelog)
    try:
        query = window_counts(events).writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        wait_until(lambda: last_commit(checkpoint) >= FILES - 1, "all files to be read", 90)
        rows = _until(spark, checkpoint, last_commit(checkpoint))
        query.stop()
    finally:
        spark.conf.unset(CHANGELOG)
    commits = [row for row in rows if row.kind == "commit"]
    assert len(commits) == len({(row.batch, row.operator, row.partition, row.store) for row in commits})
    for batch in range(FILES):
        logged = json.loads((checkpoint / "commits" / str(batch)).read_text().split("\n")[1])["stateUniqueIds"]["0"]
        found = {row.partition: row.id for row in commits if row.batch == batch}
        assert found == {partition: ids[0] for partition, ids in enumerate(logged)}
    files = [row.changelog for row in rows if row.changelog] + [row.archive for row in rows if row.archive]
    assert {file.name.rpartition(".")[2] for file in files} == ({"changelog"} if changelog == "true" else {"zip"})
    for row in rows:
        directory = checkpoint / "state" / "0" / str(row.partition)
        for told in filter(None, (row.changelog, row.archive)):
            written = json.loads((directory / f"{told.name}.crc").read_text())
            assert told.bytes == (directory / told.name).stat().st_size
            assert told.crc32c == written["value"] % 2**32
        for told in row.files or ():
            assert told.bytes == (directory / "SSTs" / told.name).stat().st_size
    assert all(row.base for row in commits if row.batch > 0) and all(row.keys is not None for row in commits)
    assert {row.deployment for row in rows} == {spark.sparkContext.applicationId}


def test_reports_that_the_agent_has_not_written_are_kept_for_the_next_agent(spark: SparkSession) -> None:
    reports = spark._jvm.io.mooring.agent.StateReports()
    for number in range(12_000):
        reports.add(str(number))
    assert json.loads(reports.take(20_000)) == list(range(12_000))
    reports.requeueTaken()
    assert json.loads(reports.take(20_000)) == list(range(12_000)), "the first agent died before it had written them"
    reports.written()
    reports.requeueTaken()
    assert json.loads(reports.take(20_000)) == list(range(2_000, 12_000)), "some may not be committed yet"


@pytest.mark.heavy
def test_no_sst_file_of_format_v1_is_noted(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    """Such a checkpoint gets no rows: nothing takes what is noted."""
    checkpoint = tmp_path / "checkpoint"
    spark.conf.set(CHANGELOG, "false")
    spark.conf.set(FORMAT_KEY, "1")
    try:
        query = window_counts(events).writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        wait_until(lambda: last_commit(checkpoint) >= 2, "some batches", 90)
        query.stop()
    finally:
        spark.conf.unset(CHANGELOG)
        spark.conf.unset(FORMAT_KEY)
    of = getattr(getattr(spark._jvm.io.mooring.localstore, "StoreWrites$"), "MODULE$").of
    uploaded = sorted((checkpoint / "state").rglob("*.sst"))
    stores = {file: of(spark._jvm.org.apache.hadoop.fs.Path(str(file.parent.parent))).get() for file in uploaded}
    assert uploaded and not [file.name for file, noted in stores.items() if noted.take(file.name).isDefined()]


def test_a_file_that_can_not_be_read_for_its_checksum_fails_no_upload(spark: SparkSession, tmp_path: Path) -> None:
    file = spark._jvm.org.apache.hadoop.fs.Path
    noting = getattr(getattr(spark._jvm.io.mooring.localstore, "SharedFileSystem$"), "MODULE$")
    noting.note(file(str(tmp_path / "gone.sst")), file(str(tmp_path / "checkpoint/state/0/0/SSTs/gone.sst")))


@pytest.mark.heavy
def test_stores_of_a_join_are_told_apart(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    frame = outer_join_in_windows(events)
    query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    wait_until(lambda: last_commit(checkpoint) >= 2, "some batches", 90)
    rows = _until(spark, checkpoint, 2)
    query.stop()
    stores = {row.store for row in rows if row.operator == 1}
    assert len(stores) in (1, 4) and None not in stores, stores  # one with column families, or four
    assert {row.operator for row in rows} == {0, 1}


@pytest.mark.heavy
def test_a_table_may_be_one_of_sparks_catalog(spark: SparkSession) -> None:
    tables, name, schema = DeltaTables(spark._jvm), "default.state_versions", "kind STRING, hundred BIGINT"
    assert not tables.exists(name) and tables.select(name, ("kind",), "true") is None
    for number in range(2):
        tables.append(name, schema, "hundred", [{"kind": "commit", "hundred": number}], "writer", number)
    tables.append(name, schema, "hundred", [{"kind": "again", "hundred": 1}], "writer", 1)
    tables.remove(name, "hundred < 1")
    tables.vacuum(name)
    assert tables.exists(name)
    assert tables.select(name, ("kind", "hundred"), "true") == [{"kind": "commit", "hundred": 1}]


@pytest.mark.heavy
def test_an_append_counts_once_whether_kernel_or_spark_has_written_it(spark: SparkSession, tmp_path: Path) -> None:
    path, schema = str(tmp_path / "table"), "kind STRING, hundred BIGINT, at STRUCT<name: STRING>, all ARRAY<STRING>"
    tables, by_spark = DeltaTables(spark._jvm), DeltaTables(spark._jvm)
    by_spark._kernel_failures[path] = 3

    def append(by: DeltaTables, number: int, kind: str, *hundreds: int) -> None:
        rows = [{"kind": kind, "hundred": one, "at": {"name": kind}, "all": [kind, None]} for one in hundreds]
        by.append(path, schema, "hundred", rows, "writer", number)

    append(tables, 0, "made by spark", 0)
    append(tables, 1, "kernel", 0, 1)
    append(by_spark, 1, "again", 1)
    append(by_spark, 2, "spark", 1)
    append(tables, 2, "again", 1)
    for number in range(3, 25):  # Kernel makes checkpoints of the log meanwhile
        append(tables, number, "kernel", 2)
    assert tables._kernel is not None, "Kernel has written, not Spark"
    assert list((tmp_path / "table" / "_delta_log").glob("*.checkpoint*.parquet"))
    of_partition = spark.read.format("delta").load(path).where("hundred = 2").select(f.input_file_name()).distinct()
    assert of_partition.count() == 22
    tables.compact(path, "hundred >= 2")
    assert of_partition.count() == 1
    rows = tables.select(path, ("*",), "true") or []
    assert all(row["at"] == {"name": row["kind"]} and row["all"] == [row["kind"], None] for row in rows)
    counted = {(row["kind"], row["hundred"]): 0 for row in rows}
    for row in rows:
        counted[row["kind"], row["hundred"]] += 1
    assert counted == {
        ("made by spark", 0): 1,
        ("kernel", 0): 1,
        ("kernel", 1): 1,
        ("spark", 1): 1,
        ("kernel", 2): 22,
    }


@pytest.mark.heavy
def test_a_forecast_has_sizes_from_the_catalogue(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    query = window_counts(events).writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    wait_until(lambda: last_commit(checkpoint) >= 2, "some batches", 90)
    query.stop()
    rows = [row for row in _until(spark, checkpoint, last_commit(checkpoint)) if row.bytes is not None]
    newest = max(row.batch for row in rows)
    bytes = {row.partition: row.bytes for row in rows if row.batch == newest}
    model = records.job_model(query.id, partitions=len(bytes), hosts=("10.0.0.2",))
    place = records.write(tmp_path / "records", model, record={})
    asked = ["plan", "--json", "--metadata", place, "--checkpoint", str(checkpoint), "--remove-host", "10.0.0.2"]
    command = [sys.executable, "-m", "mooring.cli.main", *asked, "--add-host", "10.0.0.3"]
    outlook = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    moves = {move["task"]: move["bytes"] for move in outlook["moves"]}
    assert moves == {f"{query.id}/Partition {partition}": size for partition, size in bytes.items()}
    assert outlook["bytes-to-fetch"] == sum(moves.values()) > 0


def test_an_undone_attempt_of_a_batch_is_in_no_sum(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of both attempts are in the table where an agent was replaced while it wrote."""
    rows = [
        {"kind": "commit", "query": "q", "batch": batch, "operator": 0, "partition": partition, "id": id, "keys": keys}
        | {"bytes": keys * 10, "committed_ms": keys * 100, "deployment": "app", "hundred": 0}
        for batch, partition, id, keys in [
            (0, 0, "old", 1),
            (1, 0, "undone0", 50),
            (1, 1, "undone1", 60),
            (1, 0, "valid0", 2),
            (1, 1, "valid1", 3),
            (2, 0, "undone2", 70),
        ]
    ]
    table = str(tmp_path / "table")
    DeltaTables(spark._jvm).append(table, SCHEMA, TABLE_PARTITION_COLUMN, rows, "w", 1)
    found = batches_listed(spark, table, "q", {1: ["valid0", "valid1"], 2: ["valid2"]})
    assert [(one.batch, one.keys, one.bytes, one.committed_ms) for one in found] == [(0, 1, 10, 100), (1, 5, 50, 300)]
    found = batches_listed(spark, table, "q", {})
    assert [one.keys for one in found] == [1, 115, 70]
    assert newest_bytes(spark, table, "q", {1: ["valid0", "valid1"], 2: ["valid2"]}, 2) == {0: 20, 1: 30}
    assert newest_bytes(spark, table, "q", {1: ["valid0", "valid1"]}, 1) == {0: 20, 1: 30}, "batch 2 is undone"
    assert newest_bytes(spark, table, "q", {}, None) == {0: 700, 1: 630}


def test_a_size_that_is_not_known_is_in_no_sum(spark: SparkSession, tmp_path: Path) -> None:
    """Older releases wrote 0 where a store had keys and no SST files yet."""
    sizes = [(0, 0, 0, 7), (0, 1, 40, 7), (1, 0, None, 8), (1, 1, 50, 8), (2, 0, 0, 0), (2, 1, 60, 9)]
    rows = [
        {"kind": "commit", "query": "q", "batch": batch, "operator": 0, "partition": partition, "id": f"{batch}"}
        | {"keys": keys, "committed_ms": 1, "deployment": "app", "hundred": 0}
        | ({} if size is None else {"bytes": size})
        for batch, partition, size, keys in sizes
    ]
    table = str(tmp_path / "table")
    DeltaTables(spark._jvm).append(table, SCHEMA, TABLE_PARTITION_COLUMN, rows, "w", 1)
    assert [one.bytes for one in batches_listed(spark, table, "q", {})] == [None, None, 60]
    assert newest_bytes(spark, table, "q", {}, 1) == {1: 50}
    assert newest_bytes(spark, table, "q", {}, None) == {0: 0, 1: 60}


def _until(spark: SparkSession, checkpoint: Path, batch: int) -> list:
    table = checkpoint / "_mooring" / "state_versions"

    def rows() -> list:
        return spark.read.format("delta").load(str(table)).collect() if list(table.glob("_delta_log/*.json")) else []

    wait_until(lambda: max((row.batch for row in rows()), default=-1) >= batch, "the table", 60, interval=1)
    return rows()
