"""The setting of the demo: directories, the cluster, the stream, and the running application."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.client import MooringClient
from mooring.demo import standing_offers
from mooring.demo.bids import Feed
from mooring.demo.evidence import Checkpoint, status_record
from mooring.errors import ClusterError
from mooring.records.records import ReadRecords
from mooring.testing.cluster import SparkCluster
from mooring.testing.probes import wait_until
from mooring.testing.spark_home import SHORT_LIVED_JVM
from mooring.testing.submission import Submission

HOSTS = 3
PARTITIONS = 9
PATIENCE_SECONDS = 300.0

_CONF = {
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.driver.extraJavaOptions": SHORT_LIVED_JVM,
    "spark.executor.extraJavaOptions": SHORT_LIVED_JVM,
}
_LOGGED = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


class Scene:
    """The objects that the acts of the demo use. `progress` gets the state of each wait, many times a second."""

    def __init__(
        self,
        work: Path,
        cluster: SparkCluster,
        feed: Feed,
        plugin: dict[str, str],
        records: ReadRecords,
        progress: Callable[[str], None],
    ):
        """`plugin` has the settings that switch Mooring on."""
        self.cluster = cluster
        self.feed = feed
        self.checkpoint = Checkpoint(work / "checkpoints" / "offers")
        self.output = work / "offers"
        self.event_logs = work / "event-logs"
        self.input = work / "bids"
        self._plugin = plugin
        self._records = records
        self._progress = progress
        self._application: Submission | None = None
        self.event_logs.mkdir()

    @property
    def application(self) -> Submission:
        """The application that was started last."""
        if self._application is None:
            raise ClusterError("no application was started")
        return self._application

    def start_application(self, further: Mapping[str, str] | None = None) -> None:
        """Submit the demo's main job, with `further` settings."""
        logs = {"spark.eventLog.dir": f"file:{self.event_logs}", **(further or {})}
        arguments = [self.input, self.checkpoint.directory, self.output]
        self.start_job(Path(standing_offers.__file__), arguments, {**_LOGGED, **logs})

    def start_job(self, job: Path, arguments: Sequence[Path], further: Mapping[str, str]) -> None:
        """Submit any job with the plugin; it becomes `application`."""
        self._application = self.cluster.submit(job, arguments, {**_CONF, **self._plugin, **further})

    def stop_application(self) -> None:
        """Stop the application with SIGTERM, and wait until its executors are gone."""
        self.application.terminate()
        self.wait(lambda: not self.cluster.executors(), "the executors to end", running=False)

    def status(self) -> dict[str, Any]:
        """The agent's status record of `application`; empty before there is one."""
        record = status_record(self._records)
        return record if record.get("application") == self.application.application else {}

    def settled_status(self) -> dict[str, Any]:
        """The status record, as soon as it has the last committed batch."""
        return self.status_of_batch(self.checkpoint.last_commit())

    def status_of_batch(self, batch: int) -> dict[str, Any]:
        """The status record, as soon as it has this batch or a later one."""
        self.wait(lambda: batch_of(self.status()) >= batch, "the status to be written")
        return self.status()

    def client(self) -> MooringClient:
        """A client of `application`, which must have begun its first batch."""
        store = self._records.store()
        if store is None:
            raise ClusterError("the application has no records yet")
        return MooringClient(store)

    def keep_fed(self, most_files: int) -> None:
        """Keep two unread files ready for the job, until `most_files` were given in all."""
        unread = len(self.feed.given) - self.checkpoint.files_committed()
        if unread < 2 and len(self.feed.given) < most_files:
            self.feed.give()

    def wait_for_files(self, files: int) -> None:
        """Return when that many input files are in committed batches."""
        self.wait(lambda: self.checkpoint.files_committed() >= files, f"input file {files} to be read")

    def wait(self, condition: Callable[[], bool], what: str, running: bool = True) -> None:
        """Wait until `condition` is true. `ClusterError` after five minutes, or when a `running` application ends."""
        begin = time.monotonic()

        def true_now() -> bool:
            batches, elapsed = self.checkpoint.last_commit() + 1, time.monotonic() - begin
            self._progress(f"waiting for {what}: {elapsed:.0f} s, {batches} batches committed")
            return condition()

        if running:
            self.application.wait_until(true_now, what, PATIENCE_SECONDS)
        else:
            wait_until(true_now, what, PATIENCE_SECONDS, interval=0.1)


def need_room(directory: Path, bytes_needed: int) -> None:
    """`ClusterError` when the file system of a directory has less than `bytes_needed` free."""
    free = shutil.disk_usage(directory).free
    if free < bytes_needed:
        raise ClusterError(
            f"{directory} has {free / 1e9:.1f} GB free, the demo needs {bytes_needed / 1e9:.0f}: "
            "name a directory on another disk with the variable TMPDIR"
        )


def batch_of(status: dict[str, Any]) -> int:
    """The last batch in a status record; -2 for none."""
    return max((int(query["batch"]) for query in status.get("queries", [])), default=-2)
