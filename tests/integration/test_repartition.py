"""Checkpoints that stock Spark has repartitioned, of both formats: judged, taken back across it, and gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.main import main

RUNS = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
here, form, changelog, partitions = Path(sys.argv[1]), sys.argv[2], sys.argv[3], [int(one) for one in sys.argv[4:]]
state = "spark.sql.streaming.stateStore"
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "3")
    .config(f"{state}.providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    .config(f"{state}.rocksdb.changelogCheckpointing.enabled", changelog)
    .config(f"{state}.checkpointFormatVersion", form).getOrCreate())
def run(name, *keys):
    def write(rows, batch):
        out = here / f"{name}.out"
        out.write_text(json.dumps([list(row) for row in rows.collect()]))
    read = spark.readStream.schema("key LONG").option("maxFilesPerTrigger", 1).json(str(here / "in"))
    query = read.groupBy(*keys).count().writeStream.outputMode("complete").foreachBatch(write)
    query.option("checkpointLocation", str(here / name)).trigger(availableNow=True).start().awaitTermination()
def run_all():
    run("by-key", "key")
    run("total")
def feed(files):
    (here / "in").mkdir(exist_ok=True)
    for number in range(files):
        file = here / "in" / f"{number}.json"
        if not file.exists():
            file.write_text("\\n".join(json.dumps({"key": key}) for key in range(number, number + 20)))
feed(3)
run_all()
for number, count in enumerate(partitions):
    for name in ("by-key", "total"):
        spark._streamingCheckpointManager.repartition(str(here / name), count)
    feed(5 + 2 * number)
    run_all()
"""
NAMES = ("by-key", "total")


# Not 5: Spark 4.2 itself then puts the one row of "total" where its query does not read, and counts from 0 again.
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("changelog", "partitions"), [("true", 6), ("false", 2)], ids=["changelogs, more", "archives, fewer"]
)
@pytest.mark.parametrize("form", ["1", "2"])
def test_what_stock_spark_has_repartitioned_is_whole_and_goes_on_right_from_before_it(
    form: str, changelog: str, partitions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _stock(tmp_path, form, changelog, partitions)
    for name in NAMES:
        checkpoint = tmp_path / name
        assert main(["history", str(checkpoint), "--json"]) == 0
        batches = json.loads(capsys.readouterr().out)["batches"]
        assert {one["batch"]: one["whole"] for one in batches} == {batch: "yes" for batch in range(6)}
        assert main(["verify", str(checkpoint), "--all"]) == 0
        assert main(["restore", str(checkpoint), "--to-batch", "1"]) == 0
        capsys.readouterr()
        assert _answer(tmp_path, name) == _expected(name, 5)
    _stock(tmp_path, form, changelog, 4)  # from batch 1 on, of three partitions, and to four
    for name in NAMES:
        assert main(["verify", str(tmp_path / name), "--all"]) == 0
        assert _answer(tmp_path, name) == _expected(name, 5)


def _stock(here: Path, *arguments: Any) -> None:
    command = [sys.executable, "-c", RUNS, str(here), *(str(one) for one in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]


def _answer(here: Path, name: str) -> list[list[int]]:
    found: list[list[int]] = sorted(json.loads((here / f"{name}.out").read_text()))
    return found


def _expected(name: str, files: int) -> list[list[int]]:
    if name == "total":
        return [[20 * files]]
    return [[key, sum(number <= key < number + 20 for number in range(files))] for key in range(19 + files)]
