"""Watches the metadata store for drains that clients ask for, in a thread beside the agent's own."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final

from mooring.agent.drains.events_and_orders import DrainsAsked
from mooring.drain import DrainMonitor, DrainNotification
from mooring.metadata import MetadataStore

_FIRST_LOOK_MS: Final = 10_000
"""How long the agent polls fast for the result of the first look: a query that starts may wait for it."""

_LAST_LOOK_SECONDS: Final = 1.0


class DrainWatch:
    """A monitor of the store, and the events that the agent has not got yet.

    The monitor looks at the store in its own thread until `stop`, so that a slow store does not delay the agent.
    """

    def __init__(self, report: Callable[[str], None], now_ms: Callable[[], int]) -> None:
        self._report, self._now_ms = report, now_ms
        self._events: SimpleQueue[DrainsAsked] = SimpleQueue()
        self._has_looked = threading.Event()
        self._near_until_ms = -math.inf
        self._monitor: DrainMonitor | None = None

    def begin(self, store: MetadataStore, application: str, poll_seconds: float) -> None:
        """Watch a store from now on for drains of this application."""
        monitor = DrainMonitor(store, application, poll_seconds, report=self._report)
        monitor.init(self._found, self._looked)
        self._near_until_ms = self._now_ms() + _FIRST_LOOK_MS
        monitor.start()
        self._monitor = monitor

    def stop(self) -> None:
        """Stop watching. A look at a store that does not answer ends later, by itself."""
        if self._monitor is not None:
            self._monitor.stop(_LAST_LOOK_SECONDS)

    @property
    def is_first_look_near(self) -> bool:
        """Whether the first look has not ended, and is not late."""
        return not self._has_looked.is_set() and self._now_ms() < self._near_until_ms

    def new_events(self) -> Sequence[DrainsAsked]:
        """The events since the last call, in their order. The first look makes an event even if it finds nothing."""
        found = []
        while not self._events.empty():
            found.append(self._events.get_nowait())
        return found

    def _found(self, asked: Sequence[DrainNotification]) -> None:
        self._events.put(DrainsAsked(self._now_ms(), tuple(asked), before_start=not self._has_looked.is_set()))

    def _looked(self) -> None:
        if not self._has_looked.is_set():
            self._events.put(DrainsAsked(self._now_ms(), ()))
            self._has_looked.set()
