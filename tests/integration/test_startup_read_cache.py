"""Between its start and its first commit a stream's thread reads each entry of its checkpoint once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.queries_with_pending_output import window_counts

pytestmark = pytest.mark.one_jvm


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with application("startup-cache", tmp_path_factory.mktemp("startup-cache")) as session:
        yield session


class Log:
    """A directory of the checkpoint's files, by the plugin's file manager and by the file system alone."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory, self._jvm = directory, spark._jvm
        conf = self._jvm.org.apache.hadoop.conf.Configuration()
        self._files = self._jvm.io.mooring.MooringCheckpointFileManager(self._path(), conf)

    def write_directly(self, name: str, text: str) -> None:
        (self._directory / name).write_text(text)

    def write(self, name: str, text: str) -> None:
        out = self._files.createAtomic(self._path(name), True)
        out.write(text.encode())
        out.close()

    def read(self, name: str) -> str:
        stream = self._files.open(self._path(name))
        return bytes(stream.readAllBytes()).decode()

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._path(name)))

    def delete(self, name: str) -> None:
        self._files.delete(self._path(name))

    def names(self) -> set[str]:
        return {status.getPath().getName() for status in self._files.list(self._path())}

    def _path(self, name: str = "") -> Any:
        return self._jvm.org.apache.hadoop.fs.Path((self._directory / name).as_uri())


def test_until_the_first_commit_answers_are_cached_except_for_what_the_thread_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    answers: dict[str, Any] = {}

    def in_first_batch(log: Log) -> None:
        answers["nothing"] = log.has("7")
        log.write_directly("7", "written once")
        answers["names"], answers["first"] = log.names(), log.read("7")
        log.write_directly("7", "changed directly")
        log.write_directly("8", "new")
        answers["again"] = log.read("7")
        log.write("9", "its own")
        answers["own"], answers["names with it"] = log.read("9"), log.names()
        log.write("7", "its own, over another")
        answers["over"] = log.read("7")
        log.delete("7")
        answers["deleted"] = log.has("7")
        other.write_directly("7", "once")
        answers["of another checkpoint"] = other.read("7")
        other.write_directly("7", "twice")
        answers["of another, again"] = other.read("7")
        log.write_directly("10", "before the commit")
        answers["of 10"] = log.read("10")

    def in_second_batch(log: Log) -> None:
        log.write_directly("10", "after the commit")
        answers["of 10 later"] = log.read("10")

    log, other = Log(spark, tmp_path / "ck" / "more" / "offsets"), Log(spark, tmp_path / "another" / "offsets")

    def each(rows: DataFrame, batch: int) -> None:
        rows.collect()
        (in_first_batch if batch == 0 else in_second_batch)(log)

    events = events_in_files(spark, tmp_path / "events", 2).withWatermark("time", "10 seconds")
    writer = window_counts(events).writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert answers == {
        "nothing": False,
        "names": {"7"},
        "first": "written once",
        "again": "written once",
        "own": "its own",
        "names with it": {"7", "8", "9"},
        "over": "its own, over another",
        "deleted": False,
        "of another checkpoint": "once",
        "of another, again": "twice",
        "of 10": "before the commit",
        "of 10 later": "after the commit",
    }


def test_other_threads_read_the_storage(spark: SparkSession, tmp_path: Path) -> None:
    log = Log(spark, tmp_path / "offsets")
    log.write_directly("7", "once")
    assert log.read("7") == "once"
    log.write_directly("7", "twice")
    assert log.read("7") == "twice" and log.names() == {"7"}
