"""What is kept in memory for each state store and query: not more and more of it, in a JVM that runs for months."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.support.host_store import SharedHostStore
from tests.integration.support.plugin_objects import private_field
from tests.integration.support.store_with_open_copy import scala_object

pytestmark = pytest.mark.one_jvm

MOST = 10_000

Maker = Callable[[int], Any]


def reads(jvm: Any, here: Path) -> Maker:
    of = scala_object(jvm, "io.mooring.localstore.StoreReads").of
    return lambda partition: of(jvm.org.apache.hadoop.fs.Path(f"/of reads/state/0/{partition}"))


def writes(jvm: Any, here: Path) -> Maker:
    noted = scala_object(jvm, "io.mooring.localstore.StoreWrites")
    getattr(noted, "areNoted_$eq")(True)
    return lambda partition: noted.of(jvm.org.apache.hadoop.fs.Path(f"/of writes/state/0/{partition}")).get()


def host_files(jvm: Any, here: Path) -> Maker:
    return SharedHostStore(jvm, here).files_of


@pytest.mark.parametrize("kind", [reads, writes, host_files], ids=lambda kind: kind.__name__)
def test_the_store_that_was_not_used_for_longest_is_forgotten(
    kind: Callable[[Any, Path], Maker], jvm: Any, tmp_path: Path
) -> None:
    of = kind(jvm, tmp_path)
    in_use, ended = of(0), of(1)
    for partition in range(2, MOST + 1):
        of(partition)
        if partition % 1000 == 0:
            assert of(0).equals(in_use)
    assert of(0).equals(in_use), "as long as it is used there is one object for it"
    assert not of(1).equals(ended)


def test_a_restart_whose_request_is_over_is_forgotten(jvm: Any) -> None:
    table, none = jvm.io.mooring.placement.PlacementTable(), jvm.scala.Option.apply(None)
    bridge = jvm.io.mooring.agent.Bridge(table, none, None)
    for request in ("of one", "of two"):
        with pytest.raises(Py4JJavaError):  # the bridge has nobody who could end an executor
            bridge.restart(request, "1", 0)
    bridge.forgetRestart("of one")
    assert private_field(bridge, "lasting").keySet().toString() == "[restart of two]"
    assert private_field(bridge, "restarts").toString() == "[of two]"


def test_orders_to_fetch_ahead_that_are_carried_out_are_forgotten(jvm: Any, tmp_path: Path) -> None:
    prefetch = jvm.io.mooring.restore.Prefetch(SharedHostStore(jvm, tmp_path).store, 1, 2**62)
    no_stores = scala_object(jvm, "scala.package").Nil()
    for query in ("one", "two", "three"):
        prefetch.begin(jvm.io.mooring.restore.PrefetchOrder("1", query, f"run of {query}", no_stores), None)
    assert private_field(prefetch, "ordered").keySet().toString() == "[three]"
    prefetch.stop()
