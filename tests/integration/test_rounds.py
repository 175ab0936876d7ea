"""When the copies are brought up to date: rounds of the replica query, in one JVM and without executors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from tests.integration.support.store_with_open_copy import scala_object, scala_session

STORES = "spark.sql.streaming.stateStore"
CHANGELOG = f"{STORES}.rocksdb.changelogCheckpointing.enabled"
ROCKSDB = {
    f"{STORES}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STORES}.checkpointFormatVersion": "2",
}
SOON_SECONDS = 1.5
"""A round comes half a second after the last one at the earliest. A commit whose round was left out waits three."""


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    with scala_session(jvm, "rounds", ROCKSDB) as session:
        sessions = jvm.org.apache.spark.sql.classic.SparkSession
        sessions.setDefaultSession(session)  # where Mooring looks for a query
        yield session
        sessions.clearDefaultSession()


@pytest.fixture
def query(jvm: Any, session: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    session.conf().set(CHANGELOG, getattr(request, "param", "true"))
    rows = session.readStream().format("rate").load().writeStream().format("noop")
    running = rows.option("checkpointLocation", str(tmp_path)).start()
    yield Query(jvm, running)
    running.stop()


class Query:
    """A query with one copy, as the driver sees it. It has had one commit, and a round for it."""

    def __init__(self, jvm: Any, running: Any) -> None:
        ids = str(running.id()), str(running.runId())
        self._copied = jvm.io.mooring.standby.CopiedQuery(*ids, scala_object(jvm, "scala.package").Nil())
        self._nobody = scala_object(jvm, "scala.Predef").Map().empty()
        executors = jvm.java.util.ArrayList()
        executors.add(jvm.scala.Tuple2("1", "127.0.0.2"))
        held_by = jvm.scala.jdk.javaapi.CollectionConverters.asScala(executors).toSeq()
        self._holders = self._nobody.updated(0, held_by)
        self._versions = count(1)
        self._ended_ms = 1_000_000
        self.commits(paused_ms=10_000)
        assert self.round() == 1
        self._copied.copiesAboutToBeUsed(self._holders, self._nobody)  # as when the orders of the round are made
        self._copied.access()

    def commits(self, paused_ms: int = 0, took_ms: int = 500) -> int:
        """Commit a batch that began after such a pause and took so long. Its version."""
        version = next(self._versions)
        began_ms = self._ended_ms + paused_ms
        self._ended_ms = began_ms + took_ms
        self._copied.committed(version, began_ms, took_ms)
        return version

    def loses_the_executor(self) -> None:
        self._holders = self._nobody

    def round(self) -> int:
        """The version of the newest round."""
        return int(self._copied.round(self._holders).get().version())

    def waits_for_round_of(self, version: int) -> float:
        """Wait for a round of that version. How many seconds it took."""
        began = time.monotonic()
        wait_until(lambda: self.round() == version, f"a round of version {version}", 10, interval=0.02)
        return time.monotonic() - began


@pytest.fixture
def back_to_back(query: Query) -> Query:
    """Two short batches have followed without pauses. The last commit has no round, as another is about to follow."""
    query.waits_for_round_of(query.commits())
    query.commits()
    assert query.round() == 2
    return query


def test_at_full_load_the_second_commit_has_a_round(back_to_back: Query) -> None:
    assert back_to_back.waits_for_round_of(back_to_back.commits()) < SOON_SECONDS


def test_a_commit_without_a_round_gets_one_later_when_no_commit_follows(back_to_back: Query) -> None:
    assert back_to_back.waits_for_round_of(3) > SOON_SECONDS


def test_the_loss_of_an_executor_begins_no_round_for_a_commit_without_one(back_to_back: Query) -> None:
    back_to_back.loses_the_executor()
    assert back_to_back.waits_for_round_of(3) > SOON_SECONDS


def test_every_commit_has_a_round_while_a_task_moves_to_its_copy(query: Query) -> None:
    query.waits_for_round_of(query.commits())
    query.loses_the_executor()
    query.round()
    assert query.waits_for_round_of(query.commits()) < SOON_SECONDS


@pytest.mark.parametrize("slack", [{"paused_ms": 500}, {"took_ms": 2_500}], ids=["pauses", "long batches"])
def test_every_commit_has_a_round_where_batches_pause_or_are_long(query: Query, slack: dict[str, int]) -> None:
    query.waits_for_round_of(query.commits())
    assert query.waits_for_round_of(query.commits(**slack)) < SOON_SECONDS


def test_a_batch_without_data_has_a_round(query: Query) -> None:
    query.waits_for_round_of(query.commits(paused_ms=10_000))
    assert query.waits_for_round_of(query.commits(took_ms=50)) < SOON_SECONDS


@pytest.mark.parametrize("query", ["false"], indirect=True, ids=["changelogs off"])
def test_every_commit_has_a_round_where_copies_are_plain_files(back_to_back: Query) -> None:
    assert back_to_back.waits_for_round_of(3) < SOON_SECONDS
