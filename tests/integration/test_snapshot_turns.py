"""Each partition makes its snapshots at versions of its own: in one JVM, on a real checkpoint directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.store_with_open_copy import STATE_SHIMS, Store, scala_object, scala_session

pytestmark = pytest.mark.one_jvm

EVERY = 4
CONF = {
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": str(EVERY),
}


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    with scala_session(jvm, "turns", CONF) as session:
        yield session


@pytest.mark.parametrize("partition", range(5))
def test_a_partition_makes_its_snapshots_when_it_is_its_turn(
    jvm: Any, session: Any, tmp_path: Path, partition: int
) -> None:
    """On one executor, and on the next one, which takes the copy over. Versions 1 and 2 are written by stock Spark."""
    turn = scala_object(jvm, f"{STATE_SHIMS}.RocksDBShim").turnOf(partition, EVERY)
    with closing(Store(jvm, session, tmp_path, partition=partition)) as store:
        store.commit_until(2)
        store.copy(1)
        store.copy_becomes_owner()
        store.commit_until(15, uploading=True)
        store.copy(14)
        store.copy_becomes_owner()
        store.commit_until(24, uploading=True)
        assert store.snapshots() == [version for version in range(3, 25) if version % EVERY == turn]
        assert store.opened_from_the_checkpoint(24) == store.values[24]


@pytest.mark.parametrize("every", [2, 4, 10, 100])
@pytest.mark.parametrize("hosts", [1, 2, 3, 4, 5, 10, 20, 50])
def test_few_partitions_of_a_host_share_a_turn(jvm: Any, every: int, hosts: int) -> None:
    """A host mostly has each second, third or tenth partition. With stock Spark all partitions have the same turn."""
    turn_of = scala_object(jvm, f"{STATE_SHIMS}.RocksDBShim").turnOf
    turns = Counter(turn_of(hosts * number, every) for number in range(10 * every))
    assert set(turns) <= set(range(every)) and max(turns.values()) <= 14, (
        "each turn would have ten if they were perfectly even"
    )
