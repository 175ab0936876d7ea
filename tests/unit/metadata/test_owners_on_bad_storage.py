"""An application keeps its place on storage that hangs, fails, or gives no answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable, OutcomeUnknown
from mooring.metadata import FileMetadataStore, LocalFileTree
from mooring.metadata.owned_tree import OwnedTree
from mooring.metadata.owners import Claim, Owner
from mooring.metadata.tree import FileEntry
from tests.unit.metadata.applications import App, let_it_be_old, status_in


def test_storage_that_does_not_answer_is_asked_again(place: Path) -> None:
    class Away(LocalFileTree):
        is_away = True

        def create(self, name: str, data: bytes) -> bool:
            if self.is_away:
                raise MetadataStoreUnavailable("the bucket does not answer")
            return super().create(name, data)

    told: list[tuple[str, Claim | None]] = []
    tree = OwnedTree(Away, str(place), Owner("app", "host", ("a",)), lambda *one: told.append(one), told.append)  # type: ignore[arg-type]
    store = FileMetadataStore(tree)
    with pytest.raises(MetadataStoreError, match="does not answer"):
        store.get("status")
    Away.is_away = False
    assert store.get("status") is None and told == [(str(place), None)]
    tree.end()


def test_a_note_that_makes_no_sense_keeps_others_away_while_it_is_fresh(start: Callable[..., App], place: Path) -> None:
    start("app-1", "a").put("of a")
    (note,) = place.glob("k-owners*")
    note.write_bytes(b"half a no")
    start("app-2", "b").put("of b")
    assert status_in(place) == b"of a" and status_in(place / "application-2") == b"of b"


class Hanging(LocalFileTree):
    """A directory whose storage does not answer from `hangs` on, until `answers`."""

    hangs: threading.Event
    answers: threading.Event
    is_asked: threading.Event

    def list(self) -> list[FileEntry]:
        if self.hangs.is_set():
            self.is_asked.set()
            self.answers.wait(20)
        return super().list()


@pytest.fixture
def hanging() -> Iterator[type[Hanging]]:
    class One(Hanging):
        hangs, answers, is_asked = threading.Event(), threading.Event(), threading.Event()

    yield One
    One.answers.set()


def test_storage_that_hangs_holds_up_neither_a_query_that_starts_nor_the_end(
    start: Callable[..., App], hanging: type[Hanging]
) -> None:
    app = start("app-1", "a", every_seconds=0.01, open_tree=hanging)
    app.put("of a")
    hanging.hangs.set()
    assert hanging.is_asked.wait(10), "the note is being renewed"
    begun = time.monotonic()
    app.tree.works_on("b")
    assert time.monotonic() - begun < 0.5
    app.tree.end()
    assert time.monotonic() - begun < 5 and not hanging.answers.is_set()


def test_storage_that_hangs_from_the_start_holds_up_neither(start: Callable[..., App], hanging: type[Hanging]) -> None:
    hanging.hangs.set()
    app = start("app-1", "a", open_tree=hanging)
    asking = threading.Thread(target=app.put, args=["of a"], daemon=True)
    asking.start()
    assert hanging.is_asked.wait(10)
    begun = time.monotonic()
    app.tree.works_on("b")
    app.tree.end()
    assert time.monotonic() - begun < 0.5 and asking.is_alive()
    hanging.answers.set()
    asking.join(10)


def test_a_place_that_can_not_be_taken_at_once_is_taken_with_the_next_use(
    start: Callable[..., App], place: Path
) -> None:
    class Sometimes(LocalFileTree):
        is_away = False

        def create(self, name: str, data: bytes) -> bool:
            if self.is_away:
                raise MetadataStoreUnavailable("the bucket does not answer")
            return super().create(name, data)

    first = start("app-1", "a", open_tree=Sometimes)
    first.put("of a")
    let_it_be_old(place)
    start("app-2", "b").put("of b")
    Sometimes.is_away = True
    with pytest.raises(MetadataStoreError, match="does not answer"):
        first.tree.renew()
    with pytest.raises(MetadataStoreError, match="does not answer"):
        first.put("of a, again")
    assert first.tree.moves == 0 and not first.said and status_in(place) == b"of b"
    Sometimes.is_away = False
    first.put("of a, again")
    assert first.tree.moves == 1 and len(first.said) == 1
    assert (status_in(place), status_in(place / "application-2")) == (b"of b", b"of a, again")


def test_a_note_whose_write_got_no_answer_is_known_as_the_own(start: Callable[..., App], place: Path) -> None:
    class Silent(LocalFileTree):
        is_silent = False

        def create(self, name: str, data: bytes) -> bool:
            made = super().create(name, data)
            if self.is_silent:
                raise OutcomeUnknown("no answer came")
            return made

    first = start("app-1", "a", open_tree=Silent)
    first.put("first")
    second = start("app-2", "a")
    second.put("second")
    first.tree.renew()
    assert not first.tree.holds
    second.tree.end()
    Silent.is_silent = True
    with pytest.raises(OutcomeUnknown):
        first.tree.renew()
    first.tree.renew()
    assert first.tree.holds and len(first.said) == 1
    first.tree.renew()
    assert first.tree.holds


def test_a_listing_that_is_kept_until_the_directory_changes_makes_no_owner_look_silent(
    start: Callable[..., App], place: Path
) -> None:
    """As of a network file system that caches what a directory has until this host writes to it."""

    class Cached(LocalFileTree):
        kept: ClassVar[dict[str, list[FileEntry]]] = {}

        def list(self) -> list[FileEntry]:
            return self.kept.setdefault(self.place, super().list())

        def write_atomic(self, name: str, data: bytes) -> None:
            self.kept.pop(self.place, None)
            super().write_atomic(name, data)

        def delete(self, name: str) -> None:
            self.kept.pop(self.place, None)
            super().delete(name)

    first, second = start("app-1", "a"), start("app-2", "b")
    first.put("of a")
    second.put("of b")
    for at in (place, place / "application-2"):
        let_it_be_old(at)
        Cached(str(at)).list()
    first.tree.renew()
    second.tree.renew()
    start("app-3", "c", open_tree=Cached).put("of c")
    assert [status_in(place / at) for at in ("", "application-2", "application-3")] == [b"of a", b"of b", b"of c"]
