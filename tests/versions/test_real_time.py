"""Queries in real-time mode run as on stock Spark. Of those with state the log says that they are not placed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from mooring.jar import jar_path
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_environment
from tests.integration.support.job_runs import JOBS, compile_scala
from tests.integration.support.restarted_job import PROVIDER_KEY, STOCK_ROCKSDB, FetchedSpark, said
from tests.versions.sparks import spark_of

pytestmark = [pytest.mark.heavy, pytest.mark.one_jvm]

NUMBERS, ROWS = 7, 280
"""As in RealTime.scala."""
OF_EACH = ROWS // NUMBERS
ANSWERS = {"stateless": OF_EACH, "aggregation": OF_EACH, "deduplication": 1, "transform_with_state": OF_EACH}
"""How often each number is in the output, by the kind of query: as rows, or as the highest count."""
CASES = [
    *(("4.1", kind) for kind in ("stateless",)),
    *(("4.2", kind) for kind in ("stateless",)),
    *(("4.3", kind) for kind in ANSWERS),
]


@pytest.mark.parametrize("plugin", [False, True], ids=["stock", "mooring"])
@pytest.mark.parametrize(("line", "kind"), CASES)
def test_a_query_in_real_time_mode_runs_as_on_stock_spark(line: str, kind: str, plugin: bool, tmp_path: Path) -> None:
    log = run(spark_of(line), kind, tmp_path, plugin)
    counts, rows = Counter[str](), Counter[str]()
    for line_of_output in (line for file in (tmp_path / "outputs").iterdir() for line in file.read_text().splitlines()):
        number, count = line_of_output.split()
        counts[number] = max(counts[number], int(count))
        rows[number] += 1
    found = rows if kind == "stateless" else counts
    assert found == Counter({str(number): ANSWERS[kind] for number in range(NUMBERS)})
    assert said(log, "real-time mode") == (1 if plugin and kind != "stateless" else 0)


def run(spark: FetchedSpark, kind: str, here: Path, plugin: bool) -> str:
    """Run the job to its end; the log."""
    jar = compile_scala(JOBS / "scala" / "RealTime.scala", here / "real-time.jar", spark.home)
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        PROVIDER_KEY: STOCK_ROCKSDB,
        **({"spark.plugins": "io.mooring.MooringPlugin", "spark.jars": str(jar_path(spark.version))} if plugin else {}),
    }
    command: list[str | Path] = [spark.home / "bin" / "spark-submit", "--master", "local[8]", "--driver-memory", "1g"]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "RealTime", jar, kind, here / "checkpoint", here / "outputs"]
    environment = spark_environment({"MOORING_LOCAL_STORE_DIR": os.fspath(here / "store"), **spark.environment})
    process = ChildProcess("the job in real-time mode", command, here / "driver.log", environment, cwd=here)
    with process.running():
        assert process.wait(120) == 0, process.story()
    return process.log.read_text(errors="replace")
