"""A host's store in its own JVM: what goes first when room is needed, and what never does."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from mooring.jar import jar_path

UNLIMITED = 2**62
HOUR = 3600.0


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    gateway: JavaGateway = launch_gateway(SparkConf(False).set("spark.driver.extraClassPath", str(jar_path())))
    yield gateway.jvm
    gateway.shutdown()


class Kept:
    """A store in a directory, and the working directory of an executor that shares its files."""

    def __init__(self, jvm: Any, directory: Path, root: Path | None = None) -> None:
        self._jvm = jvm
        self.root, self.working = root or directory / "store", directory / "working"
        self.working.mkdir()
        self.store = jvm.io.mooring.HostStore.open(self._path(self.root)).get()

    def shelf(self, partition: int) -> Any:
        return self.store.shelf(self._jvm.org.apache.hadoop.fs.Path(f"file:/checkpoint/state/0/{partition}")).get()

    def keep(self, partition: int, number: int, kilobytes: int = 100) -> str:
        """Keep a file that an executor has written, and let the executor go on without it."""
        with self._written(partition, number) as path:
            path.write_bytes(os.urandom(kilobytes * 1024))
            self.shelf(partition).keep(path.name, self._path(path))
        return path.name

    def keep_again(self, partition: int, name: str, number: int) -> None:
        """Keep the same file by another name, as Spark uploads old files again."""
        file, again = next(self.root.rglob(f"{name}~*")), self._name(partition, number)
        os.link(file, self.working / again)
        self.shelf(partition).keep(again, self._path(self.working / again))
        (self.working / again).unlink()

    def fetch(self, partition: int, number: int) -> str:
        """Keep a file that an executor has fetched from the checkpoint."""
        with self._written(partition, number) as path:
            path.write_bytes(os.urandom(1024))
            self.shelf(partition).replace(path.name, self._path(path))
        return path.name

    def keep_sst(self, partition: int, number: int) -> str:
        """Keep a file of RocksDB's with a thousand rows."""
        rocksdb = self._jvm.org.rocksdb
        rocksdb.RocksDB.loadLibrary()
        with self._written(partition, number) as path:
            bloom = rocksdb.BloomFilter(10.0, False)
            table = rocksdb.BlockBasedTableConfig().setFormatVersion(5).setFilterPolicy(bloom)
            writer = rocksdb.SstFileWriter(rocksdb.EnvOptions(), rocksdb.Options().setTableFormatConfig(table))
            writer.open(str(path))
            for row in range(1000):
                writer.put(f"{row:08}".encode(), os.urandom(100))
            writer.finish()
            self.shelf(partition).keep(path.name, self._path(path))
        return path.name

    @contextmanager
    def _written(self, partition: int, number: int) -> Iterator[Path]:
        path = self.working / self._name(partition, number)
        try:
            yield path
        finally:
            path.unlink()

    def _name(self, partition: int, number: int) -> str:
        return f"{number:06}-00000000-0000-0000-0000-{partition:012}.sst"

    def used(self, partition: int, ago: float) -> None:
        """Let an executor have opened the store so many seconds ago, and have kept nothing since."""
        self.shelf(partition).touch()
        mark = next(self.root.rglob(f"{partition}/*/.used"))
        for path in (mark, mark.parent):
            os.utime(path, (time.time() - ago,) * 2)

    def sweep(self, limit: int = UNLIMITED) -> None:
        sweep = self._jvm.io.mooring.HostStoreSweep(self.store, limit)
        try:
            sweep.sweep()
        finally:
            sweep.stop()

    def partitions(self) -> list[int]:
        """The partition of each file that is kept."""
        return sorted(int(path.parts[-3]) for path in self.root.rglob("*.sst~*"))

    def adopt(self, partition: int, name: str, target: Path, read_it: bool = False) -> bool:
        return bool(self.shelf(partition).adopt(name, self._path(target), read_it).isDefined())

    def _path(self, path: Path) -> Any:
        return self._jvm.java.io.File(str(path)).toPath()


@pytest.fixture
def kept(jvm: Any, tmp_path: Path) -> Kept:
    return Kept(jvm, tmp_path)


