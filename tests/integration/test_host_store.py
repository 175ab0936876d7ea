"""A host's store in its own JVM: which files are removed first when room is needed, and which never."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.probes import wait_until
from tests.integration.support.host_store import SharedHostStore, names

pytestmark = pytest.mark.one_jvm

HOUR = 3600.0


@pytest.fixture
def kept(jvm: Any, tmp_path: Path) -> SharedHostStore:
    return SharedHostStore(jvm, tmp_path)


def test_files_of_the_store_that_was_not_opened_for_longest_are_removed_first(kept: SharedHostStore) -> None:
    for partition in range(4):
        kept.keep(partition, 1)
        kept.used(partition, ago=HOUR * [2, 4, 1, 3][partition])
    kept.sweep(limit=250 * 1024)
    assert kept.partitions() == [0, 2]


def test_a_store_that_keeps_files_is_in_use_however_long_ago_it_was_opened(kept: SharedHostStore) -> None:
    for partition in range(2):
        kept.keep(partition, 1)
        kept.used(partition, ago=HOUR * [2, 1][partition])
    kept.keep(0, 2)
    kept.sweep(limit=250 * 1024)
    assert kept.partitions() == [0, 0]


def test_a_file_that_is_kept_under_two_names_counts_once_and_is_removed_as_a_whole(kept: SharedHostStore) -> None:
    first = kept.keep(0, 1)
    kept.keep_again(0, first, 2)
    kept.used(0, ago=HOUR * 2)
    kept.keep(1, 1)
    kept.used(1, ago=HOUR)
    kept.sweep(limit=250 * 1024)
    assert kept.partitions() == [0, 0, 1], "two files, of which one has two names, are within the limit"
    kept.sweep(limit=150 * 1024)
    assert kept.partitions() == [1], "no executor has it open: both names are in the store"


def test_within_the_limit_no_file_is_removed(kept: SharedHostStore) -> None:
    for partition in range(3):
        kept.keep(partition, 1)
    kept.sweep(limit=300 * 1024)
    assert kept.partitions() == [0, 1, 2]


def test_files_of_a_temporary_checkpoint_are_removed_with_it(kept: SharedHostStore, tmp_path: Path) -> None:
    temporary, lasting = tmp_path / f"temporary-{uuid.uuid4()}", tmp_path / "lasting"
    for partition, checkpoint in enumerate((temporary, lasting)):
        checkpoint.mkdir()
        kept.keep(partition, 1, checkpoint=str(checkpoint))
    kept.sweep()
    assert kept.partitions() == [0, 1], "Spark has not deleted them"
    temporary.rmdir()
    lasting.rmdir()
    kept.sweep()
    wait_until(lambda: len([path for path in kept.root.iterdir() if path.is_dir()]) == 1, "one directory to go")
    assert kept.partitions() == [1], "a checkpoint of the user may only be out of reach"


def test_a_file_in_use_stays(kept: SharedHostStore, tmp_path: Path) -> None:
    name = kept.keep(0, 1)
    kept.keep(1, 1)
    kept.used(0, ago=HOUR)
    assert kept.adopt(0, name, tmp_path / "opened.sst")
    kept.sweep(limit=1024)
    assert kept.partitions() == [0]
    (tmp_path / "opened.sst").unlink()
    kept.sweep(limit=1024)
    assert kept.partitions() == []


def test_files_are_kept_again_when_the_stores_directory_was_deleted_meanwhile(kept: SharedHostStore) -> None:
    kept.keep(0, 1)
    shutil.rmtree(kept.root)
    kept.keep(0, 2)
    assert kept.partitions() == [0]
    assert stat.S_IMODE(kept.root.stat().st_mode) == 0o700


def test_a_half_written_file_of_a_killed_executor_is_removed_after_an_hour(kept: SharedHostStore) -> None:
    kept.keep(0, 1)
    directory = next(kept.root.rglob("*.sst~*")).parent
    young, old = directory / ".writing-young", directory / ".writing-old"
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * HOUR,) * 2)
    kept.sweep()
    assert young.exists() and not old.exists() and kept.partitions() == [0]


def test_a_file_that_is_not_the_stores_stays(kept: SharedHostStore) -> None:
    kept.keep(0, 1)
    foreign = next(kept.root.rglob("*.sst~*")).parent / "notes.txt"
    foreign.write_text("mine")
    kept.sweep(limit=1)
    assert foreign.read_text() == "mine"


def test_only_kept_files_are_removed(kept: SharedHostStore, jvm: Any) -> None:
    goes, stays = kept.keep(0, 1), kept.keep(0, 2)
    foreign = next(kept.root.rglob(f"{goes}~*")).parent / f"{goes}~mine"
    foreign.write_text("mine")
    kept.files_of(0).forget(names(jvm, [goes]))
    assert [kept.files_of(0).has(name) for name in (goes, stays)] == [False, True]
    assert foreign.read_text() == "mine"


def _flip_a_bit(path: Path, where: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)


def _cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [_flip_a_bit, _cut_in_half], ids=lambda damage: damage.__name__.strip("_"))
def test_a_damaged_file_is_not_used_and_is_removed(
    kept: SharedHostStore, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    name = kept.keep(0, 1)
    damage(next(kept.root.rglob("*.sst~*")))
    assert not kept.adopt(0, name, tmp_path / "opened.sst")
    assert kept.partitions() == []


def test_a_file_that_is_fetched_again_is_kept_once(kept: SharedHostStore) -> None:
    assert kept.keep(0, 1) == kept.fetch(0, 1)
    assert kept.partitions() == [0]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs another file system")
def test_a_store_on_another_file_system_holds_copies(jvm: Any, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        kept = SharedHostStore(jvm, tmp_path, root=Path(elsewhere) / "store")
        name = kept.keep(0, 1)
        kept_at = next(kept.root.rglob("*.sst~*"))
        assert kept_at.stat().st_nlink == 1 and kept_at.stat().st_size == 100 * 1024
        assert kept.adopt(0, name, tmp_path / "opened.sst", read_it=True)
        assert (tmp_path / "opened.sst").read_bytes() == kept_at.read_bytes()


def test_an_sst_file_with_another_time_is_proved_by_its_own_checksums(kept: SharedHostStore, tmp_path: Path) -> None:
    name = kept.keep_sst(0, 1)
    os.utime(next(kept.root.rglob("*.sst~*")), (0, 0))
    assert kept.adopt(0, name, tmp_path / "opened.sst")


# In a block of rows, in another one, in the index, in the file's properties. The last 53 bytes are no block.
@pytest.mark.parametrize("where", [1_000, 60_000, -1_500, -300])
def test_a_flipped_bit_in_an_sst_file_shows_when_it_is_read(kept: SharedHostStore, tmp_path: Path, where: int) -> None:
    name = kept.keep_sst(0, 1)
    path = next(kept.root.rglob("*.sst~*"))
    kept_at = path.stat()
    _flip_a_bit(path, where)
    os.utime(path, ns=(kept_at.st_atime_ns, kept_at.st_mtime_ns))
    assert not kept.adopt(0, name, tmp_path / "opened.sst", read_it=True)
    assert kept.partitions() == []


class Snapshots:
    """`NewestSnapshots` of one store; each file is named by one letter."""

    def __init__(self, jvm: Any) -> None:
        self._jvm, self._newest = jvm, jvm.io.mooring.localstore.NewestSnapshots()

    def opened(self, version: int, files: str, kept: str) -> None:
        self._newest.opened(version, self._set(files), self._set(kept))

    def uploaded(self, version: int, files: str) -> None:
        self._newest.uploaded(version, self._set(files))

    def superseded(self, kept: str) -> str:
        gone = self._newest.superseded(self._set(kept))
        return "".join(sorted(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(gone)))

    def _set(self, files: str) -> Any:
        return names(self._jvm, files)


@pytest.fixture
def snapshots(jvm: Any) -> Snapshots:
    return Snapshots(jvm)


def test_files_that_the_newest_two_versions_need_stay(snapshots: Snapshots) -> None:
    snapshots.opened(5, "ab", kept="abz")
    assert snapshots.superseded("abz") == "", "there is one snapshot only"
    snapshots.uploaded(6, "bc")
    assert snapshots.superseded("abcz") == "z", "it was here before the snapshot of version 5"
    snapshots.uploaded(7, "cd")
    assert snapshots.superseded("abcdx") == "a", "x is unknown: it is being written"
    assert snapshots.superseded("abcd") == "a", "a file that is still here is removed the next time"


def test_archives_are_removed_by_the_number_of_their_version(jvm: Any) -> None:
    unique = "_00000000-0000-0000-0000-000000000000"
    kept = [f"{version}{unique}.{end}" for version in (9, 10, 11) for end in ("zip", "zip.crc", "changelog")]
    gone = jvm.io.mooring.localstore.HostStore.archivesBefore(
        10, names(jvm, [*kept, "9.zip", f"000009-{unique[1:]}.sst"])
    )
    found = set(jvm.scala.jdk.javaapi.CollectionConverters.asJava(gone))
    assert found == {f"9{unique}.zip", f"9{unique}.zip.crc"}


def test_the_files_of_both_commits_of_a_version_stay(snapshots: Snapshots) -> None:
    snapshots.opened(5, "a", kept="a")
    snapshots.uploaded(6, "ab")
    snapshots.opened(5, "a", kept="ab")
    snapshots.uploaded(6, "ac")
    assert snapshots.superseded("abc") == ""
    snapshots.uploaded(7, "bd")
    assert snapshots.superseded("abcd") == ""
    snapshots.uploaded(8, "de")
    assert snapshots.superseded("abcde") == "ac"


def test_a_snapshot_that_is_uploaded_late_removes_no_file_of_a_newer_one(snapshots: Snapshots) -> None:
    snapshots.opened(2, "a", kept="a")
    snapshots.uploaded(13, "bc")
    snapshots.uploaded(10, "ab")
    assert snapshots.superseded("abc") == ""
    snapshots.uploaded(15, "cd")
    assert snapshots.superseded("abcd") == "a"
