"""One job that runs several times in local mode, with more input each time, for tests of restarts without a cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.jar import jar_path
from mooring.testing.events import START_MS, AuctionHouse, write_events
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_environment, spark_home
from tests.integration.support import answers
from tests.integration.support.job_outputs import counted, read_sink
from tests.integration.support.short_lived_settings import SHORT_LIVED

JOBS = Path(__file__).parents[1] / "jobs"
STOCK_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STOCK_HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"

_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "3",
    "spark.ui.enabled": "false",
    "spark.mooring.debounce": "100ms",
    **SHORT_LIVED,
}


@dataclass(frozen=True)
class FetchedSpark:
    """A Spark of some version. `folder` has its package `pyspark`."""

    version: str
    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "pyspark"

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process take this Spark, in Java and in Python."""
        inherited = os.environ.get("PYTHONPATH")
        paths = [str(self.folder), *([inherited] if inherited else [])]
        return {"SPARK_HOME": str(self.home), "PYTHONPATH": os.pathsep.join(paths)}


class Stages:
    """The input, checkpoints, outputs and local store of one job; each `run` reads a part of the input."""

    def __init__(
        self, directory: Path, job: str = "windowed_aggregation", output: str = "counts", files: int = 12
    ) -> None:
        """The input has `files` files, and one more with the event that ends all windows."""
        self.directory = directory
        self.input, self.outputs = directory / "events", directory / "outputs"
        self.checkpoint = directory / "checkpoints" / output
        self.local_store = directory / "local-store"
        self._job, self._output = job, output
        house = AuctionHouse(seed=3, files=files)
        self._files = {"bids": list(house.bid_files()), "auctions": list(house.auction_files())}
        self._runs = 0

    def run(
        self,
        part: float,
        conf: Mapping[str, str] | None = None,
        *,
        plugin: bool = True,
        env: Mapping[str, str] | None = None,
        during: Callable[[ChildProcess], None] | None = None,
        expect: int | None = 0,
        spark: FetchedSpark | None = None,
    ) -> str:
        """Run the job until it ends by itself; returns the driver's log.

        It reads the first `part` of all files; 1.0 is all of them. `during` is called while it runs. `expect` is the
        expected exit code, None for any. `spark` runs it; by default the PySpark of this Python.
        """
        self._offer(part)
        self._runs += 1
        jar = jar_path(spark and spark.version) if plugin else None
        ours = {"spark.plugins": "io.mooring.MooringPlugin", "spark.jars": str(jar)} if jar else {}
        settings = {**_ALWAYS, **ours, **(conf or {})}
        if not plugin:
            settings = {key: value for key, value in settings.items() if not key.startswith("spark.mooring.")}
        command: list[str | Path] = [
            (spark.home if spark else spark_home()) / "bin" / "spark-submit",
            "--master",
            "local[2,4]",
            "--driver-memory",
            "1g",
        ]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        command += [JOBS / f"{self._job}.py", self.input, self.directory / "checkpoints", self.outputs]
        log = self.directory / f"run-{self._runs}.log"
        place = {"MOORING_LOCAL_STORE_DIR": str(self.local_store)}
        environment = spark_environment({**place, **(spark.environment if spark else {}), **(env or {})})
        process = ChildProcess(f"run {self._runs} of {self._job}", command, log, environment, cwd=self.directory)
        with process.running():
            if during is not None:
                during(process)
            code = process.wait(240)
        assert expect in (code, None), process.story()
        return log.read_text(errors="replace")

    def assert_right(self, answer: Callable[[Path], answers.Answer] = answers.windowed_aggregation) -> None:
        """The output equals the answer computed offline from the whole input, row for row."""
        expected = counted(answer(self.input)[self._output])
        found = counted(read_sink(self.outputs / self._output))
        assert expected, "an empty answer shows nothing"
        assert found == expected, f"missing {(expected - found).total()}, too much {(found - expected).total()} rows"

    def kept_files(self, ending: str) -> list[Path]:
        """The files in the local store whose names end so, e.g. `.sst`."""
        return sorted(path for path in self.local_store.rglob(f"*{ending}~*") if path.is_file())

    def _offer(self, part: float) -> None:
        for kind, files in self._files.items():
            for number, rows in enumerate(files[: round(len(files) * part)]):
                if not (self.input / kind / f"{number:06}.json").exists():
                    write_events(rows, self.input / kind, number, modified=START_MS / 1000 + number)


def opened(log: str) -> list[dict[str, int]]:
    """The numbers and bytes of files read to open state stores, from log lines: one entry for each opening."""
    names = ("local-files", "local-bytes", "local-changelogs", "remote-files", "remote-bytes", "remote-changelogs")
    lines = [line for line in log.splitlines() if "Mooring: opened " in line]
    counts = [re.findall(r"\d+", line.rpartition(" ms: from this host ")[2]) for line in lines]
    return [dict(zip(names, map(int, found), strict=True)) for found in counts]


def in_progress(log: str, metric: str) -> list[int]:
    """A custom metric of the stateful operators, from each progress report in the log."""
    return [int(value) for value in re.findall(rf'"{re.escape(metric)}" : (\d+)', log)]


def said(log: str, words: str) -> int:
    """The number of Mooring's log lines that have these words."""
    return sum("Mooring: " in line and words in line for line in log.splitlines())
