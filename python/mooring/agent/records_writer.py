"""What the agent remembers beyond its life and the application's, and what clients ask, by a thread of its own.

The agent never waits for the store, but for a moment at its start. What it wants kept is noted, newer notes replace
older ones, and the thread writes them; answers to clients are written each, in their order. When the records get
another place, all that is known is written there. The thread also looks for what clients ask, every now and then, and
hands it over when it has changed. While the store does not answer, that is said once, notes wait, and the thread tries
again; when it answers, it is first read, then written.
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

GIVEN_AGAIN_SECONDS = 600.0
"""How often messages are handed over that have not changed."""


@dataclass(frozen=True, slots=True)
class _Notes:
    """What is to be written."""

    model: JobModel | None = None
    task_locality: Mapping[str, str] = field(default_factory=dict)
    status: Mapping[str, Any] | None = None
    barriers: Mapping[int, str] = field(default_factory=dict)
    overrides: OperatorOverrides | None = None

    def then(self, newer: _Notes) -> _Notes:
        return _Notes(
            newer.model or self.model,
            {**self.task_locality, **newer.task_locality},
            newer.status or self.status,
            dict(sorted({**self.barriers, **newer.barriers}.items())[-KEPT_VERSIONS:]),
            newer.overrides or self.overrides,
        )

    def __bool__(self) -> bool:
        return bool(self.model or self.task_locality or self.status or self.barriers or self.overrides)


class NotLeading(Exception):
    """What is noted has to wait; never leaves this module."""


class RecordsWriter:
    """The agent's records in one metadata store, read and written by one daemon thread, from the start to `close`.

    `say` hears once of each trouble, and when it is over.
    """

    def __init__(
        self,
        open_records: Callable[[Callable[[str], None]], Records],
        say: Callable[[str], None],
        may_write: Callable[[], bool] = lambda: True,
        poll_seconds: float = math.inf,
        follows_another_driver: bool = False,
        again_seconds: float = GIVEN_AGAIN_SECONDS,
        moves: Callable[[], int] = lambda: 0,
    ) -> None:
        """`open_records` gets the function that warns of records that are ignored. `close` closes the records.

        Nothing is written while `may_write` is false: another driver leads, and keeps its own records. Every
        `poll_seconds` the messages of clients are read; an infinite number turns that off. `follows_another_driver`:
        this driver was a standby of the driver that wrote the records. `moves` counts how often the records were given
        another place. A new place has nothing of what was written, but perhaps records of others.
        """
        self._say = say
        self._may_write = may_write
        self.follows_another_driver = follows_another_driver
        self._said: set[str] = set()
        self._records = open_records(self._say_once)
        self._moves, self._moves_known = moves, 0
        self._change = threading.Condition()
        self._notes = self._kept = _Notes()
        self._letters: deque[Callable[[], None]] = deque()
        self._poll_seconds = poll_seconds
        self._poll_at = -math.inf if poll_seconds < math.inf else math.inf
        self._found = self._given = StoredMessages({}, {}, {})
        self._found_as_of_ms = 0
        self._given_at, self._again_seconds = time.monotonic(), again_seconds
        self._writing = False
        self._stopping = False
        self._has_ended = False
        self._remembered: Remembered | None = None
        self._taken = False
        self._over = False
        self._thread = threading.Thread(target=self._run, name="mooring-memory", daemon=True)
        self._thread.start()

    def recall(self, timeout: float) -> Remembered | None:
        """What the last run left, once the store has answered; None while it has not, after `timeout` seconds.

        It is given out once: whoever gets None may ask again later, with no timeout.
        """
        with self._change:
            self._change.wait_for(lambda: self._remembered is not None, timeout)
            if self._remembered is None or self._taken:
                return None
            self._taken = True
            return self._remembered

    def save_job_model(self, model: JobModel) -> None:
        """Keep a new version."""
        self._note(_Notes(model=model))

    def save_barrier(self, version: int, state: str) -> None:
        """Keep how the barrier of a version stands."""
        self._note(_Notes(barriers={version: state}))

    def save_task_locality(self, changed: Mapping[str, str]) -> None:
        """Keep where tasks are now."""
        self._note(_Notes(task_locality=changed))

    def save_status(self, status: Mapping[str, Any]) -> None:
        """Keep what `mooring status` shows."""
        with self._change:
            if self._has_ended:
                return
            self._notes = self._notes.then(_Notes(status=status))
            self._change.notify_all()

    def save_end(self, application: str, at_ms: int) -> None:
        """Keep that the application has ended; no later status is kept."""
        with self._change:
            self._has_ended = True
        self._send(lambda: self._records.write_end(application, at_ms))

    def save_overrides(self, overrides: OperatorOverrides) -> None:
        """Keep what operators have said; it is kept before what is answered later."""
        self._note(_Notes(overrides=overrides))

    def answer(self, response: ContainerPlacementResponseMessage) -> None:
        """Answer a client; each answer is written."""
        self._send(lambda: self._records.write_response(response))

    def remove_messages(self, uuid: UUID, response_too: bool) -> None:
        """Remove a client's request, and the response too when that is asked for; after the answers before it.

        Where that fails they stay until the messages change again: what can not be removed must hold up no answer.
        """

        def remove() -> None:
            try:
                self._records.remove_messages(uuid, response_too)
            except (MetadataStoreUnavailable, OutcomeUnknown) as error:  # to remove what is gone does no harm
                self._say_once(f"can not remove a request that is answered ({error}): it stays, and is not acted on")

        self._send(remove)

    @property
    def store(self) -> MetadataStore:
        """The store that the records are in; it is closed with them."""
        return self._records.store()

    def remove_notifications(self, uuids: Collection[UUID]) -> None:
        """Remove drain notifications that are done."""
        self._send(lambda: self._records.remove_notifications(uuids))

    def messages(self) -> tuple[StoredMessages | None, int]:
        """What clients ask and what was answered, when that has changed since it was given last; else None.

        Now and then also when it has not, as long as there are answers: old ones are to go. And when the last reading
        of the store began, in milliseconds since 1970. None before `recall` has given what was left: who has not heard
        what was begun would begin it again.
        """
        with self._change:
            if not self._taken:
                return None, 0
            is_long_ago = bool(self._found.responses) and time.monotonic() - self._given_at >= self._again_seconds
            if self._found == self._given and not is_long_ago:
                return None, self._found_as_of_ms
            self._given, self._given_at = self._found, time.monotonic()
            return self._given, self._found_as_of_ms

    def drain(self, timeout: float) -> bool:
        """Return when all is written, or after `timeout` seconds with False."""
        with self._change:
            return self._change.wait_for(
                lambda: self._over or not (self._notes or self._letters or self._writing), timeout
            )

    def close(self, timeout: float = 2.0) -> None:
        """Write what is noted, if the store answers in time, and let go of the store."""
        self.drain(timeout)
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self._thread.join(timeout)
        self._records.close()

    def _note(self, newer: _Notes) -> None:
        with self._change:
            self._notes = self._notes.then(newer)
            self._change.notify_all()

    def _send(self, letter: Callable[[], None]) -> None:
        with self._change:
            self._letters.append(letter)
            self._change.notify_all()

    def _run(self) -> None:
        pause, in_trouble = 0.0, False
        while self._wait_for_work(pause):
            try:
                self._work()
            except (NotLeading, LeadershipLost):
                pause = FIRST_PAUSE_SECONDS
            except WriterReplaced as error:
                self._say(f"another driver keeps the records from now on: this one's are not kept any more ({error})")
                with self._change:
                    self._over = True
                    self._change.notify_all()
                return
            except Exception as error:  # whatever is wrong with a store, the thread goes on, and so do queries
                self._say_once(
                    f"can not read or write the metadata store ({error}): it is tried again; until then a restart may"
                    " not find its state's places; queries are not affected"
                )
                pause, in_trouble = min(max(2 * pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS), True
            else:
                if in_trouble:
                    self._said.clear()
                    self._say("the metadata store answers again")
                pause, in_trouble = 0.0, False

    def _wait_for_work(self, pause: float) -> bool:
        """True when there is something to do; False at the end."""
        with self._change:
            self._change.wait_for(lambda: self._stopping, pause)
            self._change.wait_for(self._has_work, self._seconds_to_poll())
            return not self._stopping

    def _has_work(self) -> bool:
        return self._stopping or self._remembered is None or bool(self._notes) or bool(self._letters)

    def _seconds_to_poll(self) -> float | None:
        return None if self._poll_at == math.inf else max(0.0, self._poll_at - time.monotonic())

    def _work(self) -> None:
        if self._remembered is None:
            moves = self._moves()
            found = self._records.read()
            self._kept = _Notes(found.model, found.task_locality, overrides=found.overrides)
            self._moves_known = moves
            with self._change:
                self._remembered = found
                self._change.notify_all()
        if not self._may_write():
            raise NotLeading("another driver leads, or it is not known who does")
        with self._change:
            if not self._taken:  # a version may only follow the newest one that is there: the agent must know of it
                self._change.wait_for(lambda: self._taken or self._stopping, FIRST_PAUSE_SECONDS)
            if not self._taken:
                return
            notes, self._notes, self._writing = self._notes, _Notes(), True
            due = len(self._letters)  # a later one may be about what is noted later
        try:
            self._write_where_they_are(notes)
            notes = _Notes()
            self._send_letters(due)
        except BaseException:
            with self._change:
                self._notes = notes.then(self._notes)
            raise
        finally:
            with self._change:
                self._writing = False
                self._change.notify_all()
        self._look_for_messages()

    def _write_where_they_are(self, notes: _Notes) -> None:
        """Write what is noted; or all that is known, in place of what is there, where the place is another one.

        When the place changes meanwhile, it is done once more.
        """
        self._kept = self._kept.then(notes)
        while True:
            moves = self._moves()
            if moves == self._moves_known:
                self._write(notes)
            else:
                self._records.forget()
                self._write(self._kept)
                self._moves_known = moves
            if self._moves() == moves:
                return

    def _write(self, notes: _Notes) -> None:
        if notes.overrides:  # before the model: what it says of processors that are not there yet does no harm
            self._records.write_overrides(notes.overrides)
        if notes.model:
            self._records.write_job_model(notes.model)
        if notes.barriers:
            self._records.write_barriers(notes.barriers)
        if notes.task_locality:
            self._records.write_task_locality(notes.task_locality)
        if notes.status:
            self._records.write_status(notes.status)

    def _send_letters(self, count: int) -> None:
        """Each stays until it is written, so that none is written again after a later one."""
        for _ in range(count):
            self._letters[0]()
            self._letters.popleft()

    def _look_for_messages(self) -> None:
        if time.monotonic() < self._poll_at:
            return
        as_of_ms = time.time_ns() // 1_000_000
        found = self._records.messages()
        with self._change:
            self._found, self._found_as_of_ms = found, as_of_ms
        self._poll_at = time.monotonic() + self._poll_seconds

    def _say_once(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._say(message)