def test_what_was_not_opened_for_longest_goes_first(kept: Kept) -> None:
    for partition in range(4):
        kept.keep(partition, 1)
        kept.used(partition, ago=HOUR * [2, 4, 1, 3][partition])
    kept.sweep(limit=250 * 1024)
    assert kept.partitions() == [0, 2]


def test_a_store_that_keeps_files_is_in_use_however_long_ago_it_was_opened(kept: Kept) -> None:
    for partition in range(2):
        kept.keep(partition, 1)
        kept.used(partition, ago=HOUR * [2, 1][partition])
    kept.keep(0, 2)
    kept.sweep(limit=250 * 1024)
    assert kept.partitions() == [0, 0]


def test_a_file_that_is_kept_by_two_names_counts_and_goes_once(kept: Kept) -> None:
    first = kept.keep(0, 1)
    kept.keep_again(0, first, 2)
    kept.used(0, ago=HOUR * 2)
    kept.keep(1, 1)
    kept.used(1, ago=HOUR)
    kept.sweep(limit=250 * 1024)
    assert kept.partitions() == [0, 0, 1], "two files, of which one has two names, are within the limit"
    kept.sweep(limit=150 * 1024)
    assert kept.partitions() == [1], "nobody has it open: its names are the store's own"


def test_within_the_limit_nothing_goes(kept: Kept) -> None:
    for partition in range(3):
        kept.keep(partition, 1)
    kept.sweep(limit=300 * 1024)
    assert kept.partitions() == [0, 1, 2]


def test_a_file_in_use_stays(kept: Kept, tmp_path: Path) -> None:
    name = kept.keep(0, 1)
    kept.keep(1, 1)
    kept.used(0, ago=HOUR)
    assert kept.adopt(0, name, tmp_path / "opened.sst")
    kept.sweep(limit=1024)
    assert kept.partitions() == [0]
    (tmp_path / "opened.sst").unlink()
    kept.sweep(limit=1024)
    assert kept.partitions() == []


def test_what_a_killed_executor_left_half_written_goes_after_an_hour(kept: Kept) -> None:
    kept.keep(0, 1)
    directory = next(kept.root.rglob("*.sst~*")).parent
    young, old = directory / ".writing-young", directory / ".writing-old"
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * HOUR,) * 2)
    kept.sweep()
    assert young.exists() and not old.exists() and kept.partitions() == [0]


def test_a_file_of_somebody_else_is_left_alone(kept: Kept) -> None:
    kept.keep(0, 1)
    foreign = next(kept.root.rglob("*.sst~*")).parent / "notes.txt"
    foreign.write_text("mine")
    kept.sweep(limit=1)
    assert foreign.read_text() == "mine"


def _flip_a_bit(path: Path, where: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)


