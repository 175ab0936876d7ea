"""The client of a running application: it writes requests, and reads status, plans and answers."""

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
_MEANWHILE_EVERY_SECONDS = 1.0
_NOTHING_YET = "has an application that has this for its spark.mooring.metadata run a stateful query?"

OnStatus = Callable[[ContainerPlacementResponseMessage], object]


def parsed_status(text: bytes, place: str) -> dict[str, Any]:
    """The status in a text that the agent has written. RecordError, which names the place, when it is damaged."""
    try:
        status = json.loads(text)
    except ValueError as fault:
        raise RecordError(f"the status in {place} is damaged: {fault}") from fault
    if not isinstance(status, dict):
        raise RecordError(f"the status in {place} is damaged: it is no JSON object")
    return status


class MooringClient:
    """Writes requests into the metadata store of an application, and reads the answers of its agent.

    All methods raise what the store raises (MetadataStoreError). A client that `open` has made is a context manager.
    """

    def __init__(
        self,
        store: MetadataStore,
        now: Callable[[], float] = time.time,
        records: ReadRecords | None = None,
    ) -> None:
        """Requests go to `store`, which the caller closes. `now` is the clock, in seconds since 1970.

        `status` and `plan` read `records`, by default those in `store`. In ZooKeeper the records are beside the store;
        `open` finds both.
        """
        self._store = store
        self._messages = ContainerPlacementMetadataStore(store)
        self._records = records or Records(store, report_to_log)
        self._own = ExitStack()
        self._now = now

    @classmethod
    def open(cls, place: str, report: Report = report_to_log, **options: str) -> MooringClient:
        """A client for the store at a place, such as the value of `spark.mooring.metadata`.

        `options` and errors are those of `open_metadata_store`. For ZooKeeper the place is the root of an application,
        `zk://host:port/root/<application>-<run id>`, or a shared root that has one application. RecordError when there
        is no application at the place.
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
        """Close the store, if `open` has opened it."""
        self._own.close()

    def __enter__(self) -> MooringClient:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def control_standby(self, processor_id: str, action: StandbyAction, deployment_id: str) -> UUID:
        """Ask to stop or to start the standbys of a processor's tasks; the uuid is for `container_status`.

        `deployment_id` is the id of the Spark application; other applications ignore the request. InvalidMessageError
        when one of the ids is not valid.
        """
        return self._ask(deployment_id, processor_id, STANDBY, standby=action)

    def place_container(
        self, processor_id: str, destination_host: str, deployment_id: str, request_expiry_ms: int | None = None
    ) -> UUID:
        """Ask to move a processor, or to restart it where it is; the uuid is for `container_status`.

        The destination is a location, `ANY_HOST`, `STANDBY` (where copies of its tasks are) or `LAST_SEEN`, which
        restarts its executor. The location where the processor is means `LAST_SEEN`, unless the processor comes there
        after the request was made. The agent looks for an executor there until the expiry. `deployment_id` and errors
        are as in `control_standby`.
        """
        return self._ask(deployment_id, processor_id, destination_host, expiry_ms=request_expiry_ms)

    def drain_host(self, host: str, deployment_id: str) -> UUID:
        """Ask to move everything away from a host, and to keep it empty until `open_host`.

        The host is a location as `mooring status` shows it. `deployment_id` and errors are as in `control_standby`.
        """
        return self._ask(deployment_id, ANY_PROCESSOR, host, host_action=HostAction.DRAIN)

    def open_host(self, host: str, deployment_id: str) -> UUID:
        """Ask to let tasks and copies come to a drained host again. Arguments and errors are as in `drain_host`."""
        return self._ask(deployment_id, ANY_PROCESSOR, host, host_action=HostAction.OPEN)

    def status(self) -> dict[str, Any]:
        """The newest status that the agent has written, in the form of `mooring status --json`.

        `life` is added: `alive`, `ended`, or `silent` when the status is older than that of a living agent can be.
        RecordError when there is no status yet, and when it is damaged.
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
        """What would move if hosts were added and removed, and if processors moved. It changes nothing.

        `moves` maps processor to location. The result has the form of `mooring plan --json`; sizes and rates are not
        known while there is no status. RecordError when there is no job model yet, and when the job model or the status
        is damaged. InvalidPlanError for an unknown host or processor.
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
        """Ask to drain one query, by its name or id, or all. Intake stops, buffered rows come out, then the query ends.

        `deployment_id` is the id of the Spark application; other applications ignore the request.
        """
        return write_drain_notification(self._store, DrainNotification.create(deployment_id, query))

    def stop(self, deployment_id: str, mode: StopMode, query: str | None = None) -> UUID:
        """Ask to stop one query, by its name or id, or all. The queries keep their state for the next start."""
        return write_drain_notification(self._store, DrainNotification.create(deployment_id, query, mode))

    def is_drain_open(self, uuid: UUID) -> bool:
        """Whether a drain or stop is not done yet: the agent removes its notification when it is done."""
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
        ContainerPlacementRequestMessage.from_json(request.to_json())  # an invalid request is refused here
        self._messages.write_request(request)
        return request.uuid

    def container_status(self, uuid: UUID) -> ContainerPlacementResponseMessage | None:
        """The response to a request; CREATED until the agent has seen the request.

        None when there is neither request nor response. Then there never was such a request, it was for another
        deployment, or its response was removed since. InvalidMessageError when the response can not be read.
        """
        request = self._messages.read_request(uuid)  # before the response: the agent removes it after the last response
        response = self._messages.read_response(uuid)
        if response is None and request is not None:
            return request.answered(StatusCode.CREATED, "the agent has not seen it yet", request.timestamp)
        return response

    def wait(
        self, uuid: UUID, timeout_seconds: float, on_status: OnStatus, meanwhile: Callable[[], object] = lambda: None
    ) -> ContainerPlacementResponseMessage | None:
        """Wait until a request is final or gone, or until the time is over; returns the last response.

        `on_status` is called when the status changes, and `meanwhile` once a second. Errors of both end the wait.
        """
        deadline = time.monotonic() + timeout_seconds
        next_at, last_status = 0.0, None
        while True:
            response = self.container_status(uuid)
            if response is not None and response.status_code is not last_status:
                on_status(response)
                last_status = response.status_code
            left = deadline - time.monotonic()
            if response is None or response.status_code.is_final or left <= 0:
                return response
            if time.monotonic() >= next_at:
                meanwhile()
                next_at = time.monotonic() + _MEANWHILE_EVERY_SECONDS
            time.sleep(min(_LOOK_EVERY_SECONDS, left))
