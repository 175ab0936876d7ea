from __future__ import annotations

import json
from typing import Any

from mooring.catalogue.rows import COLUMNS, ReportBook, reports_in, store_path
from mooring.checkpoint.logs import BegunBatch, Commit


def committed(version: int, unique_id: str, store: str = "/c/state/0/1") -> dict[str, Any]:
    return {
        "report": "version-committed",
        "store": store,
        "host": "h1",
        "version": version,
        "id": unique_id,
        "base": f"before-{unique_id}",
        "keys": 7,
        "bytes": 100,
        "changelog": [{"name": f"{version}_{unique_id}.changelog", "bytes": 30, "crc32c": 5}],
    }


def uploaded(version: int, unique_id: str) -> dict[str, Any]:
    return {
        "report": "snapshot-saved",
        "store": "/c/state/0/1",
        "host": "h1",
        "version": version,
        "id": unique_id,
        "archive": [{"name": f"{version}_{unique_id}.zip", "bytes": 9, "crc32c": 6}],
        "files": [{"name": "1-a.sst", "bytes": 50, "crc32c": 8}, {"name": "2-b.sst", "bytes": 51}],
    }


def batch(number: int, *ids: str) -> tuple[Commit, BegunBatch]:
    return (
        Commit(number, 1_000, 42, {(0, 1): ids}),
        BegunBatch(number, 0, {"0": '{"logOffset":1}', "1": None}, "lz4", "RocksDBStateStoreProvider"),
    )


def rows_of(book: ReportBook, *batches: tuple[Commit, BegunBatch]) -> list[dict[str, Any]]:
    rows = book.rows(batches, {"query": "q", "deployment": "app", "line": 0}, {1: ["h2"]})
    book.drop_written(rows, batches[-1][0].batch)
    return [dict.fromkeys(COLUMNS) | row for row in rows]


def test_each_store_of_a_committed_batch_has_a_row_with_what_was_told() -> None:
    book = ReportBook()
    book.add(committed(4, "u"))
    (row,) = rows_of(book, batch(3, "u"))
    assert row["kind"] == "commit" and (row["batch"], row["version"], row["id"], row["base"]) == (3, 4, "u", "before-u")
    assert (
        row["changelog"] == {"name": "4_u.changelog", "bytes": 30, "crc32c": 5}
        and row["keys"] == 7
        and row["host"] == "h1"
    )
    assert row["store"] == "default" and row["watermark_ms"] == 42 and row["offsets"] == ['{"logOffset":1}', None]
    assert not book.commits


def test_what_nobody_told_leaves_a_gap_in_the_row_and_not_in_the_table() -> None:
    (row,) = rows_of(ReportBook(), batch(3, "u"))
    assert row["id"] == "u" and row["changelog"] is None and row["keys"] is None


def test_a_number_that_the_executor_did_not_know_is_null_and_zero_is_a_number() -> None:
    book = ReportBook()
    book.add(committed(4, "u") | {"keys": -1, "bytes": -1})
    (row,) = rows_of(book, batch(3, "u"))
    assert row["keys"] is None and row["bytes"] is None
    book.add(committed(5, "v") | {"keys": 0, "bytes": 0})
    (row,) = rows_of(book, batch(4, "v"))
    assert row["keys"] == 0 and row["bytes"] == 0


def test_a_version_of_a_task_that_was_given_up_has_no_row() -> None:
    book = ReportBook()
    book.add(committed(4, "zombie"))
    book.add(uploaded(4, "zombie"))
    assert [row["id"] for row in rows_of(book, batch(3, "u"))] == ["u"]


def test_a_snapshot_that_is_uploaded_later_has_a_row_of_its_own_with_its_batch() -> None:
    book = ReportBook()
    rows_of(book, batch(3, "u"))
    book.add(uploaded(4, "u"))
    rows = rows_of(book, batch(4, "v"))
    assert [row["kind"] for row in rows] == ["commit", "snapshot"]
    assert (rows[1]["batch"], rows[1]["version"], rows[1]["archive"]) == (
        3,
        4,
        {"name": "4_u.zip", "bytes": 9, "crc32c": 6},
    )
    assert rows[1]["files"] == [{"name": "1-a.sst", "bytes": 50, "crc32c": 8}, {"name": "2-b.sst", "bytes": 51}]


def test_several_stores_of_a_partition_are_told_apart_by_their_ids() -> None:
    book = ReportBook()
    book.add(committed(4, "r", "/c/state/0/1/right-keyToNumValues"))
    book.add(committed(4, "l", "/c/state/0/1/left-keyToNumValues"))
    rows = rows_of(book, batch(3, "l", "r"))
    assert [(row["id"], row["store"]) for row in rows] == [("l", "left-keyToNumValues"), ("r", "right-keyToNumValues")]


def test_reports_that_can_get_no_row_any_more_are_dropped() -> None:
    book = ReportBook()
    rows_of(book, batch(3, "u"))
    book.add(committed(4, "u"))  # its row is written already
    book.add(committed(4, "zombie"))
    book.add(committed(6, "w"))
    book.add(uploaded(1, "long ago"))
    rows_of(book, batch(4, "v"))
    assert set(book.commits) == {"w"} and set(book.snapshots) == {"long ago"}
    rows_of(book, batch(400, "x"))
    assert not book.commits and not book.snapshots


def test_a_snapshot_of_an_undone_version_has_no_row() -> None:
    book = ReportBook()
    undone = rows_of(book, batch(2, "t"), batch(3, "u"))
    book.note_rows_of_table(undone, last=2)
    book.add(uploaded(4, "u"))
    book.add(uploaded(3, "t"))
    assert [row["id"] for row in rows_of(book, batch(3, "again"))] == ["again", "t"]


def test_a_report_names_its_checkpoint_and_its_store() -> None:
    assert store_path(committed(1, "u", "/data/state/of/c/state/0/1/x")) == ("/data/state/of/c", ["0", "1", "x"])
    assert reports_in(json.dumps([committed(1, "u")])) == [committed(1, "u")]
