"""The agent's records in the metadata store: one small text for each, read and written by one thread.

A record that can not be read counts as none, and is said; a store that does not do what it is asked raises
MetadataStoreError.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mooring.coordination.job_models import to_remove
from mooring.drain import remove_notifications
from mooring.errors import InvalidJobModelError
from mooring.metadata import MetadataStore, NamespacedMetadataStore
from mooring.model import JobModel, job_model_from_json, job_model_to_json
from mooring.placement import ContainerPlacementMetadataStore, ContainerPlacementResponseMessage, StoredMessages
from mooring.records.operator_overrides import NO_OVERRIDES, OperatorOverrides

OPERATOR_OVERRIDES = "operators-word"
JOB_MODELS, BARRIERS, STATUS = "job-models", "barriers", "status"
TASK_LOCALITY, PROCESSOR_LOCALITY = "task-locality", "processor-locality"


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the last run left: its newest job model, the location of each task, the bytes of each task's state."""

    model: JobModel | None = None
    task_locality: Mapping[str, str] = field(default_factory=dict)
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    overrides: OperatorOverrides = NO_OVERRIDES


class ReadRecords(ABC):
    """What a client reads; `say` hears of records that are ignored."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    @abstractmethod
    def job_models(self) -> dict[int, bytes]:
        """The texts of the job models that are kept, by version."""

    @abstractmethod
    def task_locality(self) -> dict[str, str]:
        """Task name to the location where it ran last."""

    @abstractmethod
    def status(self) -> bytes | None:
        """What `mooring status` shows, as it was written; None when there is none."""

    @abstractmethod
    def store(self) -> MetadataStore | None:
        """The store that the records of the application are in, which stays theirs; None when there is none yet."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the store."""

    def read(self) -> Remembered:
        """Everything that a start needs."""
        return Remembered(self._newest_model(), self.task_locality(), self._state_bytes(), self._overrides())

    def _newest_model(self) -> JobModel | None:
        for version, text in sorted(self.job_models().items(), reverse=True):
            try:
                return job_model_from_json(text)
            except InvalidJobModelError as damage:
                self._say(f"job model {version} of the last run is ignored: {damage}")
        return None

    def _state_bytes(self) -> dict[str, int]:
        """From the last status that was shown."""
        text = self.status()
        try:
            tasks = json.loads(text)["tasks"] if text else []
            actives = [task for task in tasks if task.get("mode") != "Standby"]
            return {task["name"]: task["local-bytes"] for task in actives if isinstance(task["local-bytes"], int)}
        except (AttributeError, ValueError, KeyError, TypeError) as damage:
            self._say(f"the status of the last run is ignored, and with it how large the tasks were: {damage!r}")
            return {}

    def _overrides(self) -> OperatorOverrides:
        store = self.store()
        text = None if store is None else store.get(OPERATOR_OVERRIDES)
        if text is None:
            return NO_OVERRIDES
        try:
            return OperatorOverrides.from_json(text)
        except ValueError as damage:
            self._say(
                "what operators have asked is not known, so all standbys are started, all hosts are open and moves may"
                f" be undone: the record is damaged: {damage}"
            )
            return NO_OVERRIDES


class Records(ReadRecords):
    """What is where in a store."""

    def __init__(self, store: MetadataStore, say: Callable[[str], None]) -> None:
        super().__init__(say)
        self._store = store
        self._models = NamespacedMetadataStore(store, JOB_MODELS)
        self._barriers = NamespacedMetadataStore(store, BARRIERS)
        self._tasks = NamespacedMetadataStore(store, TASK_LOCALITY)
        self._processors = NamespacedMetadataStore(store, PROCESSOR_LOCALITY)
        self._placement = ContainerPlacementMetadataStore(store)

    def store(self) -> MetadataStore:
        """The store that the records are in."""
        return self._store

    def job_models(self) -> dict[int, bytes]:
        """The texts of the job models that are kept, by version."""
        return {int(key): text for key, text in self._models.all().items() if key.isdecimal()}

    def task_locality(self) -> dict[str, str]:
        """Task name to the location where it ran last."""
        return {task: place.decode("utf-8", "replace") for task, place in self._tasks.all().items()}

    def status(self) -> bytes | None:
        """What `mooring status` shows, as it was written; None when there is none."""
        return self._store.get(STATUS)

    def forget(self) -> None:
        """Remove what a start would read, but for the status."""
        for records in (self._models, self._barriers, self._tasks, self._processors):
            for key in records.all():
                records.delete(key)
        self._store.delete(OPERATOR_OVERRIDES)

    def write_job_model(self, model: JobModel) -> None:
        """Keep a new version, and remove all but the newest few."""
        self._models.put(str(model.version), job_model_to_json(model).encode())
        places = {id: container.location_id or "" for id, container in model.containers.items()}
        self._processors.put_all({id: place.encode() for id, place in places.items()})
        _keep_the_newest(self._models)
        for gone in self._processors.all().keys() - places.keys():
            self._processors.delete(gone)

    def write_barriers(self, states: Mapping[int, str]) -> None:
        """Keep how the barriers of these versions stand, and remove all but the newest few."""
        self._barriers.put_all({str(version): state.encode() for version, state in states.items()})
        _keep_the_newest(self._barriers)

    def write_task_locality(self, changed: Mapping[str, str]) -> None:
        """Keep where these tasks are now."""
        self._tasks.put_all({task: location.encode() for task, location in changed.items()})

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Keep what `mooring status` shows."""
        self._store.put(STATUS, json.dumps(status).encode())

    def write_end(self, application: str, at_ms: int) -> None:
        """Note in the status that the application has ended; that of another one is left as it is.

        A status that is not there, or is damaged, says nothing of any application: nothing is noted.
        """
        text = self.status()
        try:
            status = json.loads(text) if text else None
        except ValueError:  # the next application writes it anew
            status = None
        if not isinstance(status, dict) or status.get("application") != application:
            return
        queries = [{**query, "state": "ended"} for query in status.get("queries", [])]
        self.write_status({**status, "at": at_ms, "ended": at_ms, "queries": queries})

    def write_overrides(self, overrides: OperatorOverrides) -> None:
        """Keep what operators have said."""
        self._store.put(OPERATOR_OVERRIDES, overrides.to_json().encode())

    def messages(self) -> StoredMessages:
        """What clients ask, and what was answered."""
        return self._placement.all()

    def write_response(self, response: ContainerPlacementResponseMessage) -> None:
        """Answer a client."""
        self._placement.write_response(response)

    def remove_messages(self, uuid: UUID, response_too: bool) -> None:
        """Remove a request that is done with, and its response too when that is asked for."""
        (self._placement.delete_both if response_too else self._placement.delete_request)(uuid)

    def remove_notifications(self, uuids: Collection[UUID]) -> None:
        """Remove drain notifications that are done."""
        remove_notifications(self._store, uuids)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


def _keep_the_newest(store: MetadataStore) -> None:
    for version in to_remove([int(key) for key in store.all() if key.isdecimal()]):
        store.delete(str(version))
