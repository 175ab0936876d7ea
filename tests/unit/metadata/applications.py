"""Applications that share a place for their records, for tests of who owns it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mooring.metadata import FileMetadataStore, LocalFileTree
from mooring.metadata.owned_tree import OwnedTree
from mooring.metadata.owners import SILENT_AFTER_SECONDS, Claim, Owner

LONG_AGO = 10 * SILENT_AFTER_SECONDS


class App:
    """An application with one query, and what its log says."""

    def __init__(
        self,
        place: Path,
        name: str,
        checkpoint: str,
        every_seconds: float = 60.0,
        open_tree: Callable[[str], LocalFileTree] = LocalFileTree,
    ) -> None:
        self.told: list[tuple[str, Claim | None]] = []
        self.said: list[str] = []
        self.clock = 0.0
        owner = Owner(name, "10.0.0.7", ()).with_checkpoints([checkpoint])
        self.tree = OwnedTree(
            open_tree,
            str(place),
            owner,
            lambda *told: self.told.append(told),
            self.said.append,
            every_seconds,
            lambda: self.clock,
        )
        self.store = FileMetadataStore(self.tree)

    def put(self, text: str) -> None:
        self.store.put("status", text.encode())


def status_in(place: Path) -> bytes | None:
    return FileMetadataStore(str(place)).get("status")


def let_it_be_old(place: Path) -> None:
    """Set the times of all files in the place to long ago."""
    for file in place.glob("k-*"):
        os.utime(file, (time.time() - LONG_AGO,) * 2)


@contextmanager
def applications_in(place: Path) -> Iterator[Callable[..., App]]:
    """Yields a function that starts an application; at the end of the block all of them end."""
    begun: list[App] = []

    def start(
        name: str,
        checkpoint: str,
        every_seconds: float = 60.0,
        open_tree: Callable[[str], LocalFileTree] = LocalFileTree,
    ) -> App:
        begun.append(App(place, name, checkpoint, every_seconds, open_tree))
        return begun[-1]

    yield start
    for app in begun:
        app.tree.end()
