"""An open copy of a state store, taken over by who runs its task now: in one JVM, on a real checkpoint directory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.kept import Kept

STATE = "org.apache.spark.sql.execution.streaming.state"
DOORS = f"{STATE}.mooring"
CONF = {
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "4",
    "spark.sql.streaming.minBatchesToRetain": "12",
}


@pytest.fixture(scope="module")
def session(jvm: Any) -> Iterator[Any]:
    conf = (
        jvm.org.apache.spark.SparkConf(True).setMaster("local[1]").setAppName("copies").set("spark.ui.enabled", "false")
    )
    context = jvm.org.apache.spark.api.java.JavaSparkContext(conf)
    yield jvm.org.apache.spark.sql.classic.SparkSession(context.sc(), CONF)
    context.stop()


def scala_object(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)


class Store:
    """A state store with one key, whose value each commit changes; and an open copy of it."""

    def __init__(self, jvm: Any, session: Any, directory: Path, has_column_families: bool = False) -> None:
        self._jvm, self._state = jvm, jvm.org.apache.spark.sql.execution.streaming.state
        self._none = jvm.scala.Option.apply(None)
        self._has_column_families = has_column_families
        self.checkpoint = directory / "state" / "0" / "0"
        self.path = jvm.org.apache.hadoop.fs.Path(self.checkpoint.as_uri())
        self._access = scala_object(jvm, f"{DOORS}.CheckpointAccess").of(session)
        self._conf = scala_object(jvm, f"{STATE}.RocksDBConf").apply(self._access.stores())
        working, hadoop = jvm.java.io.File(str(directory / "owner")), self._access.hadoopConf()
        self._owner = self._state.RocksDB(
            self.path.toString(),
            self._conf,
            working,
            hadoop,
            "owner",
            has_column_families,
            True,
            0,
            self._none,
            self._none,
        )
        self._copy = jvm.io.mooring.InstanceOfCopy(self.path, 0, self._access, jvm.java.util.concurrent.Semaphore(1))
        self.ids: list[str | None] = [None]
        self.values = [b""]
        self._commits = 0
        self.pairs: list[dict[bytes, bytes]] = [{}]
        """All keys and values, of each version."""
        self.counts: list[Any] = [None]
        """How many keys the owner says that there are."""
        self.began_with = -1
        """The version of the snapshot that the instance which took over builds on, 0 for the empty store."""

    def commit(self, with_snapshot: bool = False, draw: random.Random | None = None) -> None:
        """The next version, as its owner writes it; with some changes of other keys, if they are to be drawn."""
        self._load(self._owner, len(self.ids) - 1)
        if self._has_column_families:
            self._owner.createColFamilyIfAbsent("default", False)
        self._commits += 1
        self.values.append(f"commit {self._commits}".encode())
        self._owner.put(b"key", self.values[-1], "default", False, False, False)
        pairs = dict(self.pairs[-1])
        for _ in range(50 if draw else 0):
            self._change(pairs, draw)
        self.pairs.append(pairs | {b"key": self.values[-1]})
        self.ids.append(self._owner.commit(with_snapshot)._2().stateStoreCkptId().get())
        metrics = self._owner.metricsOpt().get()
        self.counts.append(self.key_counts(metrics.numCommittedKeys(), metrics.numInternalKeys()))

    def key_counts(self, keys: int, internal: int = 0) -> Any:
        return self._state.mooring.KeyCounts(keys, internal)

    def _change(self, pairs: dict[bytes, bytes], draw: random.Random) -> None:
        """One change, of the kinds that a changelog knows; some values are long, so that there are several batches."""
        number, value = draw.randrange(60), draw.randbytes(draw.choice([8, 40_000]))
        # Of two lengths, and some alike in more than the eight bytes that a copy orders them by.
        key = b"%03d" % number if number % 2 else b"%02d---------%d" % divmod(number, 10)
        kinds = ["put", "remove", "merge", "delete range"] if self._has_column_families else ["put", "remove"]
        kind = draw.choices(kinds, [10, 6, 4, 1][: len(kinds)])[0]
        if kind == "put":
            self._owner.put(key, value, "default", False, False, False)
            pairs[key] = value
        elif kind == "remove":
            self._owner.remove(key, "default", False, False, False)
            pairs.pop(key, None)
        elif kind == "merge":
            self._owner.merge(key, value, "default", False, False, False)
            pairs[key] = pairs.get(key, b"") + value  # without a delimiter, by default
        else:
            end = b"%03d" % (number + draw.randrange(1, 6))
            self._owner.deleteRange(key, end, "default", False, False)
            for gone in [each for each in pairs if key <= each < end]:
                del pairs[gone]

    def give_up(self, version: int) -> None:
        """What was committed from that version on does not count."""
        del self.ids[version:], self.values[version:], self.pairs[version:], self.counts[version:]

    def copy(self, version: int, is_counted: bool = False) -> None:
        """Open a copy at that version, which the next one's changelog names; maybe with its number of keys."""
        files = self._jvm.io.mooring.MooringCheckpointFileManager(self.path, self._access.hadoopConf())
        later = self._jvm.org.apache.hadoop.fs.Path(self.path, self.changelog(version + 1).name)
        lineage = scala_object(self._jvm, f"{DOORS}.StateFiles").lineage(files, later, self._access.codec())
        copied = self._state.mooring.CopiedVersion(
            lineage.versions(),
            self._has_column_families,
            self._jvm.scala.Option.apply(self.counts[version] if is_counted else None),
        )
        assert self._copy.bringTo(copied)

    def keep_snapshots(self, shelf: Any) -> None:
        """This host has fetched all archives that there are."""
        for archive in self.checkpoint.glob("*.zip"):
            path = self._jvm.org.apache.hadoop.fs.Path(archive.as_uri())
            shelf.take(archive.name, path.getFileSystem(self._access.hadoopConf()).open(path))

    def upload_snapshot(self) -> None:
        """As the owner does every minute: later changelogs tell of no version before the snapshot."""
        self._owner.doMaintenance()

    def taken_over(self, version: int) -> bytes:
        """The value of the key, once a provider has taken the copy and loaded that version."""
        taken = self._take()
        try:
            self._load(taken, version)
            self.began_with = _version(taken.beganWith())
            return bytes(taken.get(b"key", "default"))
        finally:
            taken.close()

    def pairs_taken_over(self, version: int) -> tuple[dict[bytes, bytes], int]:
        """All keys and values of that version in a copy that was taken over, and how many it counts."""
        taken = self._take()
        try:
            self._load(taken, version)
            found, pairs = {}, taken.iterator()
            while pairs.hasNext():
                pair = pairs.next()
                found[bytes(pair.key())] = bytes(pair.value())
            taken.commit(False)
            return found, taken.metricsOpt().get().numCommittedKeys()
        finally:
            taken.close()

    def owner_is_the_copy(self) -> None:
        """A provider has taken the copy, and commits from now on."""
        self._owner.close()
        self._owner = self._take()

    def began_with_now(self) -> int:
        """The version of the snapshot that the owner builds on, 0 for the empty store."""
        return _version(self._owner.beganWith())

    def files_of_snapshot(self, version: int) -> set[str]:
        archive = self._jvm.java.io.FileInputStream(str(self.checkpoint / f"{version}_{self.ids[version]}.zip"))
        needed = scala_object(self._jvm, f"{DOORS}.StateFiles").neededBy(archive)
        return {needed.apply(number)._1().rpartition("/")[2] for number in range(needed.size())}

    def opened_from_the_checkpoint(self, version: int) -> bytes:
        """The value of the key, as an instance of stock Spark finds it that has nothing here."""
        working = self._jvm.java.io.File(str(self.checkpoint.parent / "anew"))
        opened = self._state.RocksDB(
            self.path.toString(),
            self._conf,
            working,
            self._access.hadoopConf(),
            "anew",
            self._has_column_families,
            True,
            0,
            self._none,
            self._none,
        )
        try:
            self._load(opened, version)
            return bytes(opened.get(b"key", "default"))
        finally:
            opened.close()

    def opened_again(self, version: int, is_killed: bool, writes: bool = False, writes_late: bool = False) -> bytes:
        """The value of the key when the owner's task has opened the version and failed, and the next one opens it.

        `writes_late`: what the task's Python had begun to write comes after the roll-back.
        """
        contexts = scala_object(self._jvm, "org.apache.spark.TaskContext")
        task = contexts.empty()
        contexts.setTaskContext(task)
        try:
            self._load(self._owner, version)
            if writes:
                self._write()
            if is_killed:
                task.markInterrupted("killed")
            self._owner.rollback()
        finally:
            contexts.unset()
        if writes_late:
            self._write()
        self._load(self._owner, version)
        return bytes(self._owner.get(b"key", "default"))

    def _write(self) -> None:
        self._owner.put(b"key", b"of no version", "default", False, False, False)

    def _take(self) -> Any:
        stores = scala_object(self._jvm, f"{DOORS}.OpenStores")
        return stores.take(self.path.toString(), self._conf, self._has_column_families, True, 0, self._none).get()

    def changelog(self, version: int) -> Path:
        return self.checkpoint / f"{version}_{self.ids[version]}.changelog"

    def close(self) -> None:
        self._copy.close()
        self._owner.close()

    def _load(self, store: Any, version: int) -> None:
        store.load(version, self._jvm.scala.Option.apply(self.ids[version]), False, False)


