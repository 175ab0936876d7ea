from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.checkpoints.catalogue_keeper import CatalogueKeeper
from mooring.agent.checkpoints.table_damage import DamageCounts
from mooring.catalogue.rows import COLUMNS, CatalogueRow
from mooring.errors import AgentError
from mooring.metadata.local_tree import LocalFileTree
from mooring.metadata.tree import FileEntry, FileTree, Unreadable
from mooring.model import events
from mooring.testing.probes import wait_until
from tests.unit.checkpoint.made import Made

pytestmark = pytest.mark.slow


class InMemory:
    """As Delta's transactions have it: a writer's number is written once, and rises. SQL is SQLite's."""

    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.row_factory = sqlite3.Row
        self.written: dict[str, int] = {}
        self.named: set[str] = set()
        self.compacted: list[str] = []
        self.vacuumed = 0
        self.is_away = False
        self.has_bug = False
        self.is_damaged = False
        self.damaged_column: str | None = None  # none but this one, if it is set
        self.damage = "JsonEOFException: the log is damaged"

    def append(
        self, table: str, schema: str, partition_column: str, rows: list[CatalogueRow], writer: str, number: int
    ) -> None:
        if self.is_away:
            raise AgentError("the storage refuses")
        if self.has_bug:
            raise RuntimeError("a class of error that nobody expects")
        assert partition_column in COLUMNS
        self.named.add(table)
        columns = ", ".join(f'"{column}"' for column in COLUMNS)
        self.database.execute(f"CREATE TABLE IF NOT EXISTS rows ({columns})")
        if number > self.written.get(writer, -1):
            self.written[writer] = number
            for row in rows:
                values = [json.dumps(one) if isinstance(one, dict | list) else one for one in map(row.get, COLUMNS)]
                self.database.execute(f"INSERT INTO rows VALUES ({', '.join('?' * len(values))})", values)

    def select(self, path: str, columns: Sequence[str], where: str) -> list[CatalogueRow] | None:
        if self.is_damaged and columns != ("1",) and (self.damaged_column is None or self.damaged_column in columns):
            raise AgentError(self.damage)
        try:
            found = self.database.execute(f"SELECT {', '.join(columns)} FROM rows WHERE {where}").fetchall()
        except sqlite3.OperationalError as fault:
            assert "no such table" in str(fault)
            return None
        return [{key: row[key] for key in row.keys() if row[key] is not None} for row in found]  # noqa: SIM118

    def compact(self, table: str, where: str) -> None:
        self.compacted.append(where)

    def remove(self, table: str, where: str) -> None:
        self.database.execute(f"DELETE FROM rows WHERE {where}")

    def vacuum(self, path: str) -> None:
        self.vacuumed += 1

    def exists(self, path: str) -> bool:
        return self.select(path, ("1",), "true") is not None

    def rename(self, path: str, to: str) -> None:
        self.database.execute("ALTER TABLE rows RENAME TO aside")
        self.written.clear()
        self.is_damaged = False

    @property
    def rows(self) -> list[CatalogueRow]:
        return self.select("", ("*",), "true") or []

    @property
    def batches(self) -> list[int]:
        return sorted({row["batch"] for row in self.rows})


