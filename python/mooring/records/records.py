"""The agent's records in the metadata store. Each record is a small text, and one thread reads and writes them.

A record that can not be parsed is reported and counts as missing. Reads and writes raise MetadataStoreError when the
store fails.
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
    """The records of the last run: its newest job model, the location and the state bytes of each task, overrides."""

    model: JobModel | None = None
    task_locality: Mapping[str, str] = field(default_factory=dict)
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    overrides: OperatorOverrides = NO_OVERRIDES


class ReadRecords(ABC):
    """The part of the records that is read, by clients and by a new agent. `warn` is called for ignored records."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn

    @abstractmethod
    def job_models(self) -> dict[int, bytes]:
        """The texts of the saved job models, by version."""

    @abstractmethod
    def task_locality(self) -> dict[str, str]:
        """Task name to the location where the task ran last."""

    @abstractmethod
    def status(self) -> bytes | None:
        """The text that `mooring status` shows, as it was written; None where there is none."""

    @abstractmethod
    def store(self) -> MetadataStore | None:
        """The store of the application's records, which `close` closes; None where there is none yet."""

    @abstractmethod
    def close(self) -> None:
        """Close the store."""

    def read(self) -> Remembered:
        """The records that a new agent needs."""
        return Remembered(self._newest_model(), self.task_locality(), self._state_bytes(), self._overrides())

    def _newest_model(self) -> JobModel | None:
        for version, text in sorted(self.job_models().items(), reverse=True):
            try:
                return job_model_from_json(text)
            except InvalidJobModelError as damage:
                self._warn(f"job model {version} of the last run is ignored: {damage}")
        return None

    def _state_bytes(self) -> dict[str, int]:
        """Task name to state bytes, from the last status."""
        text = self.status()
        try:
            tasks = json.loads(text)["tasks"] if text else []
            actives = [task for task in tasks if task.get("mode") != "Standby"]
            return {task["name"]: task["local-bytes"] for task in actives if isinstance(task["local-bytes"], int)}
        except (AttributeError, ValueError, KeyError, TypeError) as damage:
            self._warn(f"the status of the last run is ignored, and with it how large the tasks were: {damage!r}")
            return {}

    def _overrides(self) -> OperatorOverrides:
        store = self.store()
        text = None if store is None else store.get(OPERATOR_OVERRIDES)
        if text is None:
            return NO_OVERRIDES
        try:
            return OperatorOverrides.from_json(text)
        except ValueError as damage:
            self._warn(
                "what operators have asked is not known, so all standbys are started, all hosts are open and moves may"
                f" be undone: the record is damaged: {damage}"
            )
            return NO_OVERRIDES


class Records(ReadRecords):
    """The records in any metadata store, each at its key."""

    def __init__(self, store: MetadataStore, warn: Callable[[str], None]) -> None:
        super().__init__(warn)
        self._store = store
        self._models = NamespacedMetadataStore(store, JOB_MODELS)
        self._barriers = NamespacedMetadataStore(store, BARRIERS)
        self._tasks = NamespacedMetadataStore(store, TASK_LOCALITY)
        self._processors = NamespacedMetadataStore(store, PROCESSOR_LOCALITY)
        self._placement = ContainerPlacementMetadataStore(store)

    def store(self) -> MetadataStore:
        """The store of the records."""
        return self._store

    def job_models(self) -> dict[int, bytes]:
        """The texts of the saved job models, by version."""
        return {int(key): text for key, text in self._models.all().items() if key.isdecimal()}

    def task_locality(self) -> dict[str, str]:
        """Task name to the location where the task ran last."""
        return {task: place.decode("utf-8", "replace") for task, place in self._tasks.all().items()}

    def status(self) -> bytes | None:
        """The text that `mooring status` shows, as it was written; None where there is none."""
        return self._store.get(STATUS)

    def forget(self) -> None:
        """Remove the records that a new agent reads, except the status."""
        for records in (self._models, self._barriers, self._tasks, self._processors):
            for key in records.all():
                records.delete(key)
        self._store.delete(OPERATOR_OVERRIDES)

    def write_job_model(self, model: JobModel) -> None:
        """Save a new version of the job model, and remove all but the newest versions."""
        self._models.put(str(model.version), job_model_to_json(model).encode())
        places = {id: container.location_id or "" for id, container in model.containers.items()}
        self._processors.put_all({id: place.encode() for id, place in places.items()})
        _keep_the_newest(self._models)
        for gone in self._processors.all().keys() - places.keys():
            self._processors.delete(gone)

    def write_barriers(self, states: Mapping[int, str]) -> None:
        """Save the states of the barriers of these versions, and remove all but the newest versions."""
        self._barriers.put_all({str(version): state.encode() for version, state in states.items()})
        _keep_the_newest(self._barriers)

    def write_task_locality(self, changed: Mapping[str, str]) -> None:
        """Save the locations of these tasks."""
        self._tasks.put_all({task: location.encode() for task, location in changed.items()})

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Save what `mooring status` shows."""
        self._store.put(STATUS, json.dumps(status).encode())

    def write_end(self, application: str, at_ms: int) -> None:
        """Record in the status that the application has ended.

        Nothing is written where the status is missing or damaged, or belongs to another application.
        """
        text = self.status()
        try:
            status = json.loads(text) if text else None
        except ValueError:  # the next application replaces it
            status = None
        if not isinstance(status, dict) or status.get("application") != application:
            return
        queries = [{**query, "state": "ended"} for query in status.get("queries", [])]
        self.write_status({**status, "at": at_ms, "ended": at_ms, "queries": queries})

    def write_overrides(self, overrides: OperatorOverrides) -> None:
        """Save the overrides."""
        self._store.put(OPERATOR_OVERRIDES, overrides.to_json().encode())

    def messages(self) -> StoredMessages:
        """The requests of clients, and their answers."""
        return self._placement.all()

    def write_response(self, response: ContainerPlacementResponseMessage) -> None:
        """Write an answer to a client."""
        self._placement.write_response(response)

    def remove_messages(self, uuid: UUID, response_too: bool) -> None:
        """Remove a finished request, with its response if `response_too`."""
        (self._placement.delete_both if response_too else self._placement.delete_request)(uuid)

    def remove_notifications(self, uuids: Collection[UUID]) -> None:
        """Remove drain notifications whose drains are over."""
        remove_notifications(self._store, uuids)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _keep_the_newest(store: MetadataStore) -> None:
    for version in to_remove([int(key) for key in store.all() if key.isdecimal()]):
        store.delete(str(version))
