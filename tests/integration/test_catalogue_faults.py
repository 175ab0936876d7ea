"""The catalogue in a Delta table when agents die, two write, the table goes or is damaged: it is whole again later."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mooring.agent.checkpoints.catalogue_keeper import CatalogueKeeper
from mooring.metadata.local_tree import LocalFileTree
from mooring.model import events
from mooring.spark.delta import DeltaTables
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application, own_agents
from tests.integration.support.spark_packages import delta
from tests.unit.checkpoint.made import Made

pytestmark = pytest.mark.heavy
SEED = 5


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    ours = {"checkpoint_catalog_enabled": "true", "checkpoint_catalog_interval": "1s"}
    conf = {
        "spark.jars.packages": delta(),
        "spark.databricks.delta.requiredSparkConfsCheck.enabled": "false",
    }
    with application("catalogue-faults", tmp_path_factory.mktemp("faults"), conf, **ours) as session:
        yield session


class Query:
    """A count over a stream without an end, a batch of some tenths of a second; its catalogue."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark, self.checkpoint = spark, directory / "checkpoint"
        rate = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        writer = rate.groupBy((rate.value % 10).alias("key")).count().writeStream.format("noop").outputMode("complete")
        self.query = writer.option("checkpointLocation", str(self.checkpoint)).start()

    @property
    def table(self) -> Path:
        return self.checkpoint / "_mooring" / "state_versions"

    def commits(self) -> dict[int, set[str]]:
        """Batch to the ids that the commit log has."""
        found = {}
        for path in (self.checkpoint / "commits").iterdir():
            if path.name.isdigit():
                ids = json.loads(path.read_text().split("\n")[1])["stateUniqueIds"]["0"]
                found[int(path.name)] = {one for of_partition in ids for one in of_partition}
        return found

    def rows(self) -> list[Any]:
        if not list(self.table.glob("_delta_log/*.json")):
            return []
        return self.spark.read.format("delta").load(str(self.table)).where("kind = 'commit'").collect()

    def is_whole(self) -> bool:
        """Each store of each batch, up to now, and nothing else, by the ids of the commit log."""
        logged = self.commits()
        newest = max(logged)
        wait_until(lambda: max((row.batch for row in self.rows()), default=-1) >= newest, "the table", 90, interval=1)
        rows = {(row.batch, row.partition, row.id) for row in self.rows()}
        listed = Counter((batch, partition) for batch, partition, _ in rows)
        ids: dict[int, set[str]] = {}
        for batch, _, id in rows:
            ids.setdefault(batch, set()).add(id)
        assert set(listed.values()) == {1}, listed.most_common(3)
        return all(ids.get(batch) == logged[batch] for batch in logged)

    def goes_on(self) -> None:
        before = self.query.lastProgress["batchId"]
        wait_until(lambda: self.query.lastProgress["batchId"] > before + 2, "the next batches", 60)
        assert self.query.exception() is None


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[Query]:
    made = Query(spark, tmp_path)
    wait_until(made.rows, "the first rows", 90, interval=1)
    yield made
    made.query.stop()


def test_agents_that_are_killed_at_any_moment_leave_no_gap_and_write_nothing_twice(query: Query) -> None:
    drawn = random.Random(SEED)
    for _ in range(5):
        time.sleep(drawn.uniform(1, 4))
        for agent in own_agents():
            os.kill(agent, signal.SIGKILL)
        query.goes_on()
    assert query.is_whole()


def test_a_table_that_was_deleted_comes_again(query: Query) -> None:
    shutil.rmtree(query.table)
    query.goes_on()
    assert query.is_whole()


def test_a_log_that_is_half_written_is_set_aside(query: Query) -> None:
    newest = max(query.table.glob("_delta_log/*.json"))
    newest.write_bytes(newest.read_bytes()[:40])
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    query.goes_on()
    wait_until(lambda: list(query.table.parent.glob("state_versions.damaged-*")), "the table to be set aside", 180)
    assert query.is_whole()


def test_a_storage_that_refuses_for_a_while_gets_its_rows_later(query: Query) -> None:
    log = query.table / "_delta_log"
    elsewhere = log.with_name("elsewhere")
    log.rename(elsewhere)
    log.write_text("a file, where nothing can be written")
    time.sleep(10)
    query.goes_on()
    log.unlink()
    elsewhere.rename(log)
    assert query.is_whole()


def test_two_agents_at_once_leave_no_batch_out(spark: SparkSession, tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=10)
    tables = DeltaTables(spark._jvm)
    keepers = []
    for _ in range(2):
        keeper = CatalogueKeeper(tables, lambda most: "[]", LocalFileTree, print)
        conf = {"spark.mooring.checkpoint.catalog.interval": "1h"}
        keeper.handle(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
        keeper.handle(events.QueryPlanned(1, "query-1", "run", "q", str(made.directory), 0, {0: 2}))
        keepers.append(keeper)
    for batches in range(10, 30, 5):
        for batch in range(batches, batches + 5):
            made.add(batch)
        threads = [threading.Thread(target=_pass, args=(keeper,)) for keeper in keepers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for keeper in keepers:
        _pass(keeper)
        keeper.end()
    rows = spark.read.format("delta").load(f"{made.directory}/_mooring/state_versions").collect()
    assert Counter((row.batch, row.partition) for row in rows).keys() == {(b, p) for b in range(30) for p in range(2)}
    assert len({(row.batch, row.partition, row.id) for row in rows}) == 60, "said twice it is the same"


def test_what_is_older_than_is_wanted_goes_from_the_table(spark: SparkSession, tmp_path: Path) -> None:
    made = Made(tmp_path / "it", batches=550, archives=())
    keeper = CatalogueKeeper(DeltaTables(spark._jvm), lambda most: "[]", LocalFileTree, print)
    conf = {"spark.mooring.checkpoint.catalog.interval": "1h", "spark.mooring.checkpoint.catalog.retain.batches": "20"}
    keeper.handle(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
    keeper.handle(events.QueryPlanned(1, "query-1", "run", "q", str(made.directory), 0, {0: 2}))
    for _ in range(3):  # two hundred a pass at most
        assert keeper.write() == []
    keeper.end()
    rows = spark.read.format("delta").load(f"{made.directory}/_mooring/state_versions").collect()
    assert {row.batch for row in rows} == set(range(500, 550))


def _pass(keeper: CatalogueKeeper) -> None:
    for _ in range(5):
        if not keeper.write():
            return
    raise AssertionError("five times in a row the other one was faster")
