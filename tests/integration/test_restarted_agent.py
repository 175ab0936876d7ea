"""An agent that is started again in the same driver finds the records of the agent before it, whatever queries run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from mooring.client import MooringClient
from mooring.errors import RecordError
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application, own_agents

pytestmark = pytest.mark.heavy


def test_a_query_that_begins_while_no_agent_runs_is_in_the_same_records(tmp_path: Path) -> None:
    with application("restarted-agent", tmp_path) as spark:
        first = count(spark, tmp_path / "first")
        wait_until(lambda: first.id in queries_in(tmp_path), "the first query in the records", 60)
        first.stop()
        for agent in own_agents():
            os.kill(agent, signal.SIGKILL)
        second = count(spark, tmp_path / "elsewhere" / "second")
        wait_until(lambda: second.id in queries_in(tmp_path), "the second query in the records of the first", 60)
        second.stop()
    assert not list((tmp_path / "metadata").glob("application-*")), "one driver keeps one directory of records"


def count(spark: SparkSession, checkpoint: Path) -> StreamingQuery:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    writer = rate.groupBy((rate.value % 10).alias("key")).count().writeStream.format("noop").outputMode("complete")
    return writer.option("checkpointLocation", str(checkpoint)).start()


def queries_in(tmp_path: Path) -> set[str]:
    """The ids of the queries in the status of the application's records; none before the first status."""
    with MooringClient.open(str(tmp_path / "metadata")) as client:
        try:
            return {query["id"] for query in client.status()["queries"]}
        except RecordError:
            return set()