def _version(snapshot: Any) -> int:
    return snapshot.get()._1() if snapshot.isDefined() else 0


@pytest.fixture
def store(jvm: Any, session: Any, tmp_path: Path) -> Iterator[Store]:
    """With four versions, and an open copy of the third."""
    store = Store(jvm, session, tmp_path)
    for _ in range(4):
        store.commit()
    store.copy(3)
    yield store
    store.close()


@pytest.mark.parametrize("version", [3, 4, 6])
def test_a_copy_goes_on_by_the_changelogs_that_it_has_missed(store: Store, version: int) -> None:
    store.commit()
    store.commit()
    for copied in (1, 2, 3):
        store.changelog(copied).unlink()  # to be opened anew takes these as well
    assert store.taken_over(version) == store.values[version]


@pytest.mark.parametrize("version", [1, 2])
def test_a_copy_of_a_later_version_is_of_no_use(store: Store, version: int) -> None:
    assert store.taken_over(version) == store.values[version]


def test_a_copy_that_builds_on_an_older_snapshot_than_its_owner_is_of_no_use(store: Store) -> None:
    store.commit(with_snapshot=True)
    store.commit()
    store.changelog(4).unlink()  # to go on would take this
    assert store.taken_over(6) == store.values[6]


@pytest.mark.parametrize(("copied", "version", "began_with"), [(8, 13, 4), (10, 13, 4), (8, 14, 4), (11, 13, 8)])
def test_a_copy_outlives_snapshots_of_its_owner(store: Store, copied: int, version: int, began_with: int) -> None:
    """Twelve versions are retained; after six it is opened anew."""
    store.upload_snapshot()  # of version 4
    store.commit()
    store.commit()
    store.copy(5)  # opened anew from that snapshot
    for _ in range(3):
        store.commit()
    store.copy(8)  # went on
    store.upload_snapshot()  # of version 8
    while len(store.ids) <= version:
        store.commit()
    if copied > 8:
        store.copy(copied)
    assert store.taken_over(version) == store.values[version] and store.began_with == began_with


