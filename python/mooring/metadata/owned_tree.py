"""A directory of records for one application: the one that was meant, or another when a living application has that."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable
from mooring.metadata.owners import RENEWED_EVERY_SECONDS, Claim, Owner, OwnerNotes, choose
from mooring.metadata.tree import FileEntry, FileTree, Unreadable

_MOST_PLACES: Final = 100
_MOST_RACES: Final = 20

_Places = tuple[list[FileTree], list[Claim | None]]


class OwnedTree:
    """A `FileTree` that chooses its directory when it is used first, and keeps its owner's note there from then on.

    The directories are `place`, `place/application-2`, `place/application-3` and so on. While the storage does not
    answer, nothing is chosen, and every use raises MetadataStoreError. A daemon thread renews the note until `end`.
    `owner` has the checkpoint of the first query. `told` hears once which directory it is, and whose `place` is where
    another application that runs has that. `say` hears of one that has taken over the directory itself: then `holds`
    is false.
    """

    def __init__(
        self,
        open_tree: Callable[[str], FileTree],
        place: str,
        owner: Owner,
        told: Callable[[str, Claim | None], None],
        say: Callable[[str], None],
        every_seconds: float = RENEWED_EVERY_SECONDS,
    ) -> None:
        self._open_tree, self._meant = open_tree, place
        self._owner, self._told, self._say = owner, told, say
        self._every_seconds = every_seconds
        self._checkpoint = owner.checkpoints[0]
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._chosen: FileTree | None = None
        self._first = open_tree(place)
        self._number = 0
        self._holds = True
        self._replaced_by = ""

    @property
    def holds(self) -> bool:
        """Whether no other application has taken the directory over."""
        return self._holds

    def works_on(self, checkpoint: str) -> None:
        """Another query of the application has this checkpoint. Returns at once; the next renewal tells it."""
        with self._lock:
            self._owner = self._owner.with_checkpoints([checkpoint])

    def end(self) -> None:
        """Leave word that the application has ended: then another one may take the directory at once."""
        self._ended.set()
        with self._lock, contextlib.suppress(MetadataStoreError):  # else the note gets old
            if self._chosen is not None and self._holds:
                notes = OwnerNotes(self._chosen)
                if notes.number() == self._number:
                    notes.renew(self._number, replace(self._owner, has_ended=True))

    def renew(self) -> None:
        """Write the note again; or learn that another application has the directory, or take it back from one."""
        with self._lock:
            if self._chosen is None or self._ended.is_set():
                return
            notes = OwnerNotes(self._chosen)
            newest = notes.number()
            if newest <= self._number:
                notes.renew(self._number, self._owner)
            elif (other := notes.newest()) is None or not other.lives(notes.now):
                self._holds = notes.take(newest + 1, self._owner)
                self._number = newest + 1 if self._holds else self._number
            else:
                self._holds = False
                if self._replaced_by != other.owner.application:
                    self._replaced_by = other.owner.application
                    self._say(
                        f"application {other.owner.application} on {other.owner.host} works on a checkpoint of this"
                        f" one: it keeps the records in {self._chosen.place} from now on, and this one's are not kept"
                    )

    @property
    def place(self) -> str:
        """The directory, for messages."""
        return (self._chosen or self._first).place

    @property
    def reads_at_once(self) -> int:
        """As its storage has it."""
        return self._first.reads_at_once

    def stamp(self) -> object:
        """As its storage has it."""
        return self._tree().stamp()

    def list(self) -> list[FileEntry]:
        """Every plain file of the directory."""
        return self._tree().list()

    def read(self, name: str, limit: int) -> bytes | Unreadable | None:
        """The whole file."""
        return self._tree().read(name, limit)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that must not be there."""
        return self._tree().create(name, data)

    def write_atomic(self, name: str, data: bytes) -> None:
        """Write a file over what was there."""
        self._tree().write_atomic(name, data)

    def delete(self, name: str) -> None:
        """Remove a file."""
        self._tree().delete(name)

    def sync(self) -> None:
        """Return when what was written survives a power cut, as far as the storage can promise that."""
        self._tree().sync()

    def _tree(self) -> FileTree:
        chosen = self._chosen
        if chosen is None:
            with self._lock:
                chosen = self._chosen or self._choose()
        return chosen

    def _choose(self) -> FileTree:
        now = OwnerNotes(self._first).now
        for _ in range(_MOST_RACES):
            trees, claims = self._look()
            number = choose(claims, self._checkpoint, now)
            tree, before = trees[number], claims[number]
            owner, next_number = self._owner, 1 if before is None else before.number + 1
            if before is not None and before.owner.works_on(self._checkpoint):
                owner = replace(owner, checkpoints=()).with_checkpoints((*before.owner.checkpoints, *owner.checkpoints))
            if OwnerNotes(tree).take(next_number, owner):
                self._owner, self._number, self._chosen = owner, next_number, tree
                threading.Thread(target=self._keep_renewing, name="mooring-owner", daemon=True).start()
                first = claims[0] if number > 0 else None
                self._told(tree.place, first if first is not None and first.lives(now) else None)
                return tree
        raise MetadataStoreUnavailable(f"{self._meant}: other applications took each place before this one could")

    def _look(self) -> _Places:
        """The directories with what their notes say, up to the first that nobody has used."""
        trees = [self._first]
        claims = [OwnerNotes(self._first).newest()]
        while claims[-1] is not None:
            if len(trees) == _MOST_PLACES:
                raise MetadataStoreUnavailable(f"{self._meant}: {_MOST_PLACES} applications keep records there already")
            trees.append(self._open_tree(f"{self._meant.rstrip('/')}/application-{len(trees) + 1}"))
            claims.append(OwnerNotes(trees[-1]).newest())
        return trees, claims

    def _keep_renewing(self) -> None:
        while not self._ended.wait(self._every_seconds):
            with contextlib.suppress(MetadataStoreError):  # whoever reads and writes the records says what is wrong
                self.renew()
