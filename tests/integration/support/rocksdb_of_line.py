"""Spark's `RocksDB`, called through one JVM. Its methods have other parameters in each line of Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.support.spark_packages import line_of_this_spark

LINE = line_of_this_spark() or ""

DELETES_RANGES = MAKES_SNAPSHOTS_ON_DEMAND = LINE not in ("4.0", "4.1")
"""Whether `delete_range` works, and whether `commit` can be asked for a snapshot."""

MERGE_DELIMITER = b"," if LINE in ("4.0", "4.1") else b""
"""What `merge` puts between the values of a key."""

_FLAGS_OF_WRITES = {"4.0": 1, "4.1": 2}.get(LINE, 3)  # such as: the key has its prefix already
_FLAGS_OF_LOADS = 1 if LINE in ("4.0", "4.1") else 2  # read only, and empty
_FLAGS_OF_FAMILIES = 2 if LINE == "4.3" else 1  # such as: the family is Spark's own


def instance(jvm: Any, *of_all_lines: Any) -> Any:
    """An instance of stock Spark, by the parameters of its constructor in Spark 4.0."""
    return jvm.org.apache.spark.sql.execution.streaming.state.RocksDB(*of_all_lines, *_of_line(jvm))


def arguments(jvm: Any, *of_all_lines: Any) -> Any:
    """The same for an instance with Mooring: its `RocksDBArguments`."""
    shims = jvm.org.apache.spark.sql.execution.streaming.state.shims
    return shims.RocksDBArguments(*of_all_lines, shims.ArgumentsOfLine(*_of_line(jvm)))


def _of_line(jvm: Any) -> list[Any]:
    none = jvm.scala.Option.apply(None)
    return [] if LINE == "4.0" else [none, none]


def load(jvm: Any, store: Any, version: int, id: str | None, read_only: bool = False) -> None:
    store.load(version, jvm.scala.Option.apply(id), *[read_only, False][:_FLAGS_OF_LOADS])


def commit(store: Any, with_snapshot: bool = False) -> Any:
    """The committed version and its ids. The test is skipped where this Spark can not be asked for a snapshot."""
    if with_snapshot and not MAKES_SNAPSHOTS_ON_DEMAND:
        pytest.skip(f"Spark {LINE} makes no snapshot on demand")
    return store.commit(with_snapshot) if MAKES_SNAPSHOTS_ON_DEMAND else store.commit()


def make_family(store: Any) -> None:
    store.createColFamilyIfAbsent("default", *[False] * _FLAGS_OF_FAMILIES)


def put(store: Any, key: bytes, value: bytes) -> None:
    store.put(key, value, "default", *[False] * _FLAGS_OF_WRITES)


def merge(store: Any, key: bytes, value: bytes) -> None:
    store.merge(key, value, "default", *[False] * _FLAGS_OF_WRITES)


def remove(store: Any, key: bytes) -> None:
    store.remove(key, "default", *[False] * _FLAGS_OF_WRITES)


def delete_range(store: Any, begin: bytes, end: bytes) -> None:
    """Delete the keys from `begin` to `end`, without `end`. It needs `DELETES_RANGES`."""
    store.deleteRange(begin, end, "default", *[False] * (_FLAGS_OF_WRITES - 1))


def pairs(store: Any) -> dict[bytes, bytes]:
    """All keys and values of the loaded version."""
    found, iterator = {}, store.iterator("default")
    while iterator.hasNext():
        pair = iterator.next()
        found[bytes(pair.key())] = bytes(pair.value())
    return found
