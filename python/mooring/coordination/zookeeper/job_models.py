"""Job models in ZooKeeper: `jobModels/<version>` has the model's JSON, in parts when it is large."""

from __future__ import annotations

from collections.abc import Callable

from mooring.coordination.job_models import JobModels, to_remove
from mooring.coordination.leadership import Leadership
from mooring.coordination.zookeeper.term import confirm, guards_of, lost
from mooring.errors import MetadataStoreError
from mooring.metadata.store import Cancel, Report, report_to_log
from mooring.metadata.zookeeper.commit import AlreadyThere, Change, GuardFailed
from mooring.metadata.zookeeper.connection import ZkConnection
from mooring.metadata.zookeeper.values import ZkValues
from mooring.metadata.zookeeper.watch import ChangeWatch
from mooring.model import JobModel, job_model_from_json, job_model_to_json


class ZkJobModels(JobModels):
    """The job models of one application. ZooKeeper refuses writes and removals after the leader's term."""

    def __init__(self, connection: ZkConnection, root: str, report: Report = report_to_log) -> None:
        """The caller closes the connection."""
        self._connection, self._place = connection, connection.place
        self._values = ZkValues(connection, f"{root}/jobModels", report)
        self._watch = ChangeWatch(connection, self._values.log, lambda: frozenset(map(str, self.versions())), report)

    def publish(self, model: JobModel, leadership: Leadership) -> None:
        """Write the model, and remove models older than the newest ten. See `JobModels.publish`."""
        versions = self.versions()
        if versions and model.version <= versions[-1]:
            confirm(self._connection, leadership)  # LeadershipLost if a later leader has published the newer model
            raise MetadataStoreError(
                f"job model {model.version} cannot be published in {self._place}: {versions[-1]} is there already"
            )
        path, text = str(model.version), job_model_to_json(model).encode("utf-8")
        old = [Change(str(version), None, str(version)) for version in to_remove([*versions, model.version])]
        try:
            self._values.write([Change(path, text, path, must_be_new=True), *old], guards_of(leadership))
        except GuardFailed:
            raise lost(leadership) from None
        except AlreadyThere:
            confirm(self._connection, leadership)
            raise MetadataStoreError(f"job model {model.version} is there already in {self._place}") from None

    def versions(self) -> list[int]:
        """The versions of the models that are kept, from the names of the nodes, oldest first."""
        return sorted(int(name) for name in self._values.children() if name.isdecimal())

    def read(self, version: int) -> JobModel | None:
        """The complete model of a version; None when it is not kept."""
        found = self._values.read([str(version)]).get(str(version))
        return None if found is None else job_model_from_json(found[0])

    def texts(self) -> dict[int, bytes]:
        """The JSON text of every model that is kept, by version."""
        found = self._values.read([str(version) for version in self.versions()])
        return {int(path): text for path, (text, _) in found.items()}

    def watch(self, watcher: Callable[[], None]) -> Cancel:
        """Watch the log of changes; all watchers share one watch in ZooKeeper."""
        return self._watch.add(lambda versions: watcher())

    def close(self) -> None:
        """End the watching thread."""
        self._watch.stop()
