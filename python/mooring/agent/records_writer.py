"""A thread that reads and writes the records in the metadata store, so that the agent never waits for the store.

At its start the agent waits a moment for the records. Later it leaves values to save, and a newer value replaces an
older one that is not written yet. Answers to clients are written one by one, in their order. When the records get
another place, the thread writes all that it knows there.

The thread also reads the messages of clients from time to time, and returns them when they have changed. While the
store does not answer, the thread warns once and tries again, and values wait. It reads the store before it writes.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mooring.coordination import KEPT_VERSIONS
from mooring.errors import LeadershipLost, MetadataStoreUnavailable, OutcomeUnknown, WriterReplaced
from mooring.metadata import MetadataStore
from mooring.model import JobModel
from mooring.placement import ContainerPlacementResponseMessage, StoredMessages
from mooring.records.operator_overrides import OperatorOverrides
from mooring.records.records import Records, Remembered

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 2.0

RETURN_AGAIN_SECONDS = 600.0
"""After how many seconds messages are returned again although they have not changed."""


@dataclass(frozen=True, slots=True)
class _Unsaved:
    """Values to write; None or empty where there is nothing to write."""

    model: JobModel | None = None
    task_locality: Mapping[str, str] = field(default_factory=dict)
    status: Mapping[str, Any] | None = None
    barriers: Mapping[int, str] = field(default_factory=dict)
    overrides: OperatorOverrides | None = None

    def with_newer(self, newer: _Unsaved) -> _Unsaved:
        return _Unsaved(
            newer.model or self.model,
            {**self.task_locality, **newer.task_locality},
            newer.status or self.status,
            dict(sorted({**self.barriers, **newer.barriers}.items())[-KEPT_VERSIONS:]),
            newer.overrides or self.overrides,
        )

    def __bool__(self) -> bool:
        return bool(self.model or self.task_locality or self.status or self.barriers or self.overrides)


class NotLeading(Exception):
    """Another driver leads, so values have to wait. This error stays in this module."""


class RecordsWriter:
    """The agent's records in one metadata store, read and written by one daemon thread until `close`.

    `warn` is called once for each problem, and when the store answers again.
    """

    def __init__(
        self,
        open_records: Callable[[Callable[[str], None]], Records],
        warn: Callable[[str], None],
        may_write: Callable[[], bool] = lambda: True,
        poll_seconds: float = math.inf,
        follows_another_driver: bool = False,
        return_again_seconds: float = RETURN_AGAIN_SECONDS,
        count_place_changes: Callable[[], int] = lambda: 0,
    ) -> None:
        """`open_records` gets the function that warns of records that are ignored. `close` closes the records.

        Nothing is written while `may_write` is false: another driver leads, and writes its own records. The messages of
        clients are read every `poll_seconds`; infinity turns that off. Unchanged messages are returned again after
        `return_again_seconds`. With `follows_another_driver` this driver was a standby of the driver that wrote the
        records. `count_place_changes` counts how often the records got another place. A new place has none of the
        written values, but perhaps records of others.
        """
        self._warn = warn
        self._may_write = may_write
        self.follows_another_driver = follows_another_driver
        self._warnings: set[str] = set()
        self._records = open_records(self._warn_once)
        self._count_place_changes, self._place_changes_known = count_place_changes, 0
        self._change = threading.Condition()
        self._unsaved = self._latest = _Unsaved()
        self._pending_writes: deque[Callable[[], None]] = deque()
        self._poll_seconds = poll_seconds
        self._poll_at = -math.inf if poll_seconds < math.inf else math.inf
        self._found_messages = self._returned_messages = StoredMessages({}, {}, {})
        self._found_as_of_ms = 0
        self._returned_at, self._return_again_seconds = time.monotonic(), return_again_seconds
        self._is_writing = False
        self._is_stopping = False
        self._has_ended = False
        self._remembered: Remembered | None = None
        self._is_recalled = False
        self._is_replaced = False
        self._thread = threading.Thread(target=self._run, name="mooring-records-writer", daemon=True)
        self._thread.start()

    def recall(self, timeout: float) -> Remembered | None:
        """The records of the last run. None if the store has not answered after `timeout` seconds.

        They are returned once. After None the caller may ask again, with a timeout of 0.
        """
        with self._change:
            self._change.wait_for(lambda: self._remembered is not None, timeout)
            if self._remembered is None or self._is_recalled:
                return None
            self._is_recalled = True
            return self._remembered

    def save_job_model(self, model: JobModel) -> None:
        """Save a new version of the job model."""
        self._save(_Unsaved(model=model))

    def save_barrier(self, version: int, state: str) -> None:
        """Save the state of the barrier of a version."""
        self._save(_Unsaved(barriers={version: state}))

    def save_task_locality(self, changed: Mapping[str, str]) -> None:
        """Save the locations of tasks that moved."""
        self._save(_Unsaved(task_locality=changed))

    def save_status(self, status: Mapping[str, Any]) -> None:
        """Save what `mooring status` shows."""
        with self._change:
            if self._has_ended:
                return
            self._unsaved = self._unsaved.with_newer(_Unsaved(status=status))
            self._change.notify_all()

    def save_end(self, application: str, at_ms: int) -> None:
        """Record in the status that the application has ended. No later status is saved."""
        with self._change:
            self._has_ended = True
        self._enqueue(lambda: self._records.write_end(application, at_ms))

    def save_overrides(self, overrides: OperatorOverrides) -> None:
        """Save the overrides. They are written before the answers that follow."""
        self._save(_Unsaved(overrides=overrides))

    def answer(self, response: ContainerPlacementResponseMessage) -> None:
        """Write an answer to a client. Each answer is written."""
        self._enqueue(lambda: self._records.write_response(response))

    def remove_messages(self, uuid: UUID, response_too: bool) -> None:
        """Remove a client's request, with its response if `response_too`, after the answers before it.

        If that fails, the messages stay until they are returned again: the agent then orders the removal again. So
        later answers do not wait.
        """

        def remove() -> None:
            try:
                self._records.remove_messages(uuid, response_too)
            except (MetadataStoreUnavailable, OutcomeUnknown) as error:  # a repeated removal does no harm
                self._warn_once(f"can not remove a request that is answered ({error}): it stays, and is not acted on")

        self._enqueue(remove)

    @property
    def store(self) -> MetadataStore:
        """The store of the records. It is closed with the records."""
        return self._records.store()

    def remove_notifications(self, uuids: Collection[UUID]) -> None:
        """Remove drain notifications whose drains are over."""
        self._enqueue(lambda: self._records.remove_notifications(uuids))

    def messages(self) -> tuple[StoredMessages | None, int]:
        """The requests of clients and their answers, and when the store was last read, in milliseconds since the epoch.

        None where the messages have not changed since the last call. While there are answers, unchanged messages are
        returned from time to time, so that old answers are removed. None also before `recall` has returned the records:
        without them an agent would start requests again that are under way.
        """
        with self._change:
            if not self._is_recalled:
                return None, 0
            is_due_again = (
                bool(self._found_messages.responses)
                and time.monotonic() - self._returned_at >= self._return_again_seconds
            )
            if self._found_messages == self._returned_messages and not is_due_again:
                return None, self._found_as_of_ms
            self._returned_messages, self._returned_at = self._found_messages, time.monotonic()
            return self._returned_messages, self._found_as_of_ms

    def flush(self, timeout: float) -> bool:
        """Wait until everything is written. False if that takes more than `timeout` seconds."""
        with self._change:
            return self._change.wait_for(
                lambda: self._is_replaced or not (self._unsaved or self._pending_writes or self._is_writing), timeout
            )

    def close(self, timeout: float = 2.0) -> None:
        """Write everything, if the store answers within `timeout` seconds, and close the store."""
        self.flush(timeout)
        with self._change:
            self._is_stopping = True
            self._change.notify_all()
        self._thread.join(timeout)
        self._records.close()

    def _save(self, newer: _Unsaved) -> None:
        with self._change:
            self._unsaved = self._unsaved.with_newer(newer)
            self._change.notify_all()

    def _enqueue(self, write: Callable[[], None]) -> None:
        with self._change:
            self._pending_writes.append(write)
            self._change.notify_all()

    def _run(self) -> None:
        pause, in_trouble = 0.0, False
        while self._wait_for_work(pause):
            try:
                self._work()
            except (NotLeading, LeadershipLost):
                pause = FIRST_PAUSE_SECONDS
            except WriterReplaced as error:
                self._warn(f"another driver keeps the records from now on: this one's are not kept any more ({error})")
                with self._change:
                    self._is_replaced = True
                    self._change.notify_all()
                return
            except Exception as error:  # a fault of the store must not end the thread
                self._warn_once(
                    f"can not read or write the metadata store ({error}): it is tried again; until then a restart may"
                    " not know on which hosts its state is; queries are not affected"
                )
                pause, in_trouble = min(max(2 * pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS), True
            else:
                if in_trouble:
                    self._warnings.clear()
                    self._warn("the metadata store answers again")
                pause, in_trouble = 0.0, False

    def _wait_for_work(self, pause: float) -> bool:
        """Wait until there is work. True when there is, False at the end."""
        with self._change:
            self._change.wait_for(lambda: self._is_stopping, pause)
            self._change.wait_for(self._has_work, self._seconds_to_poll())
            return not self._is_stopping

    def _has_work(self) -> bool:
        return self._is_stopping or self._remembered is None or bool(self._unsaved) or bool(self._pending_writes)

    def _seconds_to_poll(self) -> float | None:
        return None if self._poll_at == math.inf else max(0.0, self._poll_at - time.monotonic())

    def _work(self) -> None:
        if self._remembered is None:
            changes = self._count_place_changes()
            found = self._records.read()
            self._latest = _Unsaved(found.model, found.task_locality, overrides=found.overrides)
            self._place_changes_known = changes
            with self._change:
                self._remembered = found
                self._change.notify_all()
        if not self._may_write():
            raise NotLeading("another driver leads, or it is not known who does")
        with self._change:
            if not self._is_recalled:  # a new version must be above the saved one, so the agent must know that first
                self._change.wait_for(lambda: self._is_recalled or self._is_stopping, FIRST_PAUSE_SECONDS)
            if not self._is_recalled:
                return
            unsaved, self._unsaved, self._is_writing = self._unsaved, _Unsaved(), True
            # Only the writes that wait now: a later write may depend on values that are saved later, in the next round.
            count = len(self._pending_writes)
        try:
            self._write_to_current_place(unsaved)
            unsaved = _Unsaved()
            self._write_pending(count)
        except BaseException:
            with self._change:
                self._unsaved = unsaved.with_newer(self._unsaved)
            raise
        finally:
            with self._change:
                self._is_writing = False
                self._change.notify_all()
        self._read_messages_when_due()

    def _write_to_current_place(self, unsaved: _Unsaved) -> None:
        """Write the unsaved values. At a new place, replace the records there by all known values.

        If the place changes meanwhile, repeat.
        """
        self._latest = self._latest.with_newer(unsaved)
        while True:
            changes = self._count_place_changes()
            if changes == self._place_changes_known:
                self._write(unsaved)
            else:
                self._records.forget()
                self._write(self._latest)
                self._place_changes_known = changes
            if self._count_place_changes() == changes:
                return

    def _write(self, unsaved: _Unsaved) -> None:
        if unsaved.overrides:  # before the job model: overrides for unknown processors do no harm
            self._records.write_overrides(unsaved.overrides)
        if unsaved.model:
            self._records.write_job_model(unsaved.model)
        if unsaved.barriers:
            self._records.write_barriers(unsaved.barriers)
        if unsaved.task_locality:
            self._records.write_task_locality(unsaved.task_locality)
        if unsaved.status:
            self._records.write_status(unsaved.status)

    def _write_pending(self, count: int) -> None:
        """Do the first writes in their order. A write stays in the queue until it has succeeded."""
        for _ in range(count):
            self._pending_writes[0]()
            self._pending_writes.popleft()

    def _read_messages_when_due(self) -> None:
        if time.monotonic() < self._poll_at:
            return
        as_of_ms = time.time_ns() // 1_000_000
        found = self._records.messages()
        with self._change:
            self._found_messages, self._found_as_of_ms = found, as_of_ms
        self._poll_at = time.monotonic() + self._poll_seconds

    def _warn_once(self, message: str) -> None:
        if message not in self._warnings:
            self._warnings.add(message)
            self._warn(message)
