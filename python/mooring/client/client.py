"""What a program can ask of a running application."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any
from uuid import UUID, uuid4

from mooring.client.forecast import as_json, forecast, newest_with_tasks
from mooring.client.liveness import liveness_of
from mooring.drain import DrainNotification, StopMode, read_drain_notifications, write_drain_notification
from mooring.errors import InvalidJobModelError, RecordError
from mooring.metadata import MetadataStore
from mooring.metadata.store import Report, report_to_log
from mooring.placement import (
    ANY_PROCESSOR,
    STANDBY,
    ContainerPlacementMetadataStore,
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    HostAction,
    StandbyAction,
    StatusCode,
)
from mooring.records.open import open_records
from mooring.records.records import ReadRecords, Records

_LOOK_EVERY_SECONDS = 0.2
_NOTHING_YET = "has an application that has this for its spark.mooring.metadata run a stateful query?"

Heard = Callable[[ContainerPlacementResponseMessage], object]


def parsed_status(text: bytes, place: str) -> dict[str, Any]:
    """A status as the agent writes it. RecordError, which names the place, when it is damaged."""
    try:
        status = json.loads(text)
    except ValueError as fault:
        raise RecordError(f"the status in {place} is damaged: {fault}") from fault
    if not isinstance(status, dict):
        raise RecordError(f"the status in {place} is damaged: it is no JSON object")
    return status


class MooringClient:
    """Writes requests into the metadata store of an application, and reads what its agent answers.

    All methods raise what the store raises (MetadataStoreError). A context manager, for a client that `open` has made.
    """

    def __init__(
        self,
        store: MetadataStore,
        now: Callable[[], float] = time.time,
        records: ReadRecords | None = None,
    ) -> None:
        """`store` is the one that requests go to, and stays the caller's; `now` is seconds since 1970.

        `records` is what `status` and `plan` read: those in `store` when not given. In ZooKeeper they are beside it:
        `open` finds both.
        """
        self._store = store
        self._messages = ContainerPlacementMetadataStore(store)
        self._records = records or Records(store, report_to_log)
        self._own = ExitStack()
        self._now = now

    @classmethod
    def open(cls, place: str, report: Report = report_to_log, **options: str) -> MooringClient:
        """For the store at a place, such as `spark.mooring.metadata`; as `open_metadata_store`, and with its errors.

        For ZooKeeper it is the root of the one application, `zk://host:port/root/<application>-<run id>`, or the one
        that several may share while there is only one. RecordError when no application has begun there.
        """
        with ExitStack() as opened:
            records = open_records(place, options, report)
            opened.callback(records.close)
            store = records.store()
            if store is None:
                raise RecordError(f"there is no application in {place}: {_NOTHING_YET}")
            client = cls(store, records=records)
            client._own = opened.pop_all()
        return client

    def close(self) -> None:
        """Let go of the store, when `open` has opened it."""
        self._own.close()

    def __enter__(self) -> MooringClient:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def control_standby(self, processor_id: str, action: StandbyAction, deployment_id: str) -> UUID:
        """Ask to stop or to start the standbys of a processor's tasks; the uuid is for `container_status`.

        `deployment_id` is the id of the Spark application: another one does not act on it. InvalidMessageError when
        that or the processor's id can be none.
        """
        return self._ask(deployment_id, processor_id, STANDBY, standby=action)

    def place_container(
        self, processor_id: str, destination_host: str, deployment_id: str, request_expiry_ms: int | None = None
    ) -> UUID:
        """Ask to move a processor, or to restart it where it is; the uuid is for `container_status`.

        The destination is a location, `ANY_HOST`, `STANDBY` (where copies of its tasks are) or `LAST_SEEN`; the expiry
        is for how long an executor is looked for there. As `control_standby` for the rest.
        """
        return self._ask(deployment_id, processor_id, destination_host, expiry_ms=request_expiry_ms)

    def drain_host(self, host: str, deployment_id: str) -> UUID:
        """Ask to move everything away from a host, and to keep it empty until `open_host`.

        The host is a location as `mooring status` shows it. As `control_standby` for the rest.
        """
        return self._ask(deployment_id, ANY_PROCESSOR, host, host_action=HostAction.DRAIN)

    def open_host(self, host: str, deployment_id: str) -> UUID:
        """Ask to let tasks and copies come to a host again that was drained. As `control_standby` for the rest."""
        return self._ask(deployment_id, ANY_PROCESSOR, host, host_action=HostAction.OPEN)

    def status(self) -> dict[str, Any]:
        """Where everything is and how it stands, as the agent last wrote it: what `mooring status --json` shows.

        `life` is added to it: whether the application is `alive`, `ended`, or `silent` for longer than one that runs.
        RecordError when no agent has written any yet, and when it is damaged.
        """
        text = self._records.status()
        if text is None:
            raise RecordError(f"there is no status in the metadata store: {_NOTHING_YET}")
        status = parsed_status(text, "the metadata store")
        return {**status, "life": liveness_of(status, int(self._now() * 1000)).life.value}

    def plan(
        self,
        add_hosts: Collection[str] = (),
        remove_hosts: Collection[str] = (),
        moves: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """What would move if these hosts came and went and `moves`, processor to location, were made.

        It has the form of `mooring plan --json`, and changes nothing; sizes and rates are not known before there is a
        status. RecordError when there is no job model yet, and when that or the status is damaged, InvalidPlanError for
        a host or a processor that is not there.
        """
        models = self._records.job_models()
        if not models:
            raise RecordError(f"there is no job model in the metadata store: {_NOTHING_YET}")
        try:
            before = newest_with_tasks(models)
        except InvalidJobModelError as fault:
            raise RecordError(f"job model {max(models)} in the metadata store is damaged: {fault}") from fault
        status = {} if self._records.status() is None else self.status()
        wanted = [f"{id}={host}" for id, host in (moves or {}).items()]
        try:
            return as_json(forecast(before, self._records.task_locality(), status, add_hosts, remove_hosts, wanted))
        except (AttributeError, KeyError, TypeError) as fault:
            raise RecordError(f"the status in the metadata store is of another form: {fault!r}") from fault

    def drain(self, deployment_id: str, query: str | None = None) -> UUID:
        """Ask to drain one query, by its name or id, or all: intake stops, what is buffered comes out, then it ends.

        `deployment_id` is the id of the Spark application: another one does not
        act on it.
        """
        return write_drain_notification(self._store, DrainNotification.create(deployment_id, query))

    def stop(self, deployment_id: str, mode: StopMode, query: str | None = None) -> UUID:
        """Ask to stop one query, by its name or id, or all: they keep their state for the next start."""
        return write_drain_notification(self._store, DrainNotification.create(deployment_id, query, mode))

    def is_drain_open(self, uuid: UUID) -> bool:
        """Whether what was asked is not done yet, by what the agent has left in the store."""
        return uuid in read_drain_notifications(self._store).notifications

    def _ask(
        self,
        deployment_id: str,
        processor_id: str,
        destination_host: str,
        expiry_ms: int | None = None,
        standby: StandbyAction | None = None,
        host_action: HostAction | None = None,
    ) -> UUID:
        now_ms = int(self._now() * 1000)
        request = ContainerPlacementRequestMessage(
            uuid4(), deployment_id, processor_id, destination_host, now_ms, expiry_ms, standby, host_action
        )
        ContainerPlacementRequestMessage.from_json(request.to_json())  # refused here rather than by the agent
        self._messages.write_request(request)
        return request.uuid

    def container_status(self, uuid: UUID) -> ContainerPlacementResponseMessage | None:
        """How far a request is; CREATED until the agent has seen it.

        None when there is neither request nor response: it never was, it is for another deployment, or it was long ago.
        InvalidMessageError when the answer can not be read.
        """
        request = self._messages.read_request(uuid)  # first: it goes when its last response is written
        response = self._messages.read_response(uuid)
        if response is None and request is not None:
            return request.answered(StatusCode.CREATED, "the agent has not seen it yet", request.timestamp)
        return response

    def wait(
        self, uuid: UUID, timeout_seconds: float, heard: Heard, meanwhile: Callable[[], object] = lambda: None
    ) -> ContainerPlacementResponseMessage | None:
        """The status of a request once it is final or gone, or as it is when the time is over.

        `heard` is told of each change; `meanwhile` is called once a second. What either raises ends the waiting.
        """
        deadline = time.monotonic() + timeout_seconds
        next_at, last = 0.0, None
        while True:
            status = self.container_status(uuid)
            if status is not None and status.status_code is not last:
                heard(status)
                last = status.status_code
            left = deadline - time.monotonic()
            if status is None or status.status_code.is_final or left <= 0:
                return status
            if time.monotonic() >= next_at:
                meanwhile()
                next_at = time.monotonic() + 1
            time.sleep(min(_LOOK_EVERY_SECONDS, left))