def keeper(
    tables: InMemory,
    checkpoint: Path,
    take_reports: Callable[[int], str] = lambda most: "[]",
    retain: int = 100,
    run: str = "run",
    **more: str,
) -> CatalogueKeeper:
    """Thirty seconds pass from each damaged reading of a table to the next."""
    made = CatalogueKeeper(tables, take_reports, LocalFileTree, print)
    conf = {
        "spark.mooring.checkpoint.catalog.interval": "1h",
        "spark.mooring.checkpoint.catalog.retain.batches": str(retain),
        **{f"spark.mooring.checkpoint.catalog.{name}": value for name, value in more.items()},
    }
    made._damage = DamageCounts(itertools.count(0, 30).__next__)
    made.handle(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
    made.handle(events.QueryPlanned(1, "q", run, "q", str(checkpoint), 0, {0: 2}))
    return made


def committed(made: Made) -> dict[str, Any]:
    """What an executor tells of the first version of the first partition."""
    return {
        "report": "version-committed",
        "store": f"{made.directory}/state/0/0",
        "host": "h1",
        "version": 1,
        "id": made.id_of(1, 0),
        "base": "",
        "keys": -1,
        "bytes": 5,
        "changelog": [],
    }


def test_each_pass_adds_the_batches_that_are_new(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.write()
    assert tables.batches == [0, 1, 2] and len(tables.rows) == 6
    made.add(3)
    catalogue.write()
    catalogue.write()
    assert tables.batches == [0, 1, 2, 3] and len(tables.rows) == 8
    catalogue.end()


def test_an_agent_that_comes_later_goes_on_after_the_last_batch_in_the_table(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    first = keeper(tables, made.directory)
    first.write()
    first.end()
    made.add(3)
    made.add(4)  # while no agent was there
    second = keeper(tables, made.directory)
    second.write()
    second.end()
    assert tables.batches == [0, 1, 2, 3, 4] and len(tables.rows) == 10


def test_two_agents_at_once_write_each_batch_once(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    one, other = keeper(tables, made.directory), keeper(tables, made.directory)
    one.write()
    other.write()
    made.add(3)
    for catalogue in (other, one):
        catalogue.write()
        catalogue.end()
    assert len(tables.rows) == 8


def test_what_storage_refuses_for_a_while_comes_later(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    catalogue = keeper(tables, made.directory)
    tables.is_away = True
    assert [str(fault) for fault in catalogue.write()] == ["the storage refuses"]
    tables.is_away = False
    assert catalogue.write() == []
    assert tables.batches == [0, 1, 2]
    catalogue.end()


def test_what_executors_have_told_is_in_the_rows(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), InMemory()
    told = [json.dumps([committed(made)]), "[]"]
    catalogue = CatalogueKeeper(tables, lambda most: told.pop(0), LocalFileTree, print)
    conf = {"spark.mooring.checkpoint.catalog.interval": "1h"}
    catalogue.handle(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
    catalogue.handle(events.QueryPlanned(1, "q", "run", "q", f"file:{made.directory}", 0, {0: 1}))
    catalogue._open_tree = lambda directory: LocalFileTree(directory.removeprefix("file:"))
    catalogue.write()
    assert tables.rows[0]["host"] == "h1"
    catalogue.end()


def test_a_batch_that_commits_while_the_log_is_looked_for_has_its_facts(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), InMemory()
    told: list[dict[str, Any]] = []

    class Meanwhile(LocalFileTree):
        """An executor tells, and its batch is committed, just before the commit log is listed."""

        def list(self) -> list[FileEntry]:
            told.append(committed(made))
            return super().list()

    def take_reports(most: int) -> str:
        taken = json.dumps(told)
        told.clear()
        return taken

    catalogue = keeper(tables, made.directory, take_reports)
    catalogue._open_tree = Meanwhile
    catalogue.write()
    assert [row["host"] for row in tables.rows] == ["h1"]
    catalogue.end()


def test_what_executors_have_told_outlives_a_storage_that_refuses(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), InMemory()
    told = [json.dumps([committed(made)]), "[]"]
    catalogue = keeper(tables, made.directory, lambda most: told.pop(0))
    tables.is_away = True
    assert [str(fault) for fault in catalogue.write()] == ["the storage refuses"]
    tables.is_away = False
    assert catalogue.write() == []
    assert [row["host"] for row in tables.rows] == ["h1"]
    catalogue.end()


def test_batches_that_were_undone_are_gone_and_those_that_came_instead_are_there(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=5), InMemory()
    first = keeper(tables, made.directory)
    first.write()
    first.end()
    for batch in (3, 4):
        (made.directory / "commits" / str(batch)).unlink()
    again = Made(tmp_path / "again", batches=6, ids="w")
    for batch in (3, 4, 5):
        for log in ("commits", "offsets"):
            (made.directory / log / str(batch)).write_bytes((again.directory / log / str(batch)).read_bytes())
    second = keeper(tables, made.directory, run="next")
    second.write()
    second.end()
    ids = {row["batch"]: row["id"] for row in tables.rows if row["partition"] == 0}
    assert ids == {batch: (made if batch < 3 else again).id_of(batch + 1, 0) for batch in range(6)}
    assert {row["line"] for row in tables.rows if row["batch"] < 3} == {0}
    assert {row["line"] for row in tables.rows if row["batch"] >= 3} == {1}


def test_a_commit_that_is_not_understood_removes_no_rows(tmp_path: Path) -> None:
    for content in ("v4\n{}", 'v1\n{"nextBatchWatermarkMs":0}', 'v2\n{"nextBatchWatermarkMs":0}'):
        made, tables = Made(tmp_path / f"{content[:2]} {len(content)}", batches=4), InMemory()
        keeper(tables, made.directory).write()
        before = tables.rows
        made.write("commits/3", content)
        keeper(tables, made.directory, run="another").write()
        assert tables.rows == before and tables.batches == [0, 1, 2, 3]


def test_a_table_of_a_newer_delta_is_not_set_aside(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    keeper(tables, made.directory).write()
    tables.is_damaged, tables.damage = True, "DELTA_INVALID_PROTOCOL_VERSION: a newer Delta has written delta_log"
    catalogue = keeper(tables, made.directory, run="another")
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
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    keeper(tables, made.directory).write()
    tables.is_damaged, tables.damage = True, said
    catalogue = keeper(tables, made.directory, run="another")
    assert [len(catalogue.write()) for _ in range(4)] == [1] * 4
    assert tables.is_damaged, "the table is where it was"


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
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    keeper(tables, made.directory).write()
    tables.is_damaged, tables.damage = True, said
    catalogue = keeper(tables, made.directory, run="another")
    assert [len(catalogue.write()) for _ in range(3)] == [1, 1, 0]
    assert not tables.is_damaged


def test_a_table_with_damage_in_one_column_is_set_aside(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    keeper(tables, made.directory).write()
    tables.is_damaged, tables.damaged_column = True, "store"
    catalogue = keeper(tables, made.directory, run="another")
    assert [len(catalogue.write()) for _ in range(3)] == [1, 1, 0]
    assert not tables.is_damaged and tables.batches == [0, 1, 2]


def test_a_commit_that_can_not_be_read_for_a_while_is_not_left_out(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=4), InMemory()
    refused = {"2"}

    class Refusing(LocalFileTree):
        def read(self, name: str, limit: int) -> bytes | Unreadable | None:
            return Unreadable("permission denied") if name in refused else super().read(name, limit)

    catalogue = keeper(tables, made.directory)
    catalogue._open_tree = Refusing
    assert catalogue.write() == [] and tables.batches == [0, 1]
    (fault,) = catalogue.write()
    assert str(fault).endswith("commits/2 can not be read: permission denied")
    refused.clear()
    assert catalogue.write() == [] and tables.batches == [0, 1, 2, 3]
    catalogue.end()


def test_reports_beyond_those_of_one_call_are_taken_too(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), InMemory()
    calls = 0

    def take_reports(most: int) -> str:
        nonlocal calls
        calls += 1
        others = [{**committed(made), "store": "/other/state/0/0", "id": str(number)} for number in range(most)]
        return json.dumps(others if calls == 1 else [committed(made)])

    catalogue = keeper(tables, made.directory, take_reports)
    catalogue.write()
    assert [row["host"] for row in tables.rows] == ["h1"]
    catalogue.end()


def test_a_query_that_has_ended_has_all_its_batches_and_is_then_forgotten(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=450), InMemory()
    catalogue = keeper(tables, made.directory, lambda most: json.dumps([committed(made)]))
    catalogue.handle(events.QueryEnded(2, "q", "run", ""))
    wait_until(lambda: not catalogue._queries, "the ended query to be forgotten", 20)
    assert tables.batches == list(range(450))
    assert catalogue._report_books, "reports may come late"
    with catalogue._lock:
        catalogue._unclaimed_since = dict.fromkeys(catalogue._report_books, float("-inf"))
    catalogue.write()
    assert not catalogue._report_books
    catalogue.end()


def test_the_end_of_the_application_is_not_the_end_of_the_last_batches(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.end()
    assert tables.batches == [0, 1, 2] and catalogue._thread is not None and not catalogue._thread.is_alive()


def test_a_failure_of_the_last_pass_is_not_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark may have ended before it. The batches get their rows at the next start."""
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    catalogue = keeper(tables, made.directory)
    tables.has_bug = True
    catalogue.end()
    assert tables.batches == [] and capsys.readouterr().out == ""


def test_an_error_that_nobody_expects_holds_up_no_other_query_and_no_later_pass(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    catalogue = keeper(tables, made.directory)
    tables.has_bug = True
    assert [type(fault) for fault in catalogue.write()] == [RuntimeError]
    tables.has_bug = False
    assert catalogue.write() == [] and tables.batches == [0, 1, 2]
    catalogue.end()


def test_the_reports_of_a_checkpoint_with_signs_in_its_path_are_found(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "100%20 #1?", batches=1, partitions=1), InMemory()

    def open_tree(directory: str) -> FileTree:
        return LocalFileTree(directory.removeprefix("file:"))

    catalogue = CatalogueKeeper(tables, lambda most: json.dumps([committed(made)]), open_tree, print)
    conf = {"spark.mooring.checkpoint.catalog.interval": "1h"}
    catalogue.handle(events.ApplicationStarted(1, "app-7", "job", conf, "", is_catalogued=True))
    catalogue.handle(events.QueryPlanned(1, "q", "run", "q", f"file:{made.directory}", 0, {0: 1}))
    catalogue.write()
    assert [row["host"] for row in tables.rows] == ["h1"]
    catalogue.end()


def test_a_lost_executor_holds_no_copy(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1), InMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.handle(events.ExecutorRegistered(1, "2", "host-b", 1, ""))
    catalogue.handle(events.CopiesSeen(1, "q", 1, (events.CopyOfState(0, "2", 1, 0, 5, 0),)))
    catalogue.handle(events.ExecutorLost(1, "2", "gone"))
    catalogue.write()
    catalogue.end()
    assert all(row.get("standby_hosts") is None for row in tables.rows)


def test_the_jvm_learns_when_reports_are_in_rows(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1), InMemory()
    told: list[list[int]] = []
    catalogue = keeper(tables, made.directory)
    catalogue._reports_written = lambda: told.append(tables.batches)
    tables.is_away = True
    assert catalogue.write() and not told
    tables.is_away = False
    assert not catalogue.write() and told == [[0]]
    catalogue.end()


def test_the_jvm_does_not_learn_it_while_further_batches_have_no_rows(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=201, partitions=1, archives=()), InMemory()
    told: list[int] = []
    catalogue = keeper(tables, made.directory)
    catalogue._reports_written = lambda: told.append(tables.batches[-1])
    for _ in range(2):
        assert not catalogue.write()
    assert told == [200]
    made.add(201)
    made.add(202)
    made.write("commits/202", "v1\n{")
    assert not catalogue.write() and tables.batches[-1] == 201
    assert told == [200]
    made.commit(202)
    assert not catalogue.write()
    assert told == [200, 202]
    catalogue.end()


def test_a_table_that_is_ahead_of_a_log_that_was_taken_back_waits_for_its_batches(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=5), InMemory()
    first = keeper(tables, made.directory)
    first.write()
    first.end()
    (made.directory / "commits" / "4").unlink()
    second = keeper(tables, made.directory, run="next")
    second.write()
    assert tables.batches == [0, 1, 2, 3]
    made.add(4)
    second.write()
    second.end()
    assert tables.batches == [0, 1, 2, 3, 4] and len(tables.rows) == 10


def test_a_table_that_is_gone_is_begun_anew_with_the_batches_that_the_log_has(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.write()
    tables.rename("", "")
    made.add(3)
    catalogue.write()
    catalogue.end()
    assert tables.batches == [0, 1, 2, 3] and len(tables.rows) == 8


def test_a_table_that_can_not_be_read_three_times_in_a_row_is_set_aside(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    first = keeper(tables, made.directory)
    first.write()
    first.end()
    tables.is_damaged = True
    second = keeper(tables, made.directory)
    for _ in range(2):
        assert [str(fault) for fault in second.write()] == ["JsonEOFException: the log is damaged"]
    assert second.write() == []
    second.end()
    assert tables.batches == [0, 1, 2] and len(tables.rows) == 6


def test_a_query_whose_table_can_not_be_written_holds_up_no_other(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.handle(events.QueryPlanned(1, "p", "run", "p", str(tmp_path / "gone"), 0, {0: 2}))
    (tmp_path / "gone").write_text("no directory")
    assert len(catalogue.write()) == 1 and tables.batches == [0, 1, 2]
    catalogue.end()


@pytest.mark.parametrize("ends", ["query", "application"])
def test_a_snapshot_that_is_reported_after_the_last_batch_has_a_row(tmp_path: Path, ends: str) -> None:
    made, tables = Made(tmp_path / "it", batches=2, partitions=1), InMemory()
    snapshot = {**committed(made), "report": "snapshot-saved", "archive": [], "files": []}
    told: list[dict[str, Any]] = [committed(made)]
    catalogue = keeper(tables, made.directory, lambda most: json.dumps(told))
    assert not catalogue.write()
    told[:] = [snapshot]
    assert not catalogue.write() and [row["kind"] for row in tables.rows] == ["commit", "commit"]
    if ends == "query":
        catalogue._queries["q"].has_ended = True
        assert not catalogue.write() and not catalogue._queries
    catalogue.end()
    assert [(row["kind"], row["batch"]) for row in tables.rows] == [("commit", 0), ("commit", 1), ("snapshot", 0)]


def test_a_query_that_has_ended_and_fails_ten_times_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    told: list[list[int]] = []
    catalogue = keeper(tables, made.directory)
    catalogue._reports_written = lambda: told.append(tables.batches)
    catalogue.handle(events.QueryPlanned(1, "p", "run", "p", str(tmp_path / "gone"), 0, {0: 2}))
    (tmp_path / "gone").write_text("no directory")
    catalogue._queries["p"].has_ended = True  # without the event: the thread would make passes of its own
    assert [len(catalogue.write()) for _ in range(9)] == [1] * 9
    assert not told and set(catalogue._queries) == {"q", "p"}
    made.add(3)
    assert catalogue.write() == []
    assert told == [[0, 1, 2, 3]] and set(catalogue._queries) == {"q"}
    assert capsys.readouterr().out.startswith("the catalogue lacks rows of the query p, which has ended (")
    catalogue.end()


def test_a_query_that_has_begun_again_is_not_given_up(tmp_path: Path) -> None:
    tables = InMemory()
    (tmp_path / "gone").write_text("no directory")
    catalogue = keeper(tables, tmp_path / "gone")
    catalogue._queries["q"].has_ended = True
    for _ in range(9):
        assert catalogue.write()
    catalogue.handle(events.QueryPlanned(1, "q", "next", "q", str(tmp_path / "gone"), 0, {0: 2}))
    assert [len(catalogue.write()) for _ in range(3)] == [1] * 3
    catalogue._queries["q"].has_ended = True
    assert catalogue.write() and set(catalogue._queries) == {"q"}
    catalogue.end()


def test_a_snapshot_that_is_told_after_the_agent_was_replaced_has_its_row_once(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1, partitions=1), InMemory()
    fact = {**committed(made), "report": "snapshot-saved", "archive": [], "files": []}
    first = keeper(tables, made.directory)
    first.write()
    first.end()
    for batch in (1, 2):
        made.add(batch)
        second = keeper(tables, made.directory, lambda most: json.dumps([fact]))
        second.write()
        second.end()
    assert [row["kind"] for row in tables.rows].count("snapshot") == 1


def test_old_batches_go_five_hundred_at_a_time(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=0), InMemory()
    catalogue = keeper(tables, made.directory, retain=150)
    for batch in range(660):
        made.add(batch)
    for _ in range(3):  # two hundred a pass at most
        catalogue.write()
    assert tables.batches == list(range(600))
    catalogue.write()
    assert tables.batches == list(range(500, 660))
    catalogue.end()


def test_old_batches_of_short_runs_go_too(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=0), InMemory()
    for batch in range(660):
        made.add(batch)
        if batch % 150 == 149 or batch == 659:
            catalogue = keeper(tables, made.directory, run=f"run {batch}")
            catalogue.write()
            catalogue.end()
    assert tables.batches == list(range(500, 660))


def test_what_is_kept_for_long_is_compacted_when_it_is_full(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=0), InMemory()
    catalogue = keeper(tables, made.directory, retain=100_000)
    for batch in range(660):
        made.add(batch)
    for _ in range(4):
        catalogue.write()
    catalogue.end()
    assert tables.vacuumed == 1, "the small files that were merged go too"
    assert tables.compacted == ["hundred >= -4 AND hundred < 1", "hundred >= 1 AND hundred < 6"]
    assert tables.batches == list(range(660))


def test_queries_may_share_a_table_and_lose_their_own_old_batches_only(tmp_path: Path) -> None:
    made, other, tables = Made(tmp_path / "it", batches=0), Made(tmp_path / "other", batches=3), InMemory()
    catalogue = keeper(tables, made.directory, retain=50, table="ops.state_versions")
    catalogue.handle(events.QueryPlanned(1, "p", "run", "p", str(other.directory), 0, {0: 2}))
    for batch in range(560):
        made.add(batch)
    for _ in range(3):
        assert catalogue.write() == []
    catalogue.end()
    assert tables.named == {"ops.state_versions"}
    batches = {query: [row["batch"] for row in tables.rows if row["query"] == query] for query in "qp"}
    assert min(batches["q"]) == 500 and sorted(set(batches["p"])) == [0, 1, 2]


def test_a_table_that_is_shared_is_not_set_aside(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=3), InMemory()
    first = keeper(tables, made.directory, table="/ops/state_versions")
    first.write()
    first.end()
    tables.is_damaged = True
    second = keeper(tables, made.directory, table="/ops/state_versions")
    assert [len(second.write()) for _ in range(5)] == [1] * 5
    tables.is_damaged = False
    assert second.write() == []
    second.end()
    assert len(tables.rows) == 6


def test_who_holds_copies_is_in_the_rows(tmp_path: Path) -> None:
    made, tables = Made(tmp_path / "it", batches=1), InMemory()
    catalogue = keeper(tables, made.directory)
    catalogue.handle(events.ExecutorRegistered(1, "2", "host-b", 1, ""))
    copies = (events.CopyOfState(0, "2", 1, 0, 5, 0), events.CopyOfState(1, "2", -1, 0, 0, 0))
    catalogue.handle(events.CopiesSeen(1, "q", 1, copies))
    catalogue.write()
    catalogue.end()
    assert {row["partition"]: row.get("standby_hosts") for row in tables.rows} == {0: '["host-b"]', 1: None}


def test_without_delta_there_is_no_thread(tmp_path: Path) -> None:
    catalogue = CatalogueKeeper(InMemory(), lambda most: "[]", LocalFileTree, print)
    catalogue.handle(events.ApplicationStarted(1, "app-7", "job", {}, ""))
    catalogue.handle(events.QueryPlanned(1, "q", "run", "q", str(tmp_path), 0, {0: 2}))
    assert catalogue._thread is None
