"""Runs of `jobs/ends.py` in local mode, several at once if need be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mooring.jar import jar_path
from mooring.testing.processes import descendants
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_environment, spark_home
from tests.integration.support.job_runs import JOBS
from tests.integration.support.short_lived_settings import SHORT_LIVED

ENDS = JOBS / "ends.py"
PLUGIN = {"spark.plugins": "io.mooring.MooringPlugin", "spark.jars": str(jar_path())}
_CONF = {**PLUGIN, **SHORT_LIVED, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}


class LocalRuns:
    """All runs share a local store in `directory`, and keep their logs there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._runs = 0

    @contextmanager
    def running(self, checkpoint: str, batches: str, way: str, **conf: str) -> Iterator[ChildProcess]:
        """Start one run, which need not be ready yet; `checkpoint` is a name in the directory."""
        self._runs += 1
        name = f"run-{self._runs}"
        words = [word for key, value in {**_CONF, **conf}.items() for word in ("--conf", f"{key}={value}")]
        arguments = [self.directory / checkpoint, self.directory / f"{name}.ready", batches, way]
        process = ChildProcess(
            name,
            [spark_home() / "bin" / "spark-submit", "--master", "local[2]", *words, ENDS, *arguments],
            self.directory / f"{name}.log",
            spark_environment({"MOORING_LOCAL_STORE_DIR": str(self.directory / "store")}),
        )
        with process.running():
            yield process

    def is_ready(self, process: ChildProcess) -> bool:
        """Whether the run has done its batches."""
        return (self.directory / f"{process.name}.ready").exists()


def agents_of(process: ChildProcess) -> list[int]:
    """The process ids of the driver's living agents."""
    return [child.pid for child in descendants(process.pid) if child.option("-m") == "mooring.agent"]


Send = Callable[[int], None]
