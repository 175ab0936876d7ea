"""A host's store, and an executor that shares its files, in the JVM of the fixture `jvm`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UNLIMITED = 2**62


class SharedHostStore:
    """A host's store in a directory, and the working directory of an executor that shares its files."""

    def __init__(self, jvm: Any, directory: Path, root: Path | None = None) -> None:
        self._jvm = jvm
        self.root, self.working = root or directory / "store", directory / "working"
        self.working.mkdir()
        self.store = jvm.io.mooring.localstore.HostStore.open(self._path(self.root), False).get()

    def files_of(self, partition: int, checkpoint: str = "/checkpoint") -> Any:
        return self.store.filesOf(self._jvm.org.apache.hadoop.fs.Path(f"file:{checkpoint}/state/0/{partition}")).get()

    def keep(self, partition: int, number: int, kilobytes: int = 100, checkpoint: str = "/checkpoint") -> str:
        """Keep a file that an executor has written, and remove the executor's own link."""
        with self._written(partition, number) as path:
            path.write_bytes(os.urandom(kilobytes * 1024))
            self.files_of(partition, checkpoint).keep(path.name, self._path(path))
        return path.name

    def keep_again(self, partition: int, name: str, number: int) -> None:
        """Keep the same file under another name, as when Spark uploads old files again."""
        file, again = next(self.root.rglob(f"{name}~*")), self._name(partition, number)
        os.link(file, self.working / again)
        self.files_of(partition).keep(again, self._path(self.working / again))
        (self.working / again).unlink()

    def fetch(self, partition: int, number: int) -> str:
        """Keep a file that an executor has fetched from the checkpoint."""
        with self._written(partition, number) as path:
            path.write_bytes(os.urandom(1024))
            self.files_of(partition).replace(path.name, self._path(path))
        return path.name

    def keep_sst(self, partition: int, number: int) -> str:
        """Keep an SST file with a thousand rows."""
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
            self.files_of(partition).keep(path.name, self._path(path))
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
        """Set the last use of the partition's files to `ago` seconds ago."""
        self.files_of(partition).touch()
        mark = next(self.root.rglob(f"{partition}/*/.used"))
        for path in (mark, mark.parent):
            os.utime(path, (time.time() - ago,) * 2)

    def sweep(self, limit: int = UNLIMITED) -> None:
        sweep = self._jvm.io.mooring.localstore.HostStoreSweep(self.store, limit)
        try:
            sweep.sweep()
        finally:
            sweep.stop()

    def partitions(self) -> list[int]:
        """The partition of each kept file."""
        return sorted(int(path.parts[-3]) for path in self.root.rglob("*.sst~*"))

    def adopt(self, partition: int, name: str, target: Path, read_it: bool = False) -> bool:
        return bool(self.files_of(partition).adopt(name, self._path(target), read_it).isDefined())

    def _path(self, path: Path) -> Any:
        return self._jvm.java.io.File(str(path)).toPath()


def names(jvm: Any, files: Iterable[str]) -> Any:
    """A Scala set of strings."""
    found = jvm.java.util.HashSet()
    for name in files:
        found.add(name)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSet()
