"""What the agent keeps in the metadata store, so that places survive the application.

Every record is one small JSON text. A record that can not be read counts as none, and is said once; so does a store
that can not be reached: the agent then decides without memory, and tries again with the next write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from mooring.errors import InvalidJobModelError, MetadataStoreError
from mooring.metadata import MetadataStore, NamespacedMetadataStore
from mooring.model import JobModel, job_model_from_json, job_model_to_json, natural_order

KEPT_JOB_MODELS = 10
"""The newest job models that stay; older ones are removed."""

JOB_MODELS, TASK_LOCALITY, PROCESSOR_LOCALITY, STATUS = "job-models", "task-locality", "processor-locality", "status"


class Memory:
    """The agent's records in one metadata store.

    `say` hears, once each, what could not be read or written.
    """

    def __init__(self, store: MetadataStore, say: Callable[[str], None]) -> None:
        self._store = store
        self._models = NamespacedMetadataStore(store, JOB_MODELS)
        self._tasks = NamespacedMetadataStore(store, TASK_LOCALITY)
        self._processors = NamespacedMetadataStore(store, PROCESSOR_LOCALITY)
        self._say = say
        self._said: set[str] = set()

    def job_model(self) -> JobModel | None:
        """The newest job model that can be read, or None."""
        for version in reversed(self._versions()):
            text = self._quietly("read the job model", lambda key=version: self._models.get(key))  # type: ignore[misc]
            if text is None:
                continue
            try:
                return job_model_from_json(text)
            except InvalidJobModelError as damage:
                self._say_once(f"job model {version} of the last run is ignored: {damage}")
        return None

    def task_locality(self) -> dict[str, str]:
        """Task name to the location where it ran last."""
        records = self._quietly("read where tasks were", self._tasks.all) or {}
        return {key: value.decode("utf-8", "replace") for key, value in records.items()}

    def state_bytes(self) -> dict[str, int]:
        """Task name to the bytes of its state, from the last status that was shown."""
        text = self._quietly("read how large the tasks were", lambda: self._store.get(STATUS))
        try:
            tasks = json.loads(text)["tasks"] if text else []
            return {task["name"]: task["local-bytes"] for task in tasks if isinstance(task["local-bytes"], int)}
        except (ValueError, KeyError, TypeError) as damage:
            self._say_once(f"the status of the last run is ignored, and with it how large the tasks were: {damage!r}")
            return {}

    def save_job_model(self, model: JobModel) -> None:
        """Keep a new version, and remove all but the newest few."""

        def write() -> None:
            self._models.put(str(model.version), job_model_to_json(model).encode())
            places = {id: container.location_id or "" for id, container in model.containers.items()}
            self._processors.put_all({id: place.encode() for id, place in places.items()})
            for version in self._versions()[:-KEPT_JOB_MODELS]:
                self._models.delete(version)
            for gone in self._processors.all().keys() - places.keys():
                self._processors.delete(gone)

        self._quietly("keep the job model", write)

    def save_task_locality(self, changed: Mapping[str, str]) -> None:
        """Keep where tasks are now."""
        records = {task: location.encode() for task, location in changed.items()}
        self._quietly("keep where tasks are", lambda: self._tasks.put_all(records))

    def save_status(self, status: Mapping[str, object]) -> None:
        """Keep what `mooring status` shows."""
        self._quietly("keep the status", lambda: self._store.put(STATUS, json.dumps(status).encode()))

    def close(self) -> None:
        """Let go of the store."""
        self._quietly("finish", self._store.flush)
        self._store.close()

    def _versions(self) -> list[str]:
        records = self._quietly("list job models", self._models.all) or {}
        return sorted((key for key in records if key.isdigit()), key=natural_order)

    def _quietly(self, what: str, action: Callable[[], object]):  # type: ignore[no-untyped-def]
        """Do it, or say once why it can not be done: no query may suffer from a store."""
        try:
            return action()
        except MetadataStoreError as error:
            self._say_once(
                f"can not {what} ({error}): a restart may not find its state's places; queries are not affected"
            )
            return None

    def _say_once(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._say(message)
