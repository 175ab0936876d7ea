"""One state store in a real checkpoint directory, with an owner that writes it and an open copy, in one JVM."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mooring.testing.probes import wait_until
from tests.integration.support import rocksdb_of_line as rocksdb

STATE = "org.apache.spark.sql.execution.streaming.state"
STATE_SHIMS = f"{STATE}.shims"
CORE_SHIMS = "org.apache.spark.shims"
SCHEDULER_SHIMS = "org.apache.spark.scheduler.shims"


def scala_object(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)


@contextmanager
def scala_session(jvm: Any, name: str, conf: Mapping[str, str]) -> Iterator[Any]:
    """A session of Spark's Scala API that runs one task at a time, in a JVM without an application."""
    app = jvm.org.apache.spark.SparkConf(True).setMaster("local[1]").setAppName(name).set("spark.ui.enabled", "false")
    context = jvm.org.apache.spark.api.java.JavaSparkContext(app)
    try:
        yield jvm.org.apache.spark.sql.classic.SparkSession(context.sc(), dict(conf))
    finally:
        context.stop()


@contextmanager
def session_with_undo(jvm: Any, name: str, conf: Mapping[str, str]) -> Iterator[Any]:
    """The same, in which the writes of a killed task are taken back, as on an executor with standbys."""
    undo = scala_object(jvm, f"{STATE_SHIMS}.Undo")
    with scala_session(jvm, name, conf) as session:
        getattr(undo, "isWanted_$eq")(True)
        try:
            yield session
        finally:
            getattr(undo, "isWanted_$eq")(False)