def test_a_copy_that_began_with_the_empty_store_is_opened_anew_from_a_snapshot_in_the_end(store: Store) -> None:
    while len(store.ids) <= 9:
        store.commit()
    store.copy(8)  # went on
    store.upload_snapshot()  # of version 8
    store.commit()
    store.commit()
    store.copy(10)
    assert store.taken_over(11) == store.values[11] and store.began_with == 8


def test_what_went_on_past_a_snapshot_of_its_owner_is_read_back_from_its_own_next_one(store: Store) -> None:
    store.upload_snapshot()
    store.commit()
    store.commit()
    store.copy(5)
    for _ in range(3):
        store.commit()
    store.copy(8)
    store.upload_snapshot()
    store.commit()
    store.commit()
    store.owner_is_the_copy()
    store.commit(with_snapshot=True)
    store.commit()
    assert store.opened_from_the_checkpoint(12) == store.values[12]


@pytest.mark.parametrize("is_forced", [True, False])
@pytest.mark.parametrize(("copied", "names_old_files"), [(8, True), (20, False)])
def test_the_next_snapshot_of_a_copy_names_no_files_that_may_be_removed_by_then(
    store: Store, copied: int, names_old_files: bool, is_forced: bool
) -> None:
    """Twelve versions are retained, of which nine may be newer than what the copy began with."""
    store.upload_snapshot()  # of version 4
    store.commit()
    store.commit()
    store.copy(5)  # opened anew from that snapshot
    while len(store.ids) <= copied + 1:
        store.commit()
    store.copy(copied)  # went on
    store.upload_snapshot()  # later changelogs tell of no version before it
    store.commit()
    before = {file.name for file in store.checkpoint.glob("SSTs/*.sst")}
    store.owner_is_the_copy()
    store.commit(is_forced)
    store.upload_snapshot()
    assert store.began_with_now() == 4
    assert bool(before & store.files_of_snapshot(len(store.ids) - 1)) == names_old_files
    store.commit()
    for file in before if not names_old_files else ():
        (store.checkpoint / "SSTs" / file).unlink(missing_ok=True)
    store.changelog(1).unlink(missing_ok=True)  # else Spark would replay all from the beginning instead
    last = len(store.ids) - 1
    assert store.opened_from_the_checkpoint(last) == store.values[last]


