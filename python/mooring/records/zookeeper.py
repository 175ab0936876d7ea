"""The agent's records in ZooKeeper. They are in the tree of `mooring.coordination`, and only a leader can write them.

    <root>/jobModels/<version>          <root>/localityData/<task>        <root>/processors/processor.<n>
    <root>/barriers/<version>           <root>/metadata/=none/status

The agent announces each processor that has an executor, by an ephemeral node, which ends with the agent's session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mooring.coordination import KEPT_VERSIONS, BarrierState, Leadership
from mooring.coordination.zookeeper import ZkBarriers, ZkJobModels, ZkProcessors
from mooring.coordination.zookeeper.term import guards_of, lost
from mooring.errors import LeadershipLost, MetadataStoreError
from mooring.metadata import MetadataStore
from mooring.metadata.zookeeper.commit import Change, GuardFailed
from mooring.metadata.zookeeper.connection import ZkConnection
from mooring.metadata.zookeeper.nodes import CHANGES, GENERATIONS, node_name, text_of
from mooring.metadata.zookeeper.values import ZkValues
from mooring.model import JobModel
from mooring.records.records import Records

Term = Callable[[], Leadership | None]


class ZkRecords(Records):
    """Records that anyone can read. A write outside of a term raises LeadershipLost, as writes of `store` must do."""

    def __init__(
        self,
        store: MetadataStore,
        warn: Callable[[str], None],
        connection: ZkConnection,
        root: str,
        term: Term = lambda: None,
    ) -> None:
        """`close` closes `store`. The caller closes the connection, after `close`."""
        super().__init__(store, warn)
        self._term = term
        self._job_models = ZkJobModels(connection, root, warn)
        self._states = ZkBarriers(connection, root, warn)
        self._living = ZkProcessors(connection, root, warn)
        self._places = ZkValues(connection, f"{root}/localityData", warn)
        self._announced: dict[str, str] = {}

    def write_job_model(self, model: JobModel) -> None:
        """Publish a version. If an answer was lost, the version is there already; it must be the same."""
        try:
            self._job_models.publish(model, self._leading())
        except MetadataStoreError:
            if self._job_models.read(model.version) != model:
                raise

    def write_barriers(self, states: Mapping[int, str]) -> None:
        """Open each barrier, and end those that are no longer NEW. Only the newest ten versions are written."""
        term = self._leading()
        newest = sorted({*self._states.versions(), *states})[-KEPT_VERSIONS:]
        for version, state in sorted((version, states[version]) for version in newest if version in states):
            if self._states.state(version) is None:
                self._states.open(version, term)
            if state != BarrierState.NEW.value:
                self._states.end(version, BarrierState(state), term)

    def write_task_locality(self, changed: Mapping[str, str]) -> None:
        """Save the locations of these tasks, in one node for each task."""
        changes = [_change(task, location) for task, location in changed.items()]
        term = self._leading()
        try:
            self._places.write(changes, guards_of(term))
        except GuardFailed:
            raise lost(term) from None

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Save the status, and announce each processor that has an executor."""
        super().write_status(status)
        bound = {row["id"]: row["location"] for row in status["processors"] if row["state"] == "bound"}
        for processor, location in bound.items():
            if self._announced.get(processor) != location:
                self._living.announce(processor, location)
        for processor in self._announced.keys() - bound.keys():
            self._living.withdraw(processor)
        self._announced = bound

    def job_models(self) -> dict[int, bytes]:
        """The texts of the saved job models, by version."""
        return self._job_models.texts()

    def task_locality(self) -> dict[str, str]:
        """Task name to the location where the task ran last."""
        names = [name for name in self._places.children() if name not in (CHANGES, GENERATIONS)]
        found = self._places.read(names)
        return {key or str(text_of(name)): place.decode("utf-8", "replace") for name, (place, key) in found.items()}

    def close(self) -> None:
        """Close the store, and withdraw the processors."""
        self._job_models.close()
        self._states.close()
        self._living.close()
        super().close()

    def _leading(self) -> Leadership:
        term = self._term()
        if term is None:
            raise LeadershipLost("this driver does not lead now: its records are not kept")
        return term


def _change(task: str, location: str) -> Change:
    name = node_name(task)
    return Change(name, location.encode(), task, spelt=text_of(name) == task)
