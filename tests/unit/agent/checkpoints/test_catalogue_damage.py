"""A table of the catalogue that can not be read: when it is set aside, and begun anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.checkpoints.catalogue_keeper import CatalogueKeeper
from tests.unit.agent.checkpoints.catalogue_in_memory import TablesInMemory, keeper, write_once
from tests.unit.checkpoint.made import Made

pytestmark = pytest.mark.slow

DAMAGE = "JsonEOFException: the log is damaged"


def damaged(
    directory: Path, damage: str, column: str | None = None, run: str = "another"
) -> tuple[TablesInMemory, CatalogueKeeper]:
    """The table of three batches, which can not be read for this reason, and the next keeper of the query.

    With `column`, the other columns can be read. The rows were written in the run "run".
    """
    made, tables = Made(directory / "it", batches=3), TablesInMemory()
    write_once(tables, made.directory)
    tables.is_damaged, tables.damage, tables.damaged_column = True, damage, column
    return tables, keeper(tables, made.directory, run=run)


def test_a_table_that_can_not_be_read_three_times_in_a_row_is_set_aside(tmp_path: Path) -> None:
    tables, second = damaged(tmp_path, DAMAGE, run="run")
    for _ in range(2):
        assert [str(fault) for fault in second.write()] == [DAMAGE]
    assert second.write() == []
    second.end()
    assert tables.batches == [0, 1, 2] and len(tables.rows) == 6


@pytest.mark.parametrize(
    "said",
    [
        "SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:/t/part-0.parquet."
        "; caused by RuntimeException: file:/t/part-0.parquet is not a Parquet file. Expected magic number at tail",
        "SparkFileNotFoundException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file x.parquet.",
        "SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file /t/_delta_log/2.json."
        "; caused by JsonEOFException: Unexpected end-of-input (`StreamReadFeature.INCLUDE_SOURCE` disabled)",
        "DeltaFileNotFoundException: [DELTA_TRUNCATED_TRANSACTION_LOG] Unable to reconstruct state",
    ],
)
def test_a_table_with_damaged_files_is_set_aside(tmp_path: Path, said: str) -> None:
    tables, catalogue = damaged(tmp_path, said)
    assert [len(catalogue.write()) for _ in range(3)] == [1, 1, 0]
    assert not tables.is_damaged


def test_a_table_with_damage_in_one_column_is_set_aside(tmp_path: Path) -> None:
    tables, catalogue = damaged(tmp_path, DAMAGE, column="store")
    assert [len(catalogue.write()) for _ in range(3)] == [1, 1, 0]
    assert not tables.is_damaged and tables.batches == [0, 1, 2]


def test_a_table_of_a_newer_delta_is_not_set_aside(tmp_path: Path) -> None:
    tables, catalogue = damaged(tmp_path, "DELTA_INVALID_PROTOCOL_VERSION: a newer Delta has written delta_log")
    for _ in range(4):
        assert catalogue.write()
    assert tables.is_damaged, "the table is where it was"


@pytest.mark.parametrize(
    "said",
    [
        "SocketTimeoutException: Read timed out on part-00000-c000.snappy.parquet",
        "AccessDeniedException: s3a://b/c/_mooring/state_versions/_delta_log/00000000000000000003.json: Forbidden",
        "Py4JJavaError: java.io.IOException: Permission denied: 00000000000000000003.json",
    ],
)
def test_a_table_whose_storage_refuses_a_file_is_not_set_aside(tmp_path: Path, said: str) -> None:
    tables, catalogue = damaged(tmp_path, said)
    assert [len(catalogue.write()) for _ in range(4)] == [1] * 4
    assert tables.is_damaged, "the table is where it was"


def test_a_table_that_is_shared_is_not_set_aside(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), TablesInMemory()
    write_once(tables, made.directory, table="/ops/state_versions")
    tables.is_damaged, tables.damage = True, DAMAGE
    second = keeper(tables, made.directory, table="/ops/state_versions")
    assert [len(second.write()) for _ in range(5)] == [1] * 5
    tables.is_damaged = False
    assert second.write() == []
    second.end()
    assert len(tables.rows) == 6
