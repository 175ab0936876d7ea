"""Hears of the drains that clients ask for, on behalf of the agent's own thread."""

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
"""For how long the first look is so near that it is worth waiting for: a query that starts may wait for it."""

_LAST_LOOK_SECONDS: Final = 1.0


class DrainWatch:
    """A monitor, and what it has heard and nobody has taken yet.

    The monitor's thread looks until `stop`: a store that is slow or away holds up nobody else.
    """

    def __init__(self, report: Callable[[str], None], now_ms: Callable[[], int]) -> None:
        self._report, self._now_ms = report, now_ms
        self._heard: SimpleQueue[DrainsAsked] = SimpleQueue()
        self._has_looked = threading.Event()
        self._near_until_ms = -math.inf
        self._monitor: DrainMonitor | None = None

    def begin(self, store: MetadataStore, application: str, poll_seconds: float) -> None:
        """Look in a store from now on for what is asked of this application."""
        monitor = DrainMonitor(store, application, poll_seconds, report=self._report)
        monitor.init(self._found, self._looked)
        self._near_until_ms = self._now_ms() + _FIRST_LOOK_MS
        monitor.start()
        self._monitor = monitor

    def stop(self) -> None:
        """Look no more. A look that is under way at a store that does not answer is left to end by itself."""
        if self._monitor is not None:
            self._monitor.stop(_LAST_LOOK_SECONDS)

    @property
    def is_about_to_hear(self) -> bool:
        """Whether the first look is under way, and has not taken long."""
        return not self._has_looked.is_set() and self._now_ms() < self._near_until_ms

    def taken(self) -> Sequence[DrainsAsked]:
        """What was heard since the last call, in its order; the first look is among it when it found nothing, too."""
        found = []
        while not self._heard.empty():
            found.append(self._heard.get_nowait())
        return found

    def _found(self, asked: Sequence[DrainNotification]) -> None:
        self._heard.put(DrainsAsked(self._now_ms(), tuple(asked), before_start=not self._has_looked.is_set()))

    def _looked(self) -> None:
        if not self._has_looked.is_set():
            self._heard.put(DrainsAsked(self._now_ms(), ()))
            self._has_looked.set()
