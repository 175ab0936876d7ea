"""A Python data source over the lines of a file, with a reader of each kind that Spark has. It notes Spark's calls."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

Offset = dict[str, int]
STEP = 50
"""The number of lines in a read that has a limit."""

STEPWISE = "simple, in steps"
PYTHON_KINDS = [
    "simple",
    STEPWISE,
    "simple, available now",
    "full, by the old signature",
    "full",
    "full, available now",
    "full, available now, least rows",
]
SCALA_KINDS = ["v1", "v1, admission", "v1, available now", "v2", "v2, admission", "v2, available now"]
"""The kinds in `jobs/scala/LinesSource.scala`: by Spark's first and second API for sources."""


@dataclass(frozen=True)
class Call:
    """One call of a source: `start` is the offset in the call; `end` is the offset that it returned or was given."""

    method: str
    start: int | None = None
    end: int | None = None
    limit: str = ""


class Lines:
    """The file, the notes beside it, and gates at which a call of a method waits."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self._rows, self._calls = self.directory / "rows", self.directory / "calls"

    def write(self, rows: list[tuple[int, int]]) -> None:
        """Add rows: key and time in milliseconds."""
        with self._rows.open("a") as file:
            file.write("".join(f"{json.dumps(row)}\n" for row in rows))

    def rows(self, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        text = self._rows.read_text() if self._rows.exists() else ""
        return [(key, ms) for key, ms in map(json.loads, text.splitlines()[start:end])]

    def note(self, method: str, start: Offset | None = None, end: Offset | None = None, limit: object = "") -> None:
        at = [None if offset is None else offset["line"] for offset in (start, end)]
        with self._calls.open("a") as file:
            file.write(json.dumps([method, *at, type(limit).__name__ if limit else ""]) + "\n")

    def calls(self) -> list[Call]:
        """The calls so far, in order."""
        return [Call(*json.loads(line)) for line in self._calls.read_text().splitlines()]

    def was_asked(self) -> bool:
        return self._calls.exists()

    def forget_calls(self) -> None:
        """Put aside the calls of a run that is over."""
        self._calls.rename(self.directory / "calls of an earlier run")

    def assert_asked_as_spark_asks(self) -> None:
        """Check that the calls of one run of a query are as Spark makes them.

        Each offset is asked for from the end of the last batch. An offset that was returned gets a batch before the
        next call. There is at most one preparation. For a simple reader no batches are noted; there each returned
        offset counts as a batch.
        """
        calls = self.calls()
        plans = any(call.method == "plan" for call in calls)
        ended: int | None = None  # where the last batch ended
        owed: int | None = None  # a new offset that has no batch yet
        for call in calls:
            if call.method == "ask":
                assert owed is None, f"asked before there was a batch up to {owed}: {calls}"
                assert call.start is None or ended in (None, call.start), (
                    f"asked from {call.start}, not {ended}: {calls}"
                )
                owed = call.end if plans and call.end != (ended or 0) else None
                ended = ended if plans else call.end
            elif call.method == "prepare":
                assert owed is None, f"prepared before there was a batch up to {owed}: {calls}"
            elif call.method == "plan" and call.start != call.end:
                assert owed in (None, call.end), f"a batch up to {call.end}, not {owed}: {calls}"
                ended, owed = call.end, None
        assert owed is None, f"there was no batch up to {owed}: {calls}"
        assert sum(call.method == "prepare" for call in calls) <= 1, calls

    def shut(self, gate: str) -> Path:
        """Shut a gate: the next call of its method waits until the returned file is removed."""
        file = self.directory / f"{gate}.gate"
        file.touch()
        return file

    def is_held(self, gate: str) -> bool:
        return (self.directory / f"{gate}.held").exists()

    def newest(self, mark: int | None, start: Offset) -> int:
        """The last line, or the mark. The call passes the gate `ask`, and with a mark also the gate `bounded`."""
        self.pass_gate("ask")
        if mark is None:
            return len(self.rows())
        self.pass_gate("bounded")
        return max(mark, start["line"])

    def pass_gate(self, gate: str) -> None:
        file = self.directory / f"{gate}.gate"
        while file.exists():
            (self.directory / f"{gate}.held").touch()
            time.sleep(0.02)


def rows_of_lines(spark: SparkSession, lines: Lines, kind: str) -> DataFrame:
    """The lines as a stream of `key` and `time`."""
    spark.dataSource.register(LinesSource)
    scala = "org.apache.spark.sql.lines.Lines"
    formats = {"v1": f"{scala}V1", "v2": f"{scala}V2"}
    reader = spark.readStream.format(formats.get(kind.split(",")[0], "lines"))
    return reader.option("directory", str(lines.directory)).option("kind", kind).load()


class LinesSource(DataSource):
    """The data source. Its options are `directory` and `kind`, one of PYTHON_KINDS."""

    @classmethod
    def name(cls) -> str:
        return "lines"

    def schema(self) -> str:
        return "key LONG, time TIMESTAMP"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        if self.options["kind"].startswith("simple"):
            reader: DataSourceStreamReader = super().streamReader(schema)  # says that there is none
            return reader
        readers = {
            "full, by the old signature": OldReader,
            "full": LimitedReader,
            "full, available now": BoundedReader,
            "full, available now, least rows": PatientReader,
        }
        return readers[self.options["kind"]](Lines(self.options["directory"]))

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        lines = Lines(self.options["directory"])
        if self.options["kind"] == "simple, available now":
            return BoundedSimpleReader(lines)
        return SimpleReader(lines, STEP if self.options["kind"] == STEPWISE else None)


def rows_of(lines: Lines, start: int, end: int) -> Iterator[tuple[int, datetime]]:
    for key, ms in lines.rows(start, end):
        yield key, datetime.fromtimestamp(ms / 1000, timezone.utc)


class SimpleReader(SimpleDataSourceStreamReader):
    def __init__(self, lines: Lines, step: int | None = None) -> None:
        self.lines, self.step = lines, step
        self.mark: int | None = None

    def initialOffset(self) -> Offset:
        return {"line": 0}

    def read(self, start: Offset) -> tuple[Iterator[tuple[int, datetime]], Offset]:
        newest = self.lines.newest(self.mark, start)
        end = {"line": newest if self.step is None else min(newest, start["line"] + self.step)}
        self.lines.note("ask", start, end)
        return iter(list(rows_of(self.lines, start["line"], end["line"]))), end

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[tuple[int, datetime]]:
        return rows_of(self.lines, start["line"], end["line"])

    def commit(self, end: Offset) -> None:
        self.lines.note("commit", end=end)


class BoundedSimpleReader(SimpleReader, SupportsTriggerAvailableNow):
    def prepareForTriggerAvailableNow(self) -> None:
        self.lines.note("prepare")
        self.mark = len(self.lines.rows())


@dataclass
class Part(InputPartition):
    start: int
    end: int


class _FullReader(DataSourceStreamReader):
    mark: int | None = None

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    def initialOffset(self) -> Offset:
        return {"line": 0}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        self.lines.pass_gate("plan")
        self.lines.note("plan", start, end)
        return [Part(start["line"], end["line"])] if start != end else []

    def read(self, partition: Any) -> Iterator[tuple[int, datetime]]:
        return rows_of(self.lines, partition.start, partition.end)

    def commit(self, end: Offset) -> None:
        self.lines.note("commit", end=end)

    def newest(self, start: Offset) -> int:
        return self.lines.newest(self.mark, start)


class OldReader(_FullReader):
    """A reader with the signatures of Spark 4.0 and 4.1."""

    def latestOffset(self) -> Offset:
        end = {"line": self.newest({"line": 0})}
        self.lines.note("ask", None, end)
        return end


class LimitedReader(_FullReader):
    """A reader that returns a few lines at a time, or all."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(STEP)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        end = {"line": self.end_of(start["line"], self.newest(start), limit)}
        self.lines.note("ask", start, end, limit)
        return end

    def end_of(self, start: int, newest: int, limit: ReadLimit) -> int:
        if isinstance(limit, ReadMaxRows):
            return min(newest, start + limit.max_rows)
        assert isinstance(limit, ReadAllAvailable), limit
        return newest

    def reportLatestOffset(self) -> Offset:
        return {"line": len(self.lines.rows())}


class BoundedReader(LimitedReader, SupportsTriggerAvailableNow):
    def prepareForTriggerAvailableNow(self) -> None:
        self.lines.note("prepare")
        self.mark = len(self.lines.rows())


class PatientReader(BoundedReader):
    """A reader that waits for many lines, also before its mark, as Spark's documentation allows."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMinRows(STEP)

    def end_of(self, start: int, newest: int, limit: ReadLimit) -> int:
        return start if isinstance(limit, ReadMinRows) and newest - start < limit.min_rows else newest
