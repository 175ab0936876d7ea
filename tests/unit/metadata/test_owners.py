"""Two applications of one name keep apart, and each finds its own records again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mooring.metadata import FileMetadataStore, LocalFileTree
from mooring.metadata.owners import SILENT_AFTER_SECONDS, Claim, Owner, OwnerNotes, choose
from mooring.testing.probes import wait_until
from tests.unit.metadata.applications import LONG_AGO, App, let_it_be_old, status_in


def claim(*checkpoints: str, age: float = 1.0, ended: bool = False) -> Claim:
    return Claim(1, Owner("app", "host", checkpoints, ended), NOW - age)


NOW = 1_000_000.0


def works_on_mine(owner: Owner) -> bool:
    return owner.works_on("mine")


def now() -> float:
    return NOW


def not_asked() -> float:
    raise AssertionError("the clock of the storage costs a write")


@pytest.mark.parametrize(
    ("places", "chosen"),
    [
        ([None], 0),
        ([claim("mine"), None], 0),
        ([claim("mine", age=LONG_AGO), None], 0),
        ([claim("mine", ended=True), None], 0),
        ([claim("other", ended=True), None], 0),
        ([claim("other", ended=True), claim("mine"), None], 1),
        ([claim("mine", age=9), claim("mine", age=3), None], 1),
        ([claim("mine", age=3), claim("mine", age=9, ended=True), None], 0),
    ],
)
def test_a_place_is_chosen_by_the_checkpoint_without_a_look_at_the_clock(
    places: list[Claim | None], chosen: int
) -> None:
    assert choose(places, works_on_mine, not_asked) == chosen


@pytest.mark.parametrize(
    ("places", "chosen"),
    [
        ([claim("other"), None], 1),
        ([claim("other", age=SILENT_AFTER_SECONDS - 1), None], 1),
        ([claim("other", age=SILENT_AFTER_SECONDS + 1), None], 0),
        ([claim("other"), claim("third"), None], 2),
        ([claim("other"), claim("third", age=LONG_AGO), None], 1),
        ([claim("other", age=-LONG_AGO), None], 1),  # another host's clock, in a storage that shows it
    ],
)
def test_a_place_of_other_checkpoints_is_free_once_its_owner_is_silent(places: list[Claim | None], chosen: int) -> None:
    assert choose(places, works_on_mine, now) == chosen


def test_a_trailing_slash_makes_no_other_checkpoint() -> None:
    owner = Owner("app", "host", ()).with_checkpoints(["file:/ck/a/", "file:/ck/b"])
    assert owner.works_on("file:/ck/a") and owner.works_on("file:/ck/b/") and not owner.works_on("file:/ck")


def test_of_very_many_checkpoints_the_newest_are_kept() -> None:
    owner = Owner("app", "host", ()).with_checkpoints([str(number) for number in range(1_000)])
    assert len(owner.checkpoints) == 100 and owner.works_on("999") and not owner.works_on("0")


def test_the_second_living_application_of_a_name_keeps_its_records_apart(
    start: Callable[..., App], place: Path
) -> None:
    first, second = start("app-1", "file:/two/ckpt-a"), start("app-2", "file:/two/ckpt-b")
    first.put("of a")
    second.put("of b")
    assert status_in(place) == b"of a" and status_in(place / "application-2") == b"of b"
    assert first.told == [(str(place), None)]
    ((own, others),) = second.told
    assert own == str(place / "application-2") and others is not None and others.owner.application == "app-1"


def test_each_finds_its_own_records_again_in_whatever_order_they_start(start: Callable[..., App], place: Path) -> None:
    for name, checkpoint in (("app-1", "a"), ("app-2", "b")):
        start(name, checkpoint).put(f"of {checkpoint}")
    let_it_be_old(place)  # both were killed
    let_it_be_old(place / "application-2")
    assert start("app-4", "b").store.get("status") == b"of b"
    assert start("app-3", "a").store.get("status") == b"of a"


def test_a_restart_right_after_a_crash_finds_its_records_while_the_note_is_fresh(start: Callable[..., App]) -> None:
    start("app-1", "a").put("of a")
    again = start("app-2", "a")
    assert again.store.get("status") == b"of a" and again.told[0][1] is None


@pytest.mark.parametrize(("started_ms", "is_same"), [(17, True), (18, False), (0, False)])
def test_a_driver_is_known_by_its_id_its_host_and_its_start(started_ms: int, is_same: bool) -> None:
    owner = Owner("app", "host", ("first",), started_ms=started_ms)
    assert owner.is_of_driver(Owner("app", "host", ("second",), started_ms=17)) is is_same
    assert not owner.is_of_driver(Owner("app", "another host", ("first",), started_ms=started_ms))


def test_another_job_takes_the_place_of_one_that_has_ended(start: Callable[..., App], place: Path) -> None:
    first = start("app-1", "a")
    first.put("of a")
    first.tree.end()
    second = start("app-2", "b")
    second.put("of b")
    assert status_in(place) == b"of b" and not (place / "application-2").exists()


def test_an_application_is_found_by_each_of_its_queries(start: Callable[..., App]) -> None:
    first = start("app-1", "a")
    first.put("of a and b")
    first.tree.works_on("b")
    first.tree.renew()
    assert start("app-2", "b").store.get("status") == b"of a and b"


def test_records_without_a_note_are_another_applications_as_long_as_it_writes_its_status(
    start: Callable[..., App], place: Path
) -> None:
    status = {"application": "app-0", "queries": [{"checkpoint": "file:/ck/a"}]}
    FileMetadataStore(str(place)).put("status", json.dumps(status).encode())
    stranger = start("app-1", "file:/ck/b")
    stranger.put("of b")
    assert status_in(place / "application-2") == b"of b"
    assert stranger.told[0][1] is not None and stranger.told[0][1].owner.application == "app-0"
    same = start("app-2", "file:/ck/a")  # the same job, after an upgrade
    same.put("of a")
    assert status_in(place) == b"of a"


def test_records_without_a_note_are_free_when_their_application_is_silent(
    start: Callable[..., App], place: Path
) -> None:
    status = {"application": "app-0", "queries": [{"checkpoint": "file:/ck/a"}]}
    FileMetadataStore(str(place)).put("status", json.dumps(status).encode())
    let_it_be_old(place)
    start("app-1", "file:/ck/b").put("of b")
    assert status_in(place) == b"of b"


def test_of_many_applications_that_start_at_one_moment_no_two_have_one_place(place: Path) -> None:
    apps = [App(place, f"app-{number}", f"ckpt-{number}") for number in range(8)]
    together = threading.Barrier(len(apps))

    def begin(app: App) -> None:
        together.wait()
        app.put(app.told[0][0] if app.told else "begun")

    with ThreadPoolExecutor(len(apps)) as threads:
        list(threads.map(begin, apps))
    assert len({app.told[0][0] for app in apps}) == len(apps)
    for app in apps:
        app.tree.end()


def test_two_applications_do_not_both_take_the_place_of_a_killed_one(place: Path) -> None:
    notes = OwnerNotes(LocalFileTree(str(place)))
    assert notes.take(1, Owner("killed", "host", ("a",)))
    assert notes.take(2, Owner("app-1", "host", ("b",)))
    assert not notes.take(2, Owner("app-2", "host", ("c",)))
    newest = notes.newest()
    assert newest is not None and newest.owner.application == "app-1"


def test_an_application_taken_for_dead_writes_no_more_until_the_other_is_silent(
    start: Callable[..., App], place: Path
) -> None:
    first = start("app-1", "a")
    first.put("first")
    second = start("app-2", "a")
    second.put("second")
    first.tree.renew()
    first.tree.renew()
    assert not first.tree.holds and len(first.said) == 1 and "application app-2 on 10.0.0.7" in first.said[0]
    let_it_be_old(place)
    first.tree.renew()
    assert first.tree.holds


def test_the_note_is_renewed_while_the_application_runs(start: Callable[..., App], place: Path) -> None:
    start("app-1", "a", every_seconds=0.05).put("of a")
    let_it_be_old(place)
    (note,) = place.glob("k-owners*")
    wait_until(lambda: time.time() - note.stat().st_mtime < LONG_AGO / 2, "a renewal", 10)


def test_a_checkpoint_that_no_renewal_has_told_is_in_the_note_of_the_end(
    start: Callable[..., App], place: Path
) -> None:
    app = start("app-1", "a")
    app.put("of a and b")
    app.tree.works_on("b")
    app.tree.end()
    note = OwnerNotes(LocalFileTree(str(place))).newest()
    assert note is not None and note.owner.has_ended and note.owner.checkpoints == ("a", "b")


def test_an_application_that_lost_its_place_to_a_job_of_other_checkpoints_takes_another(
    start: Callable[..., App], place: Path
) -> None:
    first = start("app-1", "a")
    first.put("of a")
    let_it_be_old(place)  # say its process was stopped
    second = start("app-2", "b")
    second.put("of b")
    first.tree.works_on("a-2")
    first.tree.renew()
    first.put("of a, again")
    second.tree.renew()
    own = place / "application-2"
    assert (status_in(place), status_in(own)) == (b"of b", b"of a, again")
    assert first.tree.holds and first.tree.moves == 1 and second.tree.holds and second.tree.moves == 0
    assert first.told == [(str(place), None), (str(own), None)]
    (line,) = first.said
    assert "application app-2 on 10.0.0.7, which works on other checkpoints, has taken" in line
    assert f" in {place}," in line and f" in {own} from now on" in line
    note = OwnerNotes(LocalFileTree(str(own))).newest()
    assert note is not None and note.owner.checkpoints == ("a", "a-2")
    first.tree.end()
    assert start("app-3", "a").store.get("status") == b"of a, again"


def test_an_application_that_could_not_renew_its_note_for_long_looks_before_it_writes(
    start: Callable[..., App], place: Path
) -> None:
    first = start("app-1", "a")
    first.put("of a")
    let_it_be_old(place)
    start("app-2", "b").put("of b")
    first.clock = SILENT_AFTER_SECONDS
    first.put("of a, again")
    assert (status_in(place), status_in(place / "application-2")) == (b"of b", b"of a, again")
