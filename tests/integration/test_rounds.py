"""When the copies are brought up to date: rounds of the replica query, in one JVM and without executors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from tests.integration.copied_store import scala_object, scala_session

STORES = "spark.sql.streaming.stateStore"
CHANGELOG = f"{STORES}.rocksdb.changelogCheckpointing.enabled"
ROCKSDB = {
    f"{STORES}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STORES}.checkpointFormatVersion": "2",
}
PATIENCE_MS = 3_000
"""How long a commit may be without a round."""


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
    """Of which copies are kept, as the driver sees it. It has ended no batch yet."""

    def __init__(self, jvm: Any, running: Any) -> None:
        ids = str(running.id()), str(running.runId())
        self._watched = jvm.io.mooring.Watched(*ids, scala_object(jvm, "scala.package").Nil())
        self._nobody = scala_object(jvm, "scala.Predef").Map().empty()
        self._versions = count(1)
        self._began_ms = int(time.time() * 1000)

    def commits(self, began_ms: int, ended_ms: int) -> int:
        """A batch is told, by times since this was made; the version that it has left."""
        version = next(self._versions)
        self._watched.committed(version, self._began_ms + began_ms, ended_ms - began_ms)
        return version

    def opens_copies(self) -> None:
        """As in the first round."""
        assert self.round() == 1
        self._watched.access()

    def round(self) -> int:
        """The version of the newest one."""
        return int(self._watched.round(self._nobody).get().version())

    def round_comes_ms(self, version: int) -> int:
        """When there is one of that version, since this was made."""
        wait_until(lambda: self.round() == version, f"a round of version {version}", 10, interval=0.02)
        return int(time.time() * 1000) - self._began_ms


def test_of_short_batches_without_a_pause_every_second_one_has_a_round(query: Query) -> None:
    query.commits(-900, -500)
    query.opens_copies()
    for ended_ms in (0, 500):
        newest = query.commits(ended_ms - 500, ended_ms)
    assert query.round_comes_ms(newest) < 500 + PATIENCE_MS


def test_a_commit_after_which_none_comes_has_its_round_later(query: Query) -> None:
    query.commits(-900, -500)
    query.opens_copies()
    assert query.round_comes_ms(query.commits(-500, 0)) >= PATIENCE_MS


@pytest.mark.parametrize(("ended_ms", "began_ms"), [(-1_000, -500), (-2_500, -2_500)], ids=["pauses", "long batches"])
def test_every_commit_has_a_round_where_batches_leave_room(query: Query, ended_ms: int, began_ms: int) -> None:
    query.commits(ended_ms - 500, ended_ms)
    query.opens_copies()
    assert query.round_comes_ms(query.commits(began_ms, 0)) < PATIENCE_MS


@pytest.mark.parametrize("query", ["false"], indirect=True, ids=["changelogs off"])
def test_every_commit_has_a_round_where_copies_are_files(query: Query) -> None:
    query.commits(-900, -500)
    query.opens_copies()
    assert query.round_comes_ms(query.commits(-500, 0)) < PATIENCE_MS
