"""The checkpoint loses files of its newest snapshot, which the host has: the query goes on, and gives them back."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application
from tests.integration.support.queries_with_pending_output import EVENTS, KINDS
from tests.integration.support.query_in_one_jvm import HalfJob, same

pytestmark = pytest.mark.one_jvm


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with application("mending", tmp_path_factory.mktemp("mending")) as session:
        yield session


def test_what_is_missing_or_cut_short_is_given_back_from_the_hosts_copy(spark: SparkSession, tmp_path: Path) -> None:
    kind = KINDS["windows"]
    job = HalfJob(spark, tmp_path, kind)
    store = job.checkpoint / "state" / "0" / "0"
    newest = max(store.glob("*.zip"), key=lambda file: int(file.name.partition("_")[0]))
    files = [newest, *(store / "SSTs").glob("*.sst")]
    whole = {file: file.read_bytes() for file in files}
    assert len(whole) > 1
    for number, file in enumerate(files):
        file.with_name(f".{file.name}.crc").unlink()
        if number % 2 == 0:
            file.unlink()
        else:
            file.write_bytes(whole[file][:10])
    job.bring_the_rest()
    job.start()
    needed = [newest, *(file for file in files if file in _named_by(newest, whole))]
    wait_until(lambda: all(file.exists() and file.read_bytes() == whole[file] for file in needed), "the files", 60)
    job.read_all(len(EVENTS) // 2)
    job.drain()
    same(job, job.rows(), kind)


def _named_by(archive: Path, whole: dict[Path, bytes]) -> set[Path]:
    """The SST files that the archive needs."""
    with zipfile.ZipFile(io.BytesIO(whole[archive])) as opened:
        metadata = opened.read("metadata").decode()
    return {file for file in whole if file.name in metadata}
