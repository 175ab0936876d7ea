"""Gives each application a directory of its own for its records, where several have the same name.

The directories are `place`, `place/application-2`, `place/application-3` and so on. A numbered note in each directory
names its owner; `owners` has the notes and the rule by which a directory is chosen.

Choosing a directory, at the first use:

1. List the directories with their newest notes, up to the first one without a note.
2. Choose one of them (`owners.choose`). Where it matters whether another owner is alive, a probe file is written to
   each of these directories first. Its time is the clock of the storage, and the write drops any cached listing.
3. Create the note with the next number. Of several applications that try, one succeeds; the others begin at step 1.
4. Delete the note before it. A crash between 3 and 4 leaves both notes: the one with the greater number counts.

Afterwards a thread writes the note again every ten seconds, and so renews its time. An application whose note is older
than 35 seconds counts as dead, and another one may create the next note. An owner that finds a newer note (`_renew`):

- It is its own: the storage had created the note but reported an error. It renews this note from now on.
- Its owner is dead: it takes the directory back with the next note.
- Its owner works on a checkpoint of this application: the other one keeps the records, and `holds` is false.
- Otherwise: it chooses another directory, and `moves` is greater by one.

At the end of the application its note says so, and the directory is free at once. After a crash it is free when the
note is old. The records themselves are never removed here.
"""

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
    """A `FileTree` that chooses its directory at its first use, and renews its owner's note there until `end`.

    While the storage does not answer, no directory is chosen, and every use raises MetadataStoreError.
    """

    def __init__(
        self,
        open_tree: Callable[[str], FileTree],
        place: str,
        owner: Owner,
        on_chosen: Callable[[str, Claim | None], None],
        log: Callable[[str], None],
        every_seconds: float = RENEWED_EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`owner` is this application, with the checkpoint of its first query.

        `on_chosen` is called with the chosen directory, and with the note of the living owner of `place` where that is
        another application (else None). `log` gets a sentence when another application takes the directory.
        """
        self._open_tree, self._place = open_tree, place
        self._owner, self._on_chosen, self._log = owner, on_chosen, log
        self._every_seconds, self._clock = every_seconds, clock
        self._checkpoint = owner.checkpoints[0]
        self._lock = threading.RLock()  # held while the storage is asked, so `works_on` must not take it
        self._checkpoints_lock = threading.Lock()
        self._new_checkpoints: list[str] = []
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None
        self._chosen: FileTree | None = None
        self._first = open_tree(place)
        self._number = 0  # the number of this application's note
        self._tried = 0  # the number of the last note that it tried to create in place of another application's
        self._checked_at = 0.0
        self._holds = True
        self._moves = 0
        self._replaced_by = ""
        self._lost: tuple[str, Owner] | None = None  # a directory that was lost, and its new owner

    @property
    def holds(self) -> bool:
        """False while another application, which works on a checkpoint of this one, has the directory."""
        return self._holds

    @property
    def moves(self) -> int:
        """How often another directory was chosen. Records that were written before are not in the present one."""
        return self._moves

    def works_on(self, checkpoint: str) -> None:
        """Add the checkpoint of another query of this application. Returns at once; the next renewal writes it."""
        with self._checkpoints_lock:
            self._new_checkpoints.append(checkpoint)

    def end(self) -> None:
        """Write into the note that the application has ended, so that another one may take the directory at once.

        Returns after a second at most. Where the storage does not answer in that time, others wait until the note is
        old.
        """
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join(_LAST_SECONDS)

    def renew(self) -> None:
        """Write the note again. Where another application has the directory, see the module's docstring."""
        with self._lock:
            if self._ended.is_set():
                return
            if self._chosen is not None:
                self._renew(self._chosen)
                self._checked_at = self._clock()
            elif self._lost is not None:
                self._choose()

    @property
    def place(self) -> str:
        """The directory, for messages."""
        return (self._chosen or self._first).place

    @property
    def reads_at_once(self) -> int:
        """See `FileTree`; the same for all directories."""
        return self._first.reads_at_once

    def stamp(self) -> object:
        """See `FileTree`."""
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
        """The directory. A note that may soon count as old is renewed first: another may have taken the directory."""
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
        self._add_new_checkpoints()
        notes = OwnerNotes(chosen)
        newest = notes.number()
        if newest <= self._number:
            notes.renew(self._number, self._owner)
            return
        now = notes.now()  # before the note is read: a cached listing would make the note look older
        other = notes.newest()
        if other is not None and other.number == self._tried and self._is_own(other.owner):
            self._number, self._holds = self._tried, True
            notes.renew(self._number, self._owner)
        elif other is None or not other.lives(lambda: now):
            self._tried = newest + 1 if other is None else other.number + 1
            self._holds = notes.take(self._tried, self._owner)
            self._number = self._tried if self._holds else self._number
        elif any(map(other.owner.works_on, self._owner.checkpoints)):
            self._give_up(chosen, other.owner)
        else:
            self._lost, self._chosen = (chosen.place, other.owner), None
            self._choose()

    def _give_up(self, chosen: FileTree, other: Owner) -> None:
        """Leave the directory to another application, which works on a checkpoint of this one."""
        self._holds = False
        if self._replaced_by != other.application:
            self._replaced_by = other.application
            self._log(
                f"application {other.application} on {other.host} works on a checkpoint of this"
                f" one: it keeps the records in {chosen.place} from now on, and this one's are not kept"
            )

    def _is_own(self, owner: Owner) -> bool:
        return (owner.application, owner.host) == (self._owner.application, self._owner.host)

    def _has_records_of(self, owner: Owner) -> bool:
        """Whether the records of this owner are this application's, from an earlier agent or an earlier run."""
        return self._owner.is_of_driver(owner) or owner.works_on(self._checkpoint)

    def _add_new_checkpoints(self) -> None:
        with self._checkpoints_lock:
            added, self._new_checkpoints = self._new_checkpoints, []
        self._owner = self._owner.with_checkpoints(added)

    def _choose(self) -> FileTree:
        self._add_new_checkpoints()
        for _ in range(_MOST_RACES):
            if (found := self._find()) is None:
                continue
            tree, before, is_first = found
            owner, number = self._owner, 1 if before is None else before.number + 1
            if before is not None and self._has_records_of(before.owner):
                owner = replace(owner, checkpoints=()).with_checkpoints((*before.owner.checkpoints, *owner.checkpoints))
            owner_of_place = None if is_first or self._lost is not None else self._living(self._first)
            if OwnerNotes(tree).take(number, owner):
                self._owner, self._number = owner, number
                self._use(tree, owner_of_place)
                return tree
        raise MetadataStoreUnavailable(f"{self._place}: other applications took each place before this one could")

    def _find(self) -> tuple[FileTree, Claim | None, bool] | None:
        """The directory to take, its newest note, and whether it is `place`; None where the notes changed meanwhile."""
        trees, claims = self._read_notes()
        now = 0.0
        if not any(claim is not None and self._has_records_of(claim.owner) for claim in claims):
            now, claims = self._clock_and_notes(trees, claims)
            if claims[-1] is not None:
                return None
        number = choose(claims, self._has_records_of, lambda: now)
        return trees[number], claims[number], number == 0

    def _use(self, tree: FileTree, owner_of_place: Claim | None) -> None:
        """Use this directory from now on, and start the thread that renews the note."""
        self._chosen, self._checked_at = tree, self._clock()
        self._holds, self._replaced_by = True, ""
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._keep_renewing, name="mooring-owner", daemon=True)
            self._renewing.start()
        if self._lost is not None:
            (place, other), self._lost = self._lost, None
            self._moves += 1
            self._log(
                f"application {other.application} on {other.host}, which works on other checkpoints, has taken the"
                f" records in {place}, as this application had not renewed its note there for long: this one keeps its"
                f" own in {tree.place} from now on"
            )
        self._on_chosen(tree.place, owner_of_place)

    def _read_notes(self) -> tuple[_Trees, _Claims]:
        """The directories and their newest notes, up to the first directory without a note, whose note is None."""
        trees = [self._first]
        claims = [OwnerNotes(self._first).newest()]
        while claims[-1] is not None:
            if len(trees) == _MOST_PLACES:
                raise MetadataStoreUnavailable(f"{self._place}: {_MOST_PLACES} applications keep records there already")
            trees.append(self._open_tree(f"{self._place.rstrip('/')}/application-{len(trees) + 1}"))
            claims.append(OwnerNotes(trees[-1]).newest())
        return trees, claims

    def _clock_and_notes(self, trees: _Trees, claims: _Claims) -> tuple[float, _Claims]:
        """The time by the clock of the storage, in seconds since 1970, and the notes as they are after that time.

        The clock is read by a write to each directory, so that no cached listing shows an older note.
        """
        times = [
            OwnerNotes(tree).now()
            for tree, claim in zip(trees, claims, strict=True)
            if claim and not claim.owner.has_ended
        ]
        return min(times, default=0.0), [OwnerNotes(tree).newest() for tree in trees]

    def _living(self, tree: FileTree) -> Claim | None:
        """The newest note of a directory, where its owner is alive; else None."""
        notes = OwnerNotes(tree)
        now, claim = notes.now(), notes.newest()
        return claim if claim is not None and claim.lives(lambda: now) else None

    def _keep_renewing(self) -> None:
        while not self._ended.wait(self._every_seconds):
            with contextlib.suppress(MetadataStoreError):  # reads and writes of records raise the same error
                self.renew()
        with contextlib.suppress(MetadataStoreError):  # the note then counts as old after 35 seconds
            self._write_that_it_ended()

    def _write_that_it_ended(self) -> None:
        with self._lock:
            if self._chosen is not None and self._holds:
                notes = OwnerNotes(self._chosen)
                if notes.number() == self._number:
                    self._add_new_checkpoints()
                    notes.renew(self._number, replace(self._owner, has_ended=True))