class Store:
    """A state store with one key, whose value each commit changes, and an open copy of the store."""

    def __init__(
        self, jvm: Any, session: Any, directory: Path, has_column_families: bool = False, partition: int = 0
    ) -> None:
        self._jvm, self._state = jvm, jvm.org.apache.spark.sql.execution.streaming.state
        self._none = jvm.scala.Option.apply(None)
        self._has_column_families, self._partition = has_column_families, partition
        self.checkpoint = directory / "state" / "0" / str(partition)
        self.path = jvm.org.apache.hadoop.fs.Path(self.checkpoint.as_uri())
        self._access = scala_object(jvm, f"{STATE_SHIMS}.CheckpointAccess").of(session)
        self._conf = scala_object(jvm, f"{STATE}.RocksDBConf").apply(self._access.stores())
        working, hadoop = jvm.java.io.File(str(directory / "owner")), self._access.hadoopConf()
        self._owner = rocksdb.instance(jvm, *self._place(working, hadoop, "owner"))
        self._copy = self._new_copy()
        self.ids: list[str | None] = [None]
        self.values = [b""]
        self._commits = 0
        self.pairs: list[dict[bytes, bytes]] = [{}]
        """For each version all keys and values."""
        self.counts: list[Any] = [None]
        """For each version the numbers of keys that the owner has counted."""
        self.began_with = -1
        """The version of the snapshot on which the taken copy builds; 0 for the empty store."""

    def commit(self, with_snapshot: bool = False, draw: random.Random | None = None) -> None:
        """Let the owner write the next version. With `draw`, it changes some other keys too."""
        self._load(self._owner, len(self.ids) - 1)
        if self._has_column_families:
            rocksdb.make_family(self._owner)
        self._commits += 1
        self.values.append(f"commit {self._commits}".encode())
        rocksdb.put(self._owner, b"key", self.values[-1])
        pairs = dict(self.pairs[-1])
        for _ in range(50 if draw else 0):
            self._change(pairs, draw)
        self.pairs.append(pairs | {b"key": self.values[-1]})
        self.ids.append(rocksdb.commit(self._owner, with_snapshot)._2().stateStoreCkptId().get())
        metrics = self._owner.metricsOpt().get()
        self.counts.append(self.key_counts(metrics.numCommittedKeys(), metrics.numInternalKeys()))

    def commit_until(self, version: int, uploading: bool = False) -> None:
        """Let the owner write all versions up to `version`. With `uploading`, each snapshot is uploaded at once."""
        while len(self.ids) <= version:
            self.commit()
            if uploading:
                self.upload_snapshot()

    def key_counts(self, keys: int, internal: int = 0) -> Any:
        return self._state.shims.KeyCounts(keys, internal)

    def _change(self, pairs: dict[bytes, bytes], draw: random.Random, deletes_ranges: bool = True) -> None:
        """Make one change of a kind that a changelog has. Long values make several batches."""
        number, value = draw.randrange(60), draw.randbytes(draw.choice([8, 40_000]))
        # A copy sorts keys by words of eight bytes. So keys have two lengths, and some begin with the same eight bytes.
        key = b"%03d" % number if number % 2 else b"%02d---------%d" % divmod(number, 10)
        kinds = ["put", "remove", "merge", "delete range"] if self._has_column_families else ["put", "remove"]
        kinds = kinds if deletes_ranges and rocksdb.DELETES_RANGES else kinds[:3]
        kind = draw.choices(kinds, [10, 6, 4, 1][: len(kinds)])[0]
        if kind == "put":
            rocksdb.put(self._owner, key, value)
            pairs[key] = value
        elif kind == "remove":
            rocksdb.remove(self._owner, key)
            pairs.pop(key, None)
        elif kind == "merge":
            rocksdb.merge(self._owner, key, value)
            pairs[key] = pairs[key] + rocksdb.MERGE_DELIMITER + value if key in pairs else value
        else:
            end = b"%03d" % (number + draw.randrange(1, 6))
            rocksdb.delete_range(self._owner, key, end)
            for gone in [each for each in pairs if key <= each < end]:
                del pairs[gone]

    def give_up(self, version: int) -> None:
        """Forget the commits from `version` on, as when a batch is repeated."""
        del self.ids[version:], self.values[version:], self.pairs[version:], self.counts[version:]

    def copy(self, version: int, is_counted: bool = False) -> None:
        """Bring the copy to `version`, with the owner's number of keys if `is_counted`. The next version must exist."""
        copied = self._state.shims.CopiedVersion(
            self._lineage_in(version + 1),
            self._has_column_families,
            self._jvm.scala.Option.apply(self.counts[version] if is_counted else None),
            scala_object(self._jvm, "scala.package").Nil(),
        )
        assert self._copy.advanceOrOpen(copied)

    def keep_snapshots(self, host_files: Any) -> None:
        """Let the host keep all archives of the checkpoint."""
        for archive in self.checkpoint.glob("*.zip"):
            path = self._jvm.org.apache.hadoop.fs.Path(archive.as_uri())
            host_files.keepStream(archive.name, path.getFileSystem(self._access.hadoopConf()).open(path))

    def upload_snapshot(self) -> None:
        """Run the owner's maintenance, as every minute. Later changelogs name no version before the snapshot."""
        self._owner.doMaintenance()

    def taken_over(self, version: int) -> bytes:
        """The value of the key after a provider has taken the copy and loaded `version`."""
        taken = self._take()
        try:
            self._load(taken, version)
            self.began_with = _version(taken.beganWith())
            return bytes(taken.get(b"key", "default"))
        finally:
            taken.close()

    def pairs_taken_over(self, version: int) -> tuple[dict[bytes, bytes], int]:
        """All keys and values of `version`, and their number, in the copy after a provider has taken it."""
        taken = self._take()
        try:
            self._load(taken, version)
            found = rocksdb.pairs(taken)
            rocksdb.commit(taken)
            return found, taken.metricsOpt().get().numCommittedKeys()
        finally:
            taken.close()

    def copy_becomes_owner(self) -> None:
        """Let a provider take the copy; it is the owner from now on."""
        self._owner.close()
        self._owner = self._take()
        self._copy = self._new_copy()

    def owners_base(self) -> int:
        """The version of the snapshot on which the owner builds; 0 for the empty store."""
        return _version(self._owner.beganWith())

    def snapshots(self) -> list[int]:
        """The versions with an uploaded snapshot."""
        return [version for version in range(1, len(self.ids)) if self._archive(version).exists()]

    def files_of_snapshot(self, version: int) -> set[str]:
        archive = self._jvm.java.io.FileInputStream(str(self._archive(version)))
        needed = scala_object(self._jvm, f"{STATE_SHIMS}.StateFiles").neededBy(archive)
        return {needed.apply(number)._1().rpartition("/")[2] for number in range(needed.size())}

    def opened_from_the_checkpoint(self, version: int) -> bytes:
        """The value of the key for an instance of stock Spark without local files."""
        working = self._jvm.java.io.File(str(self.checkpoint.parent / "anew"))
        opened = rocksdb.instance(self._jvm, *self._place(working, self._access.hadoopConf(), "anew"))
        try:
            self._load(opened, version)
            return bytes(opened.get(b"key", "default"))
        finally:
            opened.close()

    def value_after_failed_task(
        self, version: int, is_killed: bool, writes: bool = False, writes_late: bool = False
    ) -> bytes:
        """The value of the key for the next task, after a task of the owner has opened the version and failed.

        With `writes_late`, the Python process of the failed task still writes after the roll-back.
        """
        with self._failing_task(version, is_killed):
            if writes:
                self._write()
        if writes_late:
            self._write()
        self._load(self._owner, version)
        return bytes(self._owner.get(b"key", "default"))

    def killed_after(self, changes: int, draw: random.Random | None = None, deletes_ranges: bool = False) -> None:
        """Let a task open the last version, make `changes` changes, and be killed. `draw` changes several keys."""
        with self._failing_task(len(self.ids) - 1):
            pairs = dict(self.pairs[-1])
            for _ in range(changes):
                self._change(pairs, draw, deletes_ranges) if draw else self._write()

    def killed_after_making_the_family_again(self) -> None:
        """Let a task open the last version, remove the column family, make it again, and be killed."""
        with self._failing_task(len(self.ids) - 1):
            self._write()
            self._owner.removeColFamilyIfExists("default")
            rocksdb.make_family(self._owner)
            self._write()

    @contextmanager
    def _failing_task(self, version: int, is_killed: bool = True) -> Iterator[None]:
        """A block inside a task that has opened `version`. At its end the task fails, or is killed, and rolls back."""
        contexts = scala_object(self._jvm, "org.apache.spark.TaskContext")
        task = contexts.empty()
        contexts.setTaskContext(task)
        try:
            self._load(self._owner, version)
            yield
            if is_killed:
                task.markInterrupted("killed")
            self._owner.rollback()
        finally:
            contexts.unset()

    def owners_value(self) -> bytes:
        """The value of the key in the version that the owner has loaded."""
        return bytes(self._owner.get(b"key", "default"))

    def owners_pairs(self) -> dict[bytes, bytes]:
        """All keys and values of the last version in the owner."""
        self._load(self._owner, len(self.ids) - 1)
        return rocksdb.pairs(self._owner)

    def _write(self) -> None:
        rocksdb.put(self._owner, b"key", b"of no version")

    def versions_named_by(self, version: int) -> list[int]:
        """The versions that this version's changelog names."""
        lineage = self._lineage_in(version)
        return [lineage.apply(number)._1() for number in range(lineage.size())]

    def _lineage_in(self, version: int) -> Any:
        """The versions and ids that this version's changelog names; a Scala sequence."""
        files = self._jvm.io.mooring.MooringCheckpointFileManager(self.path, self._access.hadoopConf())
        changelog = self._jvm.org.apache.hadoop.fs.Path(self.path, self.changelog(version).name)
        read = scala_object(self._jvm, f"{STATE_SHIMS}.StateFiles").lineage(files, changelog, self._access.codec())
        return read.versions()

    def files_fetched_by(self, host: Any, version: int) -> Any:
        """The names of the files that a host fetches ahead for a task that opens `version`; a Scala set."""
        id = self._jvm.scala.Option.apply(self.ids[version])
        wanted = self._jvm.java.util.ArrayList()
        wanted.add(self._jvm.io.mooring.restore.StoreVersion(self.path.toString(), version, id, self._none))
        stores = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(wanted).toSeq()
        prefetch = self._jvm.io.mooring.restore.Prefetch(host, 1, 2**62)
        host_files = host.filesOf(self._jvm.org.apache.hadoop.fs.Path(self.path.toString())).get()
        prefetch.begin(self._jvm.io.mooring.restore.PrefetchOrder("1", "query", "run", stores), self._access)
        try:
            wait_until(lambda: host_files.names().mkString(" ").count(".sst") > 0, "what a snapshot needs", 30)
        finally:
            prefetch.stop()
        return host_files.names()

    def _new_copy(self) -> Any:
        one_at_a_time = self._jvm.java.util.concurrent.Semaphore(1)
        no_waits = self._jvm.org.apache.spark.shims.IdleWaitBudget(0)
        last_commit = self._jvm.io.mooring.standby.LastCommit()
        args = self.path, self._partition, self._access, one_at_a_time, no_waits, last_commit
        return self._jvm.io.mooring.standby.InstanceOfCopy(*args)

    def _take(self) -> Any:
        working = self._jvm.java.io.File(str(self.checkpoint.parent / "taken"))
        arguments = rocksdb.arguments(self._jvm, *self._place(working, self._access.hadoopConf(), "taken"))
        return scala_object(self._jvm, f"{STATE_SHIMS}.OpenStores").take(arguments).get()

    def _place(self, working: Any, hadoop: Any, name: str) -> tuple[Any, ...]:
        """What makes an instance of this store in a directory of its own."""
        families, partition = self._has_column_families, self._partition
        return self.path.toString(), self._conf, working, hadoop, name, families, True, partition

    def _archive(self, version: int) -> Path:
        return self.checkpoint / f"{version}_{self.ids[version]}.zip"

    def changelog(self, version: int) -> Path:
        return self.checkpoint / f"{version}_{self.ids[version]}.changelog"

    def close(self) -> None:
        self._copy.close()
        self._owner.close()

    def _load(self, store: Any, version: int) -> None:
        rocksdb.load(self._jvm, store, version, self.ids[version])


def _version(snapshot: Any) -> int:
    return snapshot.get()._1() if snapshot.isDefined() else 0
