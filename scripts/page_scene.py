"""The cluster, the servers and the application that the commands of the pages are for (`run_pages`)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from mooring.errors import ClusterError
from mooring.testing.cluster import SparkCluster
from mooring.testing.kafka import KafkaBroker
from mooring.testing.probes import wait_until
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import SHORT_LIVED_JVM, spark_environment, spark_home
from mooring.testing.zookeeper import ZooKeeperEnsemble
from scripts.pages import ROOT

PATIENCE_SECONDS: Final = 240.0
DELTA: Final = {"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"}
COPIES: Final = {"spark.mooring.standby.replication.factor": "2"}
PLACE: Final = "--conf spark.mooring.metadata=/shared/_mooring"
SUBMIT: Final = (
    "spark-submit --jars $(mooring jar) --conf spark.plugins=io.mooring.MooringPlugin"
    f" --conf spark.mooring.local.store.dir=/data/mooring {PLACE} job.py"
)
"""How an application is started for a page that starts none: as the quick start says."""

_PARTITIONS = 4
_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "768m",
    "spark.driver.extraJavaOptions": SHORT_LIVED_JVM,
    "spark.executor.extraJavaOptions": SHORT_LIVED_JVM,
    "spark.sql.shuffle.partitions": str(_PARTITIONS),
    "spark.ui.enabled": "false",
}


@dataclass
class Application:
    """The job `page_job.py` under the name `job.py`. Checkpoints, records and local store are in its directory."""

    directory: Path
    conf: Mapping[str, str]
    began: float = field(default_factory=time.monotonic)
    command: str = ""
    """The `spark-submit` as it was run."""

    def __post_init__(self) -> None:
        """Nothing is started."""
        self.directory.mkdir()
        shutil.copy(ROOT / "scripts" / "page_job.py", self.directory / "job.py")
        lines = [f"{key} {value}\n" for key, value in self.conf.items()]
        (self.directory / "spark-defaults.conf").write_text("".join(lines))

    @cached_property
    def process(self) -> ChildProcess:
        """The driver."""
        env = environment({"SPARK_CONF_DIR": str(self.directory)})
        log = self.directory / "driver.log"
        return ChildProcess(self.directory.name, ["bash", "-c", self.command], log, env, self.directory)

    @property
    def checkpoints(self) -> Path:
        """The folder with the checkpoints of the queries `clicks` and `counts`."""
        return self.directory / "checkpoints"

    @property
    def has_copies(self) -> bool:
        """Whether its tasks have standbys."""
        return any(key in self.command or key in self.conf for key in COPIES)

    @property
    def has_delta(self) -> bool:
        """Whether it writes the catalogue."""
        return DELTA.items() <= self.conf.items()

    @property
    def place(self) -> str:
        """The place of its records; empty where they lie beside the checkpoint."""
        found = re.search(r"spark\.mooring\.metadata=(\S+)", self.command)
        return found[1] if found else ""

    def status(self) -> Any:
        """Its status, as the command shows it. `CalledProcessError` while there is none."""
        beside = ["--checkpoint", str(self.checkpoints / "clicks")]
        return answer_of("status", *(["--metadata", self.place] if self.place else beside))

    def is_settled(self) -> bool:
        """Whether all tasks have run and, where it has them, copies are warm and the catalogue is begun."""
        if not self.process.is_running:
            raise ClusterError(self.process.story())
        try:
            status = self.status()
        except subprocess.CalledProcessError:
            return False
        lags = [task["lag-versions"] for task in status["tasks"] if task["mode"] == "Standby"]
        return (
            [query["batch"] >= 4 for query in status["queries"]] == [True, True]
            and len([processor for processor in status["processors"] if processor["tasks"]]) == 3
            and (not self.has_copies or [lag in (0, 1) for lag in lags] == [True] * 2 * _PARTITIONS)
            and (not self.has_delta or any(self.checkpoints.glob("clicks/_mooring/state_versions/_delta_log/*.json")))
        )

    def end(self) -> int:
        """Have the program end, if it has not ended by itself. Its exit code."""
        (self.directory / "STOP").touch()
        return self.process.wait(90)


class Scene:
    """Starts each server at its first use; all end with the `stack`."""

    def __init__(self, work: Path, stack: contextlib.ExitStack, filled: Callable[[Scene, str], str]) -> None:
        """`filled` fills in the place-holders of a command."""
        self.request: str = "no request was made"
        """The uuid of the last request."""
        self._work, self._stack, self._filled = work, stack, filled
        self._application: Application | None = None
        self._started = 0
        self._processor = self._batch = ""

    @cached_property
    def cluster(self) -> SparkCluster:
        """Three hosts."""
        return self._stack.enter_context(SparkCluster(hosts=3, work_dir=self._work / "cluster"))

    @cached_property
    def zookeeper(self) -> ZooKeeperEnsemble:
        """Three nodes."""
        return self._stack.enter_context(ZooKeeperEnsemble(nodes=3, work_dir=self._work / "zookeeper"))

    @cached_property
    def kafka(self) -> KafkaBroker:
        """One broker."""
        return self._stack.enter_context(KafkaBroker(self._work / "kafka"))

    @cached_property
    def empty_environment(self) -> Path:
        """A virtual environment for what pages install."""
        subprocess.run([sys.executable, "-m", "venv", self._work / "venv"], check=True)
        return self._work / "venv"

    @property
    def hosts(self) -> list[str]:
        """The hosts of the cluster."""
        return list(self.cluster.hosts)

    @property
    def folder(self) -> Path:
        """The folder in which commands run: the application's, if there is one."""
        return self._application.directory if self._application else ROOT

    @property
    def application(self) -> Application:
        """The application of the present commands; it is started if there is none."""
        return self._application or self.start()

    @property
    def processor(self) -> str:
        """A processor with tasks that is not on the third host, the same one until `begin_block`."""
        if not self._processor:
            near = [one for one in self.application.status()["processors"] if one["location"] in self.hosts[:2]]
            near.sort(key=lambda one: (not one["tasks"], one["location"]))
            self._processor = str(near[0]["id"])
        return self._processor

    @property
    def batch(self) -> str:
        """A batch of `clicks` to go back to: the last but one, the same one for the application's life."""
        if not self._batch:
            listed = answer_of("history", str(self.application.checkpoints / "clicks"))["batches"]
            self._batch = str(sorted(int(one["batch"]) for one in listed if one["whole"] == "yes")[-2])
        return self._batch

    def begin_block(self) -> None:
        """The commands of one block are about the same processor."""
        self._processor = ""

    def start(self, command: str = SUBMIT, further: Mapping[str, str] | None = None) -> Application:
        """End the present application and submit another one, with `further` settings; return when it is settled."""
        self.end()
        self._started += 1
        self._processor = self._batch = ""
        conf = {**_CONF, "spark.master": self.cluster.master_url, "spark.app.name": "clicks", **(further or {})}
        application = self._application = Application(self._work / f"job-{self._started}", conf)
        application.command = self._filled(self, command)
        application.process.start()
        wait_until(application.is_settled, "a settled job", PATIENCE_SECONDS, 1.0, application.process.story)
        return application

    def have_running(self, copies: bool | None, place: bool | None) -> None:
        """See to it that the application runs, with copies and with a place for its records, or without. None: as is.

        Without a place the records lie beside the checkpoint.
        """
        now = self._application
        fits = now and copies in (None, now.has_copies) and place in (None, bool(now.place))
        if not now or not fits or not now.process.is_running:
            self.start(SUBMIT if place is not False else SUBMIT.replace(PLACE, ""), COPIES if copies else {})

    def have_ended(self, with_delta: bool) -> None:
        """See to it that there is an application that has ended."""
        if not self._application or (with_delta and not self._application.has_delta):
            self.start(further=DELTA if with_delta else {})
        self.application.end()

    def forget(self, application: Application) -> None:
        """Have the next command get another application than this one, which has ended."""
        if self._application is application:
            self._application = None

    def end(self) -> None:
        """End the application, if there is one. `ClusterError` when it has failed."""
        application, self._application = self._application, None
        if application and application.end():
            raise ClusterError(application.process.story())


def environment(further: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: Mooring's and Spark's commands are found, and nothing of the user's own Spark."""
    places = [str(Path(sys.executable).parent), str(spark_home() / "bin"), os.environ["PATH"]]
    return spark_environment({"PATH": os.pathsep.join(places), "SPARK_LOCAL_IP": "127.0.0.1", **further})


def answer_of(*words: str) -> Any:
    """The JSON of a command of Mooring."""
    command = [sys.executable, "-m", "mooring", *words, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