def test_changes_are_written_in_the_order_of_their_keys(jvm: Any) -> None:
    """Those of one key in theirs. Keys as Spark has them: two families, long numbers, words of some lengths."""
    draw = random.Random(7)
    words = [b"w" * draw.randrange(20) + b"%d" % draw.randrange(300) for _ in range(500)]
    keys = [b"\0%c" % draw.randrange(2) + bytes(8) + draw.randbytes(draw.choice([4, 8])) for _ in range(500)]
    for drawn in ([], [b""], [b"a", b"a", b""], words, keys, words + keys):
        given = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("[B"), len(drawn))
        for place, key in enumerate(drawn):
            given[place] = key
        order = list(scala_object(jvm, f"{DOORS}.Replay").order(given))
        assert order == sorted(range(len(drawn)), key=lambda place: (drawn[place], place))


def test_of_another_attempt_at_a_version_nothing_is_used(store: Store) -> None:
    """The copy stands at a version that its owner has written again, as after a failed batch."""
    store.give_up(3)
    store.commit()
    store.commit()
    assert store.taken_over(4) == store.values[4] == b"commit 6"


def test_what_a_killed_task_has_not_written_to_stays_open(store: Store) -> None:
    store.owner_is_the_copy()
    assert store.opened_again(4, is_killed=True) == store.values[4]
    store.commit()
    assert store.opened_from_the_checkpoint(5) == store.values[5]
    store.changelog(2).unlink()  # to be opened anew takes this
    assert store.opened_again(5, is_killed=True) == store.values[5]


def test_what_was_kept_and_written_to_later_is_opened_anew(store: Store) -> None:
    store.owner_is_the_copy()
    assert store.opened_again(4, is_killed=True, writes_late=True) == store.values[4]


@pytest.mark.parametrize(("is_killed", "writes"), [(True, True), (False, False)])
def test_what_a_failed_task_has_left_is_opened_anew(store: Store, is_killed: bool, writes: bool) -> None:
    store.owner_is_the_copy()
    assert store.opened_again(4, is_killed, writes) == store.values[4]
    store.changelog(2).unlink()
    with pytest.raises(Py4JJavaError, match=store.changelog(2).name):
        store.opened_again(4, is_killed, writes)


@pytest.fixture(params=[False, True], ids=["one family", "column families"])
def large(jvm: Any, session: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    """With ten versions of many keys, and an open copy of the third."""
    store, draw = Store(jvm, session, tmp_path, has_column_families=request.param), random.Random(4)
    for _ in range(10):
        store.commit(draw=draw)
    store.copy(3)
    yield store
    store.close()


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_copy_has_all_keys_and_their_number(large: Store, is_counted: bool) -> None:
    for version in (5, 6, 9):
        large.copy(version, is_counted)
    assert large.pairs_taken_over(9) == (large.pairs[9], large.counts[9].keys())


def test_what_a_copy_has_missed_is_counted(large: Store) -> None:
    large.copy(6, is_counted=True)
    assert large.pairs_taken_over(9) == (large.pairs[9], large.counts[9].keys())


@pytest.fixture
def kept(jvm: Any, tmp_path: Path) -> Iterator[Any]:
    """The store of a host that this executor uses."""
    executors = scala_object(jvm, "io.mooring.HostStores")
    kept = Kept(jvm, tmp_path)
    executors.use(jvm.scala.Option.apply(kept.store))
    yield kept.store
    executors.use(jvm.scala.Option.apply(None))


def test_a_copy_that_is_opened_anew_counts_no_keys_either(jvm: Any, kept: Any, large: Store) -> None:
    """It begins with the newest snapshot that the host has; the number that it is told is a wrong one here."""
    large.upload_snapshot()
    large.commit()
    large.commit()
    large.keep_snapshots(kept.shelf(large.path).get())
    large.counts[11] = large.key_counts(123)
    large.copy(11, is_counted=True)
    assert large.pairs_taken_over(11) == (large.pairs[11], 123)
