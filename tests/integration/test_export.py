"""State as a Delta table: written by `mooring export`, compared with what the query has counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.support.spark_packages import delta, line_of_this_spark

WRITES = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
checkpoint, out = sys.argv[1:3]
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    .config("spark.sql.streaming.stateStore.checkpointFormatVersion", sys.argv[3]).getOrCreate())
spark.range(0, 100).selectExpr("id % 7 AS key").write.json(out + "/in")
counts = spark.readStream.schema("key LONG").json(out + "/in").groupBy("key").count()
query = (counts.writeStream.outputMode("complete").format("memory").queryName("counts")
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
query.awaitTermination()
"""

READS = """
import json, sys
from mooring.checkpoint.state_table import session
with session({}) as spark:
    rows = spark.read.format("delta").load(sys.argv[1]).selectExpr("key.key AS key", "value.count AS count").collect()
    print(json.dumps(sorted((row.key, row["count"]) for row in rows)))
"""


@pytest.mark.heavy
@pytest.mark.parametrize("form", ["1", "2"])
def test_the_state_is_a_delta_table(form: str, tmp_path: Path) -> None:
    delta()
    if form == "2" and line_of_this_spark() == "4.0":
        pytest.skip("Spark 4.0 has no reader for the state of checkpoints of format v2")
    checkpoint, table = tmp_path / "checkpoint", tmp_path / "table"
    _python("-c", WRITES, str(checkpoint), str(tmp_path), form)
    command = ("-m", "mooring.cli.main", "export", str(checkpoint), "--to", str(table), "--json")
    said = json.loads(_python(*command))
    assert said["rows"] == 7 and said["batch"] == 0 and said["operator"] == 0
    found = json.loads(_python("-c", READS, str(table)).splitlines()[-1])
    assert found == [[key, len(range(key, 100, 7))] for key in range(7)]
    again = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=180)
    assert again.returncode == 1 and str(table) in again.stderr, "what is there is not written over"


def _python(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
