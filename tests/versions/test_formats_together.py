"""Queries with state of both formats in one JVM, in either order, and what stock Spark reads of them afterwards.

In Spark 4.0 a JVM stamps the archives of all its queries with the format of the first one, and reads no others.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.support.restarted_job import FORMAT_KEY, PROVIDER_KEY, STOCK_ROCKSDB, Stages, opened
from tests.versions.sparks import LINES, spark_of

pytestmark = [pytest.mark.heavy, pytest.mark.one_jvm]


def right(stages: Stages) -> dict[str, Counter[tuple[object, ...]]]:
    """The rows of each query, computed from its input."""
    bids = [json.loads(line) for file in (stages.input / "bids").glob("*.json") for line in file.open()]
    of_channel = Counter(bid["channel"] for bid in bids)
    channels: Counter[tuple[object, ...]] = Counter(list(of_channel.items()))
    return {"first": channels, "second": channels, "total": Counter({(len(bids),): 1})}


def stamps(stages: Stages, query: str) -> set[str]:
    """The stamp of each archive of the query: the first row of its `metadata`."""
    archives = (stages.directory / "checkpoints" / query / "state").rglob("*.zip")
    return {zipfile.ZipFile(archive).read("metadata").decode().partition("\n")[0] for archive in archives}


@pytest.mark.parametrize("line", LINES)
def test_each_query_goes_on_beside_one_of_the_other_format_and_on_stock_spark(line: str, tmp_path: Path) -> None:
    spark, stages = spark_of(line), Stages(tmp_path, "in_turn", "first")
    parts = iter((0.2, 0.4, 0.6, 0.8, 1.0))

    def run(*queries: str, format: str | None = None) -> str:
        names = {"spark.test.queries": ",".join(queries)}
        stock = {PROVIDER_KEY: STOCK_ROCKSDB, FORMAT_KEY: format} if format else {}
        log = stages.run(next(parts), {**names, **stock}, plugin=format is None, spark=spark)
        for query in queries:
            rows = json.loads((stages.outputs / f"{query}.json").read_text())
            assert Counter(map(tuple, rows)) == right(stages)[query], query
        return log

    run("first", format="1")
    run("first", "second", "total")
    assert opened(run("second", "first", "total")), "Mooring's provider opens the state"
    assert stamps(stages, "first") == {"v1"}
    assert stamps(stages, "second") == ({"v2"} if line == "4.0" else {"v1"}), "as stock Spark writes it"
    run("first", format="1")
    run("second", format="2")
