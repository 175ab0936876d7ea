"""Whose records lie in a directory: notes of the applications that keep theirs there, and the rule who may.

A name is no identity: two applications may bear the same. What tells a job from others is its checkpoints, as no two
applications can work on one. So an application finds its records by the checkpoint of its first query, also after a
crash; and it takes no directory whose owner works on other checkpoints, unless that owner has ended, or is silent.

Notes are numbered, and the newest counts: who takes a directory over creates the next one, and of two that try only one
can. The owner renews its note. Its age is told by the clock of the storage, not by those of two hosts.
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
"""Three renewals may come late."""

_STATUS: Final = "status"
_MOST_CHECKPOINTS: Final = 100


@dataclass(frozen=True, slots=True)
class Owner:
    """An application that keeps its records in a directory; `checkpoints` of its queries, the newest last."""

    application: str
    host: str
    checkpoints: tuple[str, ...]
    has_ended: bool = False

    def works_on(self, checkpoint: str) -> bool:
        """Whether one of its queries has this checkpoint."""
        return _plain(checkpoint) in self.checkpoints

    def with_checkpoints(self, more: Sequence[str]) -> Owner:
        """The same with these as well; of very many the oldest are left out."""
        all_of_them = dict.fromkeys((*self.checkpoints, *map(_plain, more)))
        return replace(self, checkpoints=tuple(all_of_them)[-_MOST_CHECKPOINTS:])

    def as_json(self) -> bytes:
        """What its note holds."""
        form = {"application": self.application, "host": self.host, "checkpoints": list(self.checkpoints)}
        return json.dumps({**form, "ended": self.has_ended}).encode()


@dataclass(frozen=True, slots=True)
class Claim:
    """The newest note of a directory, written at that time by the clock of the storage, in seconds since 1970.

    `number` is 0 where records lie without a note: of an older version of Mooring.
    """

    number: int
    owner: Owner
    written_at: float

    def lives(self, now: Callable[[], float]) -> bool:
        """Whether its owner runs, as far as the note tells; `now` by the clock of the storage is asked if need be."""
        return not self.owner.has_ended and now() - self.written_at < SILENT_AFTER_SECONDS


def choose(places: Sequence[Claim | None], checkpoint: str, now: Callable[[], float]) -> int:
    """Which of these directories an application takes, by the checkpoint of its first query.

    Its own, and of several the one that was used last; else the first that is free. The last of them is None, which
    stands for a directory that nobody has used. `now` is asked where it matters whether another application runs.
    """
    own = {
        claim.written_at: number for number, claim in enumerate(places) if claim and claim.owner.works_on(checkpoint)
    }
    if own:
        return own[max(own)]
    return next(number for number, claim in enumerate(places) if claim is None or not claim.lives(now))


class OwnerNotes:
    """The notes of one directory. Storage that does not answer raises MetadataStoreError."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree

    def newest(self) -> Claim | None:
        """The note that counts; None where nobody keeps records."""
        entries = self._tree.list()
        numbered = {number: entry for entry in entries if (number := _number_of(entry.name)) is not None}
        if not numbered:
            return self._of_older_version(entries)
        number = max(numbered)
        return Claim(number, self._read(number), numbered[number].modified_seconds)

    def number(self) -> int:
        """The number of the note that counts; 0 for none."""
        numbers = (_number_of(entry.name) for entry in self._tree.list())
        return max((number for number in numbers if number is not None), default=0)

    def take(self, number: int, owner: Owner) -> bool:
        """Become the owner by the note of this number, which follows the newest one; False when another was faster."""
        if not self._tree.create(_name(number), self._packed(number, owner)):
            return False
        if number > 1:
            self._tree.delete(_name(number - 1))
        return True

    def renew(self, number: int, owner: Owner) -> None:
        """Write the own note again."""
        self._tree.write_atomic(_name(number), self._packed(number, owner))

    def _packed(self, number: int, owner: Owner) -> bytes:
        return pack(f"{OWNERS}{number}", owner.as_json())

    def _read(self, number: int) -> Owner:
        """Who has written a note; nobody that is known where it makes no sense."""
        try:
            form = json.loads(self._content(_name(number)) or b"{}")
            checkpoints = tuple(map(str, form["checkpoints"]))
            return Owner(str(form["application"]), str(form["host"]), checkpoints, bool(form["ended"]))
        except (ValueError, KeyError, TypeError):
            return Owner("an unknown application", "an unknown host", ())

    def _of_older_version(self, entries: Sequence[FileEntry]) -> Claim | None:
        """What the status tells that an application of an older version writes."""
        entry = next((one for one in entries if one.name == file_name(_STATUS)), None)
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
        """What the clock of the storage shows, in seconds since 1970: a file that is written now tells it."""
        probe = f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        self._tree.write_atomic(probe, b"")
        try:
            shown = next((one.modified_seconds for one in self._tree.list() if one.name == probe), None)
        finally:
            self._tree.delete(probe)
        if shown is None:
            raise MetadataStoreUnavailable(f"{self._tree.place} does not show a file that was written just now")
        return shown


def _name(number: int) -> str:
    return file_name(f"{OWNERS}{number}")


def _number_of(name: str) -> int | None:
    key = key_of(name)
    text = key.removeprefix(OWNERS) if key is not None and key.startswith(OWNERS) else ""
    return int(text) if text.isdecimal() else None


def _plain(checkpoint: str) -> str:
    return checkpoint.rstrip("/")