def _cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [_flip_a_bit, _cut_in_half], ids=lambda damage: damage.__name__.strip("_"))
def test_a_damaged_file_is_a_miss_and_goes(kept: Kept, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    name = kept.keep(0, 1)
    damage(next(kept.root.rglob("*.sst~*")))
    assert not kept.adopt(0, name, tmp_path / "opened.sst")
    assert kept.partitions() == []


def test_a_file_that_is_fetched_again_is_kept_once(kept: Kept) -> None:
    assert kept.keep(0, 1) == kept.fetch(0, 1)
    assert kept.partitions() == [0]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs another file system")
def test_a_store_on_another_file_system_holds_copies(jvm: Any, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        kept = Kept(jvm, tmp_path, root=Path(elsewhere) / "store")
        name = kept.keep(0, 1)
        kept_at = next(kept.root.rglob("*.sst~*"))
        assert kept_at.stat().st_nlink == 1 and kept_at.stat().st_size == 100 * 1024
        assert kept.adopt(0, name, tmp_path / "opened.sst", read_it=True)
        assert (tmp_path / "opened.sst").read_bytes() == kept_at.read_bytes()


def test_an_sst_file_with_another_time_is_proved_by_its_own_checksums(kept: Kept, tmp_path: Path) -> None:
    name = kept.keep_sst(0, 1)
    os.utime(next(kept.root.rglob("*.sst~*")), (0, 0))
    assert kept.adopt(0, name, tmp_path / "opened.sst")


# Of a block of rows, of another one, of the index, of what RocksDB notes of the file. Its last 53 bytes are no block.
@pytest.mark.parametrize("where", [1_000, 60_000, -1_500, -300])
def test_a_flipped_bit_in_an_sst_file_shows_when_it_is_read(kept: Kept, tmp_path: Path, where: int) -> None:
    name = kept.keep_sst(0, 1)
    path = next(kept.root.rglob("*.sst~*"))
    kept_at = path.stat()
    _flip_a_bit(path, where)
    os.utime(path, ns=(kept_at.st_atime_ns, kept_at.st_mtime_ns))
    assert not kept.adopt(0, name, tmp_path / "opened.sst", read_it=True)
    assert kept.partitions() == []


class Snapshots:
    """What the owner of a state knows of its snapshots; files by one letter each."""

    def __init__(self, jvm: Any) -> None:
        self._jvm, self._newest = jvm, jvm.io.mooring.NewestSnapshots()

    def opened(self, version: int, files: str, kept: str) -> None:
        self._newest.opened(version, self._set(files), self._set(kept))

    def saved(self, version: int, files: str) -> None:
        self._newest.saved(version, self._set(files))

    def superseded(self, kept: str) -> str:
        gone = self._newest.superseded(self._set(kept))
        return "".join(sorted(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(gone)))

    def _set(self, files: str) -> Any:
        names = self._jvm.java.util.HashSet()
        for name in files:
            names.add(name)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(names).toSet()


@pytest.fixture
def snapshots(jvm: Any) -> Snapshots:
    return Snapshots(jvm)


def test_what_the_newest_two_versions_need_stays(snapshots: Snapshots) -> None:
    snapshots.opened(5, "ab", kept="abz")
    assert snapshots.superseded("abz") == "", "there is one snapshot only"
    snapshots.saved(6, "bc")
    assert snapshots.superseded("abcz") == "z", "it was here before"
    snapshots.saved(7, "cd")
    assert snapshots.superseded("abcdx") == "a", "of x nothing is known: somebody is writing it"
    assert snapshots.superseded("abcd") == "a", "what is still here goes the next time"


def test_of_a_version_that_is_committed_twice_either_may_count(snapshots: Snapshots) -> None:
    snapshots.opened(5, "a", kept="a")
    snapshots.saved(6, "ab")
    snapshots.opened(5, "a", kept="ab")
    snapshots.saved(6, "ac")
    assert snapshots.superseded("abc") == ""
    snapshots.saved(7, "bd")
    assert snapshots.superseded("abcd") == ""
    snapshots.saved(8, "de")
    assert snapshots.superseded("abcde") == "ac"


def test_a_snapshot_that_is_saved_late_takes_nothing_from_a_newer_one(snapshots: Snapshots) -> None:
    snapshots.opened(2, "a", kept="a")
    snapshots.saved(13, "bc")
    snapshots.saved(10, "ab")
    assert snapshots.superseded("abc") == ""
    snapshots.saved(15, "cd")
    assert snapshots.superseded("abcd") == "a"


class Checkpoint:
    """Writes a state store's files through the checkpoint's file manager, in a JVM whose host keeps them."""

    def __init__(self, jvm: Any, directory: Path) -> None:
        self._jvm = jvm
        self.kept = Kept(jvm, directory)
        self.state = directory / "checkpoint" / "state" / "0" / "1"
        self.state.mkdir(parents=True)
        executors = jvm.java.lang.Class.forName("io.mooring.HostStores$").getField("MODULE$").get(None)
        executors.use(jvm.scala.Option.apply(self.kept.store))
        path, conf = jvm.org.apache.hadoop.fs.Path(self.state.as_uri()), jvm.org.apache.hadoop.conf.Configuration()
        self._files = jvm.io.mooring.MooringCheckpointFileManager(path, conf)

    def create(self, name: str) -> Any:
        path = self._jvm.org.apache.hadoop.fs.Path((self.state / name).as_uri())
        return self._files.createAtomic(path, True)

    def open(self) -> None:
        """As a store of Mooring's does before each batch."""
        self.shelf().opening()

    def complete(self) -> None:
        """As at the end of a commit."""
        self.shelf().complete()

    def shelf(self) -> Any:
        return self.kept.store.shelf(self._jvm.org.apache.hadoop.fs.Path(self.state.as_uri())).get()

    def on_host(self) -> dict[str, bytes]:
        """Each file of the host's store that is not one of its marks, by its whole name."""
        files = [path for path in self.kept.root.rglob("*") if path.is_file() and path.name != "OWNER"]
        return {path.name: path.read_bytes() for path in files}


SMALL_FILE = 1 << 20


@pytest.mark.parametrize("length", [0, 1, SMALL_FILE, SMALL_FILE + 1, 3 * SMALL_FILE])
def test_what_is_written_to_the_checkpoint_is_on_the_host_when_its_version_is_complete(
    jvm: Any, tmp_path: Path, length: int
) -> None:
    checkpoint, name = Checkpoint(jvm, tmp_path), f"7_{uuid.uuid4()}.zip"
    checkpoint.open()
    content = os.urandom(length)
    out = checkpoint.create(name)
    for start in range(0, length, SMALL_FILE // 2):
        out.write(content[start : start + SMALL_FILE // 2])
    out.close()
    assert not any(path.startswith(name) for path in checkpoint.on_host()), (
        "a commit that is under way has time for nothing"
    )
    checkpoint.complete()
    assert (checkpoint.state / name).read_bytes() == content
    (kept,) = checkpoint.on_host().items()
    assert kept[0].split("~")[:2] == [name, str(length)]
    assert kept[1] == content
    assert checkpoint.shelf().sound(name, True).isDefined()


@pytest.mark.parametrize("length", [1, 2 * SMALL_FILE])
def test_a_write_that_is_given_up_leaves_nothing_on_the_host(jvm: Any, tmp_path: Path, length: int) -> None:
    checkpoint = Checkpoint(jvm, tmp_path)
    checkpoint.open()
    out = checkpoint.create(f"7_{uuid.uuid4()}.changelog")
    out.write(os.urandom(length))
    out.cancel()
    out.close()
    checkpoint.complete()
    assert not checkpoint.on_host()


@pytest.mark.parametrize("length", [1, 2 * SMALL_FILE])
def test_a_host_that_can_keep_nothing_disturbs_no_write(jvm: Any, tmp_path: Path, length: int) -> None:
    checkpoint, name = Checkpoint(jvm, tmp_path), f"7_{uuid.uuid4()}.zip"
    checkpoint.open()
    checkpoint.kept.root.rmdir()
    checkpoint.kept.root.write_text("a file where the store was")
    out, content = checkpoint.create(name), os.urandom(length)
    out.write(content)
    out.close()
    checkpoint.complete()
    assert (checkpoint.state / name).read_bytes() == content


def test_a_version_that_was_given_up_is_no_longer_waited_for_when_its_store_is_opened(jvm: Any, tmp_path: Path) -> None:
    checkpoint = Checkpoint(jvm, tmp_path)
    checkpoint.open()
    names = [f"7_{uuid.uuid4()}.{kind}" for kind in ("zip", "changelog")]
    for name, length in zip(names, (1, 2 * SMALL_FILE), strict=True):
        out = checkpoint.create(name)
        out.write(os.urandom(length))
        out.close()
    checkpoint.open()
    assert [checkpoint.shelf().has(name) for name in names] == [True, True]


@pytest.mark.parametrize("length", [1, 2 * SMALL_FILE])
def test_what_a_provider_of_somebody_else_writes_waits_for_nothing(jvm: Any, tmp_path: Path, length: int) -> None:
    checkpoint, name = Checkpoint(jvm, tmp_path), f"7_{uuid.uuid4()}.zip"
    out = checkpoint.create(name)
    out.write(os.urandom(length))
    out.close()
    assert checkpoint.shelf().has(name)


def test_a_killed_task_keeps_what_others_have_written(jvm: Any, tmp_path: Path) -> None:
    checkpoint, name = Checkpoint(jvm, tmp_path), f"7_{uuid.uuid4()}.zip"
    checkpoint.open()
    out = checkpoint.create(name)
    out.write(os.urandom(10))
    out.close()
    jvm.java.lang.Thread.currentThread().interrupt()
    try:
        checkpoint.complete()
    finally:
        was_interrupted = jvm.java.lang.Thread.interrupted()
    assert was_interrupted, "and it is still killed"
    assert checkpoint.shelf().has(name)
