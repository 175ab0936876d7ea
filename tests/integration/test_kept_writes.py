"""A state file that is written to the checkpoint is kept on the host as well, once its version is complete."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.host_store import SharedHostStore

pytestmark = pytest.mark.one_jvm


class Checkpoint:
    """Writes a state store's files through the checkpoint's file manager, in a JVM whose host keeps them."""

    def __init__(self, jvm: Any, directory: Path) -> None:
        self._jvm = jvm
        self.kept = SharedHostStore(jvm, directory)
        self.state = directory / "checkpoint" / "state" / "0" / "1"
        self.state.mkdir(parents=True)
        executors = jvm.java.lang.Class.forName("io.mooring.localstore.HostStores$").getField("MODULE$").get(None)
        executors.use(jvm.scala.Option.apply(self.kept.store))
        path, conf = jvm.org.apache.hadoop.fs.Path(self.state.as_uri()), jvm.org.apache.hadoop.conf.Configuration()
        self._files = jvm.io.mooring.MooringCheckpointFileManager(path, conf)

    def create(self, name: str) -> Any:
        path = self._jvm.org.apache.hadoop.fs.Path((self.state / name).as_uri())
        return self._files.createAtomic(path, True)

    def open(self) -> None:
        """Call `opening`, as a store with Mooring does before each batch."""
        self.host_files().opening()

    def complete(self) -> None:
        """Call `complete`, as at the end of a commit."""
        self.host_files().complete()

    def host_files(self) -> Any:
        return self.kept.store.filesOf(self._jvm.org.apache.hadoop.fs.Path(self.state.as_uri())).get()

    def on_host(self) -> dict[str, bytes]:
        """The content of each file in the host's store, by file name; without OWNER files."""
        files = [path for path in self.kept.root.rglob("*") if path.is_file() and path.name != "OWNER"]
        return {path.name: path.read_bytes() for path in files}


SMALL_FILE = 1 << 20


@pytest.mark.parametrize("length", [0, 1, SMALL_FILE, SMALL_FILE + 1, 3 * SMALL_FILE])
def test_a_file_that_is_written_to_the_checkpoint_is_kept_when_its_version_is_complete(
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
        "no file is kept while a commit is under way"
    )
    checkpoint.complete()
    assert (checkpoint.state / name).read_bytes() == content
    (kept,) = checkpoint.on_host().items()
    assert kept[0].split("~")[:2] == [name, str(length)]
    assert kept[1] == content
    assert checkpoint.host_files().checked(name, True).isDefined()


@pytest.mark.parametrize("length", [1, 2 * SMALL_FILE])
def test_a_cancelled_write_leaves_no_file_on_the_host(jvm: Any, tmp_path: Path, length: int) -> None:
    checkpoint = Checkpoint(jvm, tmp_path)
    checkpoint.open()
    out = checkpoint.create(f"7_{uuid.uuid4()}.changelog")
    out.write(os.urandom(length))
    out.cancel()
    out.close()
    checkpoint.complete()
    assert not checkpoint.on_host()


@pytest.mark.parametrize("length", [1, 2 * SMALL_FILE])
def test_a_host_that_can_keep_no_file_disturbs_no_write(jvm: Any, tmp_path: Path, length: int) -> None:
    checkpoint, name = Checkpoint(jvm, tmp_path), f"7_{uuid.uuid4()}.zip"
    checkpoint.open()
    checkpoint.kept.root.rmdir()
    checkpoint.kept.root.write_text("a file where the store was")
    out, content = checkpoint.create(name), os.urandom(length)
    out.write(content)
    out.close()
    checkpoint.complete()
    assert (checkpoint.state / name).read_bytes() == content


def test_the_files_of_a_version_that_was_given_up_are_kept_when_the_store_is_opened(jvm: Any, tmp_path: Path) -> None:
    checkpoint = Checkpoint(jvm, tmp_path)
    checkpoint.open()
    names = [f"7_{uuid.uuid4()}.{kind}" for kind in ("zip", "changelog")]
    for name, length in zip(names, (1, 2 * SMALL_FILE), strict=True):
        out = checkpoint.create(name)
        out.write(os.urandom(length))
        out.close()
    checkpoint.open()
    assert [checkpoint.host_files().has(name) for name in names] == [True, True]


@pytest.mark.parametrize("length", [1, 2 * SMALL_FILE])
def test_a_file_of_another_provider_is_kept_at_once(jvm: Any, tmp_path: Path, length: int) -> None:
    checkpoint, name = Checkpoint(jvm, tmp_path), f"7_{uuid.uuid4()}.zip"
    out = checkpoint.create(name)
    out.write(os.urandom(length))
    out.close()
    assert checkpoint.host_files().has(name)


def test_a_killed_task_keeps_files_that_other_threads_have_written(jvm: Any, tmp_path: Path) -> None:
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
    assert was_interrupted, "the task is still killed"
    assert checkpoint.host_files().has(name)
