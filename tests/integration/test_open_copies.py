"""An open copy of a state store, and the provider that takes it over: in one JVM, on a real checkpoint directory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.support.host_store import SharedHostStore
from tests.integration.support.store_with_open_copy import STATE_SHIMS, Store, scala_object, session_with_undo

pytestmark = pytest.mark.one_jvm

CONF = {
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "4",
    "spark.sql.streaming.minBatchesToRetain": "12",
}
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in (1, 2))]


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    with session_with_undo(jvm, "copies", CONF) as session:
        yield session


@pytest.fixture
def store(jvm: Any, session: Any, tmp_path: Path) -> Iterator[Store]:
    """With four versions, and an open copy of the third."""
    store = Store(jvm, session, tmp_path)
    for _ in range(4):
        store.commit()
    store.copy(3)
    yield store
    store.close()


def begin_a_copy_with_version_4(store: Store) -> None:
    """The owner uploads the snapshot of version 4. The copy, of version 5, is opened anew from that snapshot."""
    store.upload_snapshot()
    store.commit()
    store.commit()
    store.copy(5)


@pytest.mark.parametrize("version", [3, 4, 6])
def test_a_copy_is_advanced_by_the_changelogs_that_it_has_missed(store: Store, version: int) -> None:
    store.commit()
    store.commit()
    for copied in (1, 2, 3):
        store.changelog(copied).unlink()  # opening the store anew would need these as well
    assert store.taken_over(version) == store.values[version]


@pytest.mark.parametrize("version", [1, 2])
def test_a_copy_of_a_later_version_is_discarded(store: Store, version: int) -> None:
    assert store.taken_over(version) == store.values[version]


def test_a_copy_that_builds_on_an_older_snapshot_than_its_owner_is_discarded(store: Store) -> None:
    store.commit(with_snapshot=True)
    store.commit()
    store.changelog(4).unlink()  # advancing the copy would need this
    assert store.taken_over(6) == store.values[6]


def test_a_copy_that_has_missed_the_version_of_a_snapshot_is_advanced_at_the_take_over(store: Store) -> None:
    store.upload_snapshot()  # of version 4
    store.commit()
    assert store.versions_named_by(5) == [4], "the snapshot's version is the first one"
    assert store.taken_over(5) == store.values[5] and store.began_with == 0


@pytest.mark.parametrize(("copied", "version", "began_with"), [(8, 13, 4), (10, 13, 4), (8, 14, 4), (11, 13, 8)])
def test_a_copy_is_advanced_past_snapshots_of_its_owner(
    store: Store, copied: int, version: int, began_with: int
) -> None:
    """Twelve versions are retained. A copy whose snapshot is older than six versions is opened anew."""
    begin_a_copy_with_version_4(store)
    for _ in range(3):
        store.commit()
    store.copy(8)  # was advanced
    store.upload_snapshot()  # of version 8
    store.commit_until(version)
    if copied > 8:
        store.copy(copied)
    assert store.taken_over(version) == store.values[version] and store.began_with == began_with


def test_a_copy_that_began_with_the_empty_store_is_opened_anew_from_a_later_snapshot(store: Store) -> None:
    store.commit_until(9)
    store.copy(8)  # was advanced
    store.upload_snapshot()  # of version 8
    store.commit()
    store.commit()
    store.copy(10)
    assert store.taken_over(11) == store.values[11] and store.began_with == 8


def test_a_copy_that_was_advanced_past_a_snapshot_of_its_owner_makes_a_snapshot_that_stock_can_open(
    store: Store,
) -> None:
    begin_a_copy_with_version_4(store)
    for _ in range(3):
        store.commit()
    store.copy(8)
    store.upload_snapshot()
    store.commit()
    store.commit()
    store.copy_becomes_owner()
    store.commit(with_snapshot=True)
    store.commit()
    assert store.opened_from_the_checkpoint(12) == store.values[12]


@pytest.mark.parametrize("is_forced", [True, False])
@pytest.mark.parametrize(("copied", "names_old_files"), [(8, True), (20, False)])
def test_the_next_snapshot_of_a_copy_names_no_files_that_may_be_removed_by_then(
    store: Store, copied: int, names_old_files: bool, is_forced: bool
) -> None:
    """Twelve versions are retained. Files of a base that is older than nine versions may be removed soon."""
    begin_a_copy_with_version_4(store)
    store.commit_until(copied + 1)
    store.copy(copied)  # was advanced
    store.upload_snapshot()  # later changelogs name no version before it
    store.commit()
    before = {file.name for file in store.checkpoint.glob("SSTs/*.sst")}
    store.copy_becomes_owner()
    store.commit(is_forced)
    store.upload_snapshot()
    if not is_forced and names_old_files:  # in the other cases the snapshot was made at once
        store.commit_until(12, uploading=True)
    assert store.owners_base() == 4
    assert bool(before & store.files_of_snapshot(len(store.ids) - 1)) == names_old_files
    store.commit()
    for file in before if not names_old_files else ():
        (store.checkpoint / "SSTs" / file).unlink(missing_ok=True)
    store.changelog(1).unlink(missing_ok=True)  # with it, Spark could replay all changelogs instead
    last = len(store.ids) - 1
    assert store.opened_from_the_checkpoint(last) == store.values[last]


@pytest.mark.parametrize(("retained", "uploaded", "snapshots_at"), [(40, 12, [16]), (40, 8, [16]), (14, 12, [15, 16])])
def test_the_next_snapshot_of_a_copy_is_due_when_its_owners_would_have_been(
    jvm: Any, session: Any, tmp_path: Path, retained: int, uploaded: int, snapshots_at: list[int]
) -> None:
    """Whether or not the owner's last one was uploaded. At once, where the base's files may be removed by then."""
    with closing(_store_that_retains(retained, jvm, session, tmp_path)) as store:
        store.upload_snapshot()  # of version 4
        store.commit_until(6)
        store.copy(5)
        store.commit_until(11)
        store.copy(10)  # was advanced
        if uploaded == 8:
            store.upload_snapshot()
        store.commit_until(13)
        store.copy(12)
        if uploaded == 12:
            store.upload_snapshot()
        store.commit_until(14)
        store.copy_becomes_owner()
        store.commit_until(16, uploading=True)
        assert store.owners_base() == 4
        assert [version for version in store.snapshots() if version >= 13] == snapshots_at
        assert store.opened_from_the_checkpoint(16) == store.values[16]


def test_the_first_snapshot_of_a_copy_is_due_when_its_owners_would_have_been(
    jvm: Any, session: Any, tmp_path: Path
) -> None:
    """The owner has made the snapshot of version 4, and has not uploaded it."""
    with closing(_store_that_retains(12, jvm, session, tmp_path)) as store:
        store.commit()
        store.copy(4)
        store.copy_becomes_owner()
        store.commit_until(8, uploading=True)
        assert store.owners_base() == 0
        assert store.snapshots() == [8]


def test_a_copy_that_takes_over_names_no_version_before_the_snapshot_that_it_began_with(
    jvm: Any, session: Any, tmp_path: Path
) -> None:
    """The owner uploaded that snapshot when it wrote no more. Each such owner would lengthen the changelogs."""
    with closing(_store_that_retains(12, jvm, session, tmp_path)) as store:
        store.commit()
        store.upload_snapshot()  # of version 4
        assert store.versions_named_by(5) == [1, 2, 3, 4]
        store.copy(4)
        store.copy_becomes_owner()
        store.commit()
        store.commit()
        assert (
            store.owners_base() == 4
            and store.versions_named_by(6) == [4, 5]
            and store.versions_named_by(7) == [4, 5, 6]
        )
        store.changelog(1).unlink()
        assert store.opened_from_the_checkpoint(7) == store.values[7]


def test_a_host_fetches_the_newest_snapshot_where_changelogs_do_not_begin_with_one(
    jvm: Any, session: Any, kept: Any, tmp_path: Path
) -> None:
    with closing(_store_that_retains(12, jvm, session, tmp_path)) as store:
        store.commit()
        store.upload_snapshot()  # of version 4
        store.changelog(1).unlink()  # as Spark removes it in the end
        fetched = store.files_fetched_by(kept, 5)
        assert fetched.contains(f"4_{store.ids[4]}.zip") and fetched.contains(store.changelog(5).name)


def _store_that_retains(versions: int, jvm: Any, session: Any, directory: Path) -> Store:
    """A store with four versions, whose checkpoint retains so many versions."""
    other = session.newSession()
    other.conf().set("spark.sql.streaming.minBatchesToRetain", str(versions))
    store = Store(jvm, other, directory)
    store.commit_until(4)
    return store


def test_changes_are_written_in_the_order_of_their_keys(jvm: Any) -> None:
    """Changes of one key keep their order. Keys as in Spark: two families, long numbers, words of several lengths."""
    draw = random.Random(7)
    words = [b"w" * draw.randrange(20) + b"%d" % draw.randrange(300) for _ in range(500)]
    keys = [b"\0%c" % draw.randrange(2) + bytes(8) + draw.randbytes(draw.choice([4, 8])) for _ in range(500)]
    for drawn in ([], [b""], [b"a", b"a", b""], words, keys, words + keys):
        given = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("[B"), len(drawn))
        for place, key in enumerate(drawn):
            given[place] = key
        order = list(scala_object(jvm, f"{STATE_SHIMS}.Replay").order(given))
        assert order == sorted(range(len(drawn)), key=lambda place: (drawn[place], place))


def test_a_copy_of_another_attempt_at_a_version_is_discarded(store: Store) -> None:
    """The copy is at a version that its owner has written again, as after a failed batch."""
    store.give_up(3)
    store.commit()
    store.commit()
    assert store.taken_over(4) == store.values[4] == b"commit 6"


def test_a_store_stays_open_when_a_task_is_killed_before_it_writes(store: Store) -> None:
    store.copy_becomes_owner()
    assert store.value_after_failed_task(4, is_killed=True) == store.values[4]
    store.commit()
    assert store.opened_from_the_checkpoint(5) == store.values[5]
    store.changelog(2).unlink()  # opening the store anew would need this
    assert store.value_after_failed_task(5, is_killed=True) == store.values[5]


def test_a_store_that_is_written_to_after_the_roll_back_is_opened_anew(store: Store) -> None:
    store.copy_becomes_owner()
    assert store.value_after_failed_task(4, is_killed=True, writes_late=True) == store.values[4]


@pytest.mark.parametrize("writes", [True, False])
def test_the_store_of_a_failed_task_is_opened_anew(store: Store, writes: bool) -> None:
    store.copy_becomes_owner()
    assert store.value_after_failed_task(4, is_killed=False, writes=writes) == store.values[4]
    store.changelog(2).unlink()
    with pytest.raises(Py4JJavaError, match=store.changelog(2).name):
        store.value_after_failed_task(4, is_killed=False, writes=writes)


def test_the_writes_of_a_killed_task_are_taken_back(store: Store) -> None:
    store.copy_becomes_owner()
    store.changelog(2).unlink()  # opening the store anew would need this
    assert store.value_after_failed_task(4, is_killed=True, writes=True) == store.values[4]
    store.commit()
    assert store.value_after_failed_task(5, is_killed=True, writes=True) == store.values[5]


@pytest.fixture(params=[False, True], ids=["one family", "column families"])
def large(jvm: Any, session: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    """With ten versions of many keys, and an open copy of the third."""
    store, draw = Store(jvm, session, tmp_path, has_column_families=request.param), random.Random(4)
    for _ in range(10):
        store.commit(draw=draw)
    store.copy(3)
    yield store
    store.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_all_changes_of_a_killed_task_are_taken_back(large: Store, seed: int) -> None:
    """Several times, with commits between."""
    draw = random.Random(seed)
    large.copy_becomes_owner()
    assert large.owners_pairs() == large.pairs[-1]
    large.changelog(2).unlink()  # opening the store anew would need this
    for changes in (1, 7, 200, 7, 1):
        large.killed_after(changes, draw)
        assert large.owners_pairs() == large.pairs[-1]
        large.commit(draw=draw)
    assert large.owners_pairs() == large.pairs[-1]
    large.upload_snapshot()
    last = len(large.ids) - 1
    assert large.opened_from_the_checkpoint(last) == large.values[last]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_whose_changes_can_not_be_taken_back_is_opened_anew(large: Store, seed: int) -> None:
    draw = random.Random(seed)
    large.copy_becomes_owner()
    for changes in (1, 40, 200):
        large.killed_after(changes, draw, deletes_ranges=True)
        assert large.owners_pairs() == large.pairs[-1]
        large.commit(draw=draw)


def test_a_column_family_that_was_removed_and_made_again_counts_as_another_one(
    jvm: Any, session: Any, tmp_path: Path
) -> None:
    with closing(Store(jvm, session, tmp_path, has_column_families=True)) as store:
        for _ in range(4):
            store.commit()
        store.copy(3)
        store.copy_becomes_owner()
        store.killed_after_making_the_family_again()
        assert store.owners_pairs() == store.pairs[-1] and store.owners_value() == store.values[-1]


def test_a_store_with_too_many_changes_to_take_back_is_opened_anew(store: Store) -> None:
    store.copy_becomes_owner()
    store.killed_after(257)
    assert store.owners_pairs() == store.pairs[-1]
    store.changelog(2).unlink()
    store.killed_after(256)
    assert store.owners_pairs() == store.pairs[-1]
    store.killed_after(257)
    with pytest.raises(Py4JJavaError, match=store.changelog(2).name):
        store.owners_pairs()


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_copy_has_all_keys_and_their_number(large: Store, is_counted: bool) -> None:
    for version in (5, 6, 9):
        large.copy(version, is_counted)
    assert large.pairs_taken_over(9) == (large.pairs[9], large.counts[9].keys())


def test_keys_in_changelogs_that_a_copy_has_missed_are_counted(large: Store) -> None:
    large.copy(6, is_counted=True)
    assert large.pairs_taken_over(9) == (large.pairs[9], large.counts[9].keys())


@pytest.fixture
def kept(jvm: Any, tmp_path: Path) -> Iterator[Any]:
    """A host's store, which this executor uses."""
    executors = scala_object(jvm, "io.mooring.localstore.HostStores")
    kept = SharedHostStore(jvm, tmp_path)
    executors.use(jvm.scala.Option.apply(kept.store))
    yield kept.store
    executors.use(jvm.scala.Option.apply(None))


def test_a_copy_that_is_opened_anew_uses_the_owners_number_of_keys(jvm: Any, kept: Any, large: Store) -> None:
    """It begins with the newest snapshot that the host keeps. The owner's number is wrong here, to be recognized."""
    large.upload_snapshot()
    large.commit()
    large.commit()
    large.keep_snapshots(kept.filesOf(large.path).get())
    large.counts[11] = large.key_counts(123)
    large.copy(11, is_counted=True)
    assert large.pairs_taken_over(11) == (large.pairs[11], 123)
