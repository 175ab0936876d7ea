"""A directory of records for one application: the one that was meant, or another when a living application has that."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable
from mooring.metadata.owners import (
    RENEWED_EVERY_SECONDS,
    SILENT_AFTER_SECONDS,
    Claim,
    Owner,
    OwnerNotes,
    choose,
)
from mooring.metadata.tree import FileEntry, FileTree, Unreadable

_MOST_PLACES: Final = 100
_MOST_RACES: Final = 20
_LAST_SECONDS: Final = 1.0
_LONGEST_WAIT_SECONDS: Final = 10.0

_Trees = list[FileTree]
_Claims = list[Claim | None]


class OwnedTree:
    """A `FileTree` that chooses its directory when it is used first, and keeps its owner's note there from then on.

    The directories are `place`, `place/application-2`, `place/application-3` and so on. While the storage does not
    answer, nothing is chosen, and every use raises MetadataStoreError. A daemon thread renews the note until `end`.
    `owner` has the checkpoint of the first query. `told` hears which directory it is, and whose `place` is where
    another application that runs has that.

    Another application may take the directory over, as when the note was not renewed for long. `say` hears of it. One
    that works on a checkpoint of this application keeps it: then `holds` is false. Else this application chooses
    another directory, which is empty or has its older records: then `moves` is greater than before.
    """

    def __init__(
        self,
        open_tree: Callable[[str], FileTree],
        place: str,
        owner: Owner,
        told: Callable[[str, Claim | None], None],
        say: Callable[[str], None],
        every_seconds: float = RENEWED_EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_tree, self._meant = open_tree, place
        self._owner, self._told, self._say = owner, told, say
        self._every_seconds, self._clock = every_seconds, clock
        self._checkpoint = owner.checkpoints[0]
        self._lock = threading.RLock()  # is held while the storage is asked: never by those who must not wait
        self._noting = threading.Lock()
        self._noted: list[str] = []
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None
        self._chosen: FileTree | None = None
        self._first = open_tree(place)
        self._number = self._tried = 0
        self._checked_at = 0.0
        self._holds = True
        self._moves = 0
        self._replaced_by = ""
        self._left: tuple[str, Owner] | None = None  # the directory that was lost, and to whom

    @property
    def holds(self) -> bool:
        """Whether no other application has taken the directory over."""
        return self._holds

    @property
    def moves(self) -> int:
        """How often another directory was chosen: what was written before is not in the one of now."""
        return self._moves

    def works_on(self, checkpoint: str) -> None:
        """Another query of the application has this checkpoint. Returns at once; the next renewal tells it."""
        with self._noting:
            self._noted.append(checkpoint)

    def end(self) -> None:
        """Leave word that the application has ended: then another one may take the directory at once.

        Returns after a second at most. Where the storage has not answered by then, the note gets old.
        """
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join(_LAST_SECONDS)

    def renew(self) -> None:
        """Write the note again; or learn that another application has the directory, or take it back from one."""
        with self._lock:
            if self._ended.is_set():
                return
            if self._chosen is not None:
                self._renew(self._chosen)
                self._checked_at = self._clock()
            elif self._left is not None:
                self._choose()

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
        """The directory; before, a note that may count as old is renewed, as another may have taken the directory."""
        chosen = self._chosen
        if chosen is not None and self._clock() - self._checked_at < SILENT_AFTER_SECONDS - RENEWED_EVERY_SECONDS:
            return chosen
        if not self._lock.acquire(timeout=_LONGEST_WAIT_SECONDS):
            raise MetadataStoreUnavailable(f"{self.place} does not answer while the application's note is written")
        try:
            if self._chosen is not None:
                self.renew()
            return self._chosen or self._choose()
        finally:
            self._lock.release()

    def _renew(self, chosen: FileTree) -> None:
        self._take_in_what_was_noted()
        notes = OwnerNotes(chosen)
        newest = notes.number()
        if newest <= self._number:
            notes.renew(self._number, self._owner)
            return
        shown = notes.now()  # before the note is looked at: then no cache of the directory makes it look older
        other = notes.newest()
        if other is not None and other.number == self._tried and self._is_own(other.owner):
            self._number, self._holds = self._tried, True  # the storage had not said that the note was made
            notes.renew(self._number, self._owner)
        elif other is None or not other.lives(lambda: shown):
            self._tried = newest + 1 if other is None else other.number + 1
            self._holds = notes.take(self._tried, self._owner)
            self._number = self._tried if self._holds else self._number
        elif any(map(other.owner.works_on, self._owner.checkpoints)):
            self._holds = False
            if self._replaced_by != other.owner.application:
                self._replaced_by = other.owner.application
                self._say(
                    f"application {other.owner.application} on {other.owner.host} works on a checkpoint of this"
                    f" one: it keeps the records in {chosen.place} from now on, and this one's are not kept"
                )
        else:
            self._left, self._chosen = (chosen.place, other.owner), None
            self._choose()

    def _is_own(self, owner: Owner) -> bool:
        return (owner.application, owner.host) == (self._owner.application, self._owner.host)

    def _take_in_what_was_noted(self) -> None:
        with self._noting:
            noted, self._noted = self._noted, []
        self._owner = self._owner.with_checkpoints(noted)

    def _choose(self) -> FileTree:
        self._take_in_what_was_noted()
        for _ in range(_MOST_RACES):
            if (found := self._find()) is None:
                continue
            tree, before, is_first = found
            owner, number = self._owner, 1 if before is None else before.number + 1
            if before is not None and before.owner.works_on(self._checkpoint):
                owner = replace(owner, checkpoints=()).with_checkpoints((*before.owner.checkpoints, *owner.checkpoints))
            others = None if is_first or self._left is not None else self._living(self._first)
            if OwnerNotes(tree).take(number, owner):
                self._owner, self._number = owner, number
                self._begin_in(tree, others)
                return tree
        raise MetadataStoreUnavailable(f"{self._meant}: other applications took each place before this one could")

    def _find(self) -> tuple[FileTree, Claim | None, bool] | None:
        """The directory to take, its newest note, and whether it is the first; None when they changed meanwhile."""
        trees, claims = self._look()
        shown = 0.0
        if not any(claim is not None and claim.owner.works_on(self._checkpoint) for claim in claims):
            shown, claims = self._look_by_the_clock(trees, claims)
            if claims[-1] is not None:
                return None
        number = choose(claims, self._checkpoint, lambda: shown)
        return trees[number], claims[number], number == 0

    def _begin_in(self, tree: FileTree, others: Claim | None) -> None:
        """The directory is this application's from now on."""
        self._chosen, self._checked_at = tree, self._clock()
        self._holds, self._replaced_by = True, ""
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._keep_renewing, name="mooring-owner", daemon=True)
            self._renewing.start()
        if self._left is not None:
            (place, other), self._left = self._left, None
            self._moves += 1
            self._say(
                f"application {other.application} on {other.host}, which works on other checkpoints, has taken the"
                f" records in {place}, as this application had not renewed its note there for long: this one keeps its"
                f" own in {tree.place} from now on"
            )
        self._told(tree.place, others)

    def _look(self) -> tuple[_Trees, _Claims]:
        """The directories with what their notes say, up to the first that nobody has used."""
        trees = [self._first]
        claims = [OwnerNotes(self._first).newest()]
        while claims[-1] is not None:
            if len(trees) == _MOST_PLACES:
                raise MetadataStoreUnavailable(f"{self._meant}: {_MOST_PLACES} applications keep records there already")
            trees.append(self._open_tree(f"{self._meant.rstrip('/')}/application-{len(trees) + 1}"))
            claims.append(OwnerNotes(trees[-1]).newest())
        return trees, claims

    def _look_by_the_clock(self, trees: _Trees, claims: _Claims) -> tuple[float, _Claims]:
        """What the clock of the storage shows, and what the notes say after that.

        Each directory is written to first, so that no cache of it shows an older note.
        """
        shown = [
            OwnerNotes(tree).now()
            for tree, claim in zip(trees, claims, strict=True)
            if claim and not claim.owner.has_ended
        ]
        return min(shown, default=0.0), [OwnerNotes(tree).newest() for tree in trees]

    def _living(self, tree: FileTree) -> Claim | None:
        """The note of a directory whose owner runs."""
        notes = OwnerNotes(tree)
        shown, claim = notes.now(), notes.newest()
        return claim if claim is not None and claim.lives(lambda: shown) else None

    def _keep_renewing(self) -> None:
        while not self._ended.wait(self._every_seconds):
            with contextlib.suppress(MetadataStoreError):  # whoever reads and writes the records says what is wrong
                self.renew()
        with contextlib.suppress(MetadataStoreError):  # the note gets old
            self._leave_word()

    def _leave_word(self) -> None:
        with self._lock:
            if self._chosen is not None and self._holds:
                notes = OwnerNotes(self._chosen)
                if notes.number() == self._number:
                    self._take_in_what_was_noted()
                    notes.renew(self._number, replace(self._owner, has_ended=True))
