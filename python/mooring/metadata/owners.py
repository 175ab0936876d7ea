"""Notes that name the owner of a directory of records, and the rule by which an application chooses a directory.

Two applications may have the same name, so the name does not identify a job. Its checkpoints do, as no two applications
can work on the same one. So an application finds its records by the checkpoint of its first query, also after a crash.
An agent that is started again in the same driver finds them by the driver, whatever queries run by then.
It takes no directory whose owner works on other checkpoints, unless that owner has ended or its note is old.

Notes are numbered, and the one with the greatest number counts. An application takes a directory by creating the note
with the next number, which only one of several can do. The owner writes its note again and again. A note's age is told
by the clock of the storage alone, because the clocks of two hosts may differ.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mooring.errors import MetadataStoreUnavailable
from mooring.metadata.envelope import MAX_RECORD_BYTES, DamagedRecord, pack, unpack
from mooring.metadata.filename import file_name, key_of
from mooring.metadata.tree import TEMPORARY_PREFIX, FileEntry, FileTree, Unreadable

OWNERS: Final = "owners/"
RENEWED_EVERY_SECONDS: Final = 10.0
SILENT_AFTER_SECONDS: Final = 35.0
"""The age from which a note is old, so its owner counts as dead: three renewals have failed."""

_STATUS: Final = "status"
_MOST_CHECKPOINTS: Final = 100


@dataclass(frozen=True, slots=True)
class Owner:
    """An application that keeps its records in a directory. `checkpoints` are those of its queries, the newest last.

    `started_ms` is when its driver's context began, since 1970; 0 where that is not known.
    """

    application: str
    host: str
    checkpoints: tuple[str, ...]
    has_ended: bool = False
    started_ms: int = 0

    def works_on(self, checkpoint: str) -> bool:
        """Whether one of its queries has this checkpoint."""
        return _plain(checkpoint) in self.checkpoints

    def is_of_driver(self, other: Owner) -> bool:
        """Whether both are agents of one driver. Two clusters may give the same id, so the start counts as well."""
        driver = (self.application, self.host, self.started_ms)
        return self.started_ms > 0 and driver == (other.application, other.host, other.started_ms)

    def with_checkpoints(self, more: Sequence[str]) -> Owner:
        """The same owner with these checkpoints added. At most the newest 100 are kept."""
        all_of_them = dict.fromkeys((*self.checkpoints, *map(_plain, more)))
        return replace(self, checkpoints=tuple(all_of_them)[-_MOST_CHECKPOINTS:])

    def as_json(self) -> bytes:
        """The value of its note."""
        form = {"application": self.application, "host": self.host, "checkpoints": list(self.checkpoints)}
        return json.dumps({**form, "ended": self.has_ended, "started-ms": self.started_ms}).encode()


UNKNOWN_OWNER: Final = Owner("an unknown application", "an unknown host", ())
"""Whoever wrote a note that is damaged: perhaps an application that lives."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The newest note of a directory. `written_at` is in seconds since 1970, by the clock of the storage.

    `number` is 0 where an older version of Mooring has left records without a note.
    """

    number: int
    owner: Owner
    written_at: float

    def lives(self, now: Callable[[], float]) -> bool:
        """Whether its owner is alive. `now` returns the storage's time, and is called only where it matters."""
        return not self.owner.has_ended and now() - self.written_at < SILENT_AFTER_SECONDS


def choose(places: Sequence[Claim | None], is_own: Callable[[Owner], bool], now: Callable[[], float]) -> int:
    """The index of the directory that an application takes. `is_own` says whether an owner's records are its own.

    It takes its own directory, or the one it used last if it has several. Otherwise it takes the first one that is
    free. `places` has the newest note of each directory; the last one is None, for a directory that nobody has used.
    `now` returns the storage's time, and is called only where it matters whether another application is alive.
    """
    own = {claim.written_at: number for number, claim in enumerate(places) if claim and is_own(claim.owner)}
    if own:
        return own[max(own)]
    return next(number for number, claim in enumerate(places) if claim is None or not claim.lives(now))


class OwnerNotes:
    """The notes of one directory. All methods raise MetadataStoreError where the storage does not answer."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree

    def newest(self) -> Claim | None:
        """The note with the greatest number; None where nobody keeps records in this directory."""
        entries = self._tree.list()
        numbered = {number: entry for entry in entries if (number := _number_of(entry.name)) is not None}
        if not numbered:
            return self._of_older_version(entries)
        number = max(numbered)
        return Claim(number, self._read(number), numbered[number].modified_seconds)

    def number(self) -> int:
        """The greatest number of a note; 0 where there is none."""
        numbers = (_number_of(entry.name) for entry in self._tree.list())
        return max((number for number in numbers if number is not None), default=0)

    def take(self, number: int, owner: Owner) -> bool:
        """Create the note of this number, the next one, and delete the one before it; False when another was faster."""
        if not self._tree.create(_name(number), self._packed(number, owner)):
            return False
        if number > 1:
            self._tree.delete(_name(number - 1))
        return True

    def renew(self, number: int, owner: Owner) -> None:
        """Write this application's note again."""
        self._tree.write_atomic(_name(number), self._packed(number, owner))

    def _packed(self, number: int, owner: Owner) -> bytes:
        return pack(f"{OWNERS}{number}", owner.as_json())

    def _read(self, number: int) -> Owner:
        """The owner that a note names; an unknown owner where the note is damaged."""
        try:
            form = json.loads(self._content(_name(number)) or b"{}")
            checkpoints = tuple(map(str, form["checkpoints"]))
            started_ms = int(form.get("started-ms", 0))
            return Owner(str(form["application"]), str(form["host"]), checkpoints, bool(form["ended"]), started_ms)
        except (ValueError, KeyError, TypeError):
            return UNKNOWN_OWNER

    def _of_older_version(self, entries: Sequence[FileEntry]) -> Claim | None:
        """The owner according to the record `status`, where an older version of Mooring has written no note."""
        entry = next((entry for entry in entries if entry.name == file_name(_STATUS)), None)
        if entry is None:
            return None
        try:
            form = json.loads(self._content(entry.name) or b"{}")
            checkpoints = [str(query["checkpoint"]) for query in form["queries"]]
            owner = Owner(
                str(form["application"]),
                "a host that it does not name",
                (),
                has_ended="ended" in form or not checkpoints,
            )
        except (ValueError, KeyError, TypeError):
            return None
        return Claim(0, owner.with_checkpoints(checkpoints), entry.modified_seconds)

    def _content(self, name: str) -> bytes | None:
        data = self._tree.read(name, MAX_RECORD_BYTES)
        if data is None or isinstance(data, Unreadable):
            return None
        try:
            return unpack(data)[1]
        except DamagedRecord:
            return None

    def now(self) -> float:
        """The time by the clock of the storage, in seconds since 1970: the time of a file that is written now."""
        probe = f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        self._tree.write_atomic(probe, b"")
        try:
            written_at = next((entry.modified_seconds for entry in self._tree.list() if entry.name == probe), None)
        finally:
            self._tree.delete(probe)
        if written_at is None:
            raise MetadataStoreUnavailable(f"{self._tree.place} does not show a file that was written just now")
        return written_at


def _name(number: int) -> str:
    return file_name(f"{OWNERS}{number}")


def _number_of(name: str) -> int | None:
    key = key_of(name)
    text = key.removeprefix(OWNERS) if key is not None and key.startswith(OWNERS) else ""
    return int(text) if text.isdecimal() else None


def _plain(checkpoint: str) -> str:
    return checkpoint.rstrip("/")
