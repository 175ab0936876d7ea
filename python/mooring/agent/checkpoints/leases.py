"""Notes in checkpoints that this application works on them, for those who would change one (`mooring restore`)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from mooring.checkpoint.lease import DIRECTORY, IN_USE, RENEWED_EVERY_MS, Lease
from mooring.errors import MetadataStoreError
from mooring.metadata.tree import FileTree
from mooring.model import events

_LAST_SECONDS: Final = 1.0


class Leases:
    """Written and removed by a thread of its own: storage that is slow or away holds up nobody else.

    The thread starts with the first query, and ends with `end` or with the process.
    """

    def __init__(
        self, open_tree: Callable[[str], FileTree], warn: Callable[[str], None], now_ms: Callable[[], int]
    ) -> None:
        """`open_tree` opens a directory by its path or URI; `warn` gets one line when a note can not be written."""
        self._open_tree, self._warn, self._now_ms = open_tree, warn, now_ms
        self._application = ""
        self._held: dict[str, str] = {}  # run of a query -> checkpoint
        self._left: set[str] = set()  # checkpoints whose notes are to go
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._is_over = False
        self._has_said = False
        self._thread: threading.Thread | None = None

    def handle(self, event: events.Event) -> None:
        """Handle an event about a checkpoint that is taken or left. Returns at once."""
        match event:
            case events.ApplicationStarted():
                self._application = event.application
            case events.CheckpointTaken():
                with self._lock:
                    self._held[event.run] = event.checkpoint
                    self._left.discard(event.checkpoint)
                self._wake()
            case events.CheckpointLeft():
                with self._lock:
                    checkpoint = self._held.pop(event.run, None)
                    if checkpoint is not None and checkpoint not in self._held.values():
                        self._left.add(checkpoint)
                if checkpoint is not None:
                    self._wake()

    def end(self) -> None:
        """Remove all notes, in a moment: those that are left get old."""
        with self._lock:
            self._left |= set(self._held.values())
            self._held.clear()
            self._is_over = True
        self._changed.set()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="mooring-leases", daemon=True)
            self._thread.start()
        self._changed.set()

    def _work(self) -> None:
        while True:
            self._changed.wait(RENEWED_EVERY_MS / 1000)
            self._changed.clear()
            with self._lock:
                held, left = sorted(set(self._held.values())), sorted(self._left)
                self._left.clear()
                is_over = self._is_over
            for checkpoint in held:
                note = Lease(self._application, self._now_ms()).as_json()
                self._attempt(checkpoint, lambda tree, note=note: tree.write_atomic(IN_USE, note))  # type: ignore[misc]
            for checkpoint in left:
                self._attempt(checkpoint, lambda tree: tree.delete(IN_USE))
            if is_over:
                return

    def _attempt(self, checkpoint: str, act: Callable[[FileTree], None]) -> None:
        try:
            act(self._open_tree(f"{checkpoint}/{DIRECTORY}"))
        except MetadataStoreError as fault:  # the query works all the same, and the next round tries again
            if not self._has_said:
                self._has_said = True
                self._warn(
                    f"it can not be noted that {checkpoint} is in use ({fault}): mooring restore would not refuse it"
                )
