"""A drain of a source of each API of Spark, begun at each point of a batch: how it is asked, and what comes out.

Each source reads the lines of a file, and notes how it is asked. What is to come out is computed without Spark.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from mooring.client import MooringClient
from mooring.jar import jar_path
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application
from tests.integration.support.drained_query import Run, is_drain_waiting
from tests.integration.support.job_runs import JOBS, compile_scala
from tests.integration.support.lines_source import PYTHON_KINDS, SCALA_KINDS, STEP, STEPWISE, Lines, rows_of_lines
from tests.integration.support.queries_with_pending_output import EVENTS, window_counts, windows
from tests.integration.support.query_in_one_jvm import Job

pytestmark = [pytest.mark.one_jvm, pytest.mark.heavy]

FIRST = 120
"""How many lines there are at the beginning, where more come later."""
FEW = STEP - 10


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    here = tmp_path_factory.mktemp("sources")
    jar = compile_scala(JOBS / "scala" / "LinesSource.scala", here / "lines.jar")
    jars = {"spark.jars": f"{jar_path()},{jar}", "spark.driver.extraClassPath": str(jar)}
    with application("sources", here, jars, has_own_jvm=True, drain_poll_interval="100ms") as session:
        yield session


class Reading:
    """A query over the lines, whose tasks wait at the gate `task`, and its results at the gate `result`."""

    def __init__(self, spark: SparkSession, directory: Path, kind: str) -> None:
        directory.mkdir(exist_ok=True)
        (directory / "source").mkdir()
        self.spark, self.kind, self.lines = spark, kind, Lines(directory / "source")
        at_task, at_result = gate(self.lines, "task"), gate(self.lines, "result")
        rows = rows_of_lines(spark, self.lines, kind).where(at_task("key")).withWatermark("time", "10 seconds")
        self.job = Job(spark, directory, window_counts(rows).where(at_result("events")))

    def start(self) -> None:
        self.query = self.job.start()

    def start_with_the_first_lines(self) -> None:
        self.lines.write(EVENTS[:FIRST])
        self.start()
        self.has_read(FIRST)

    def has_read(self, lines: int) -> None:
        """Return when so many lines are processed."""

        def is_read() -> bool:
            assert self.query.exception() is None
            progress = self.query.lastProgress
            end = str(progress["sources"][0]["endOffset"]) if progress else ""
            return re.findall(r"\d+", end) == [str(lines)]

        wait_until(is_read, f"{lines} lines to be read", 90)

    def hold_at(self, gate: str, begin: Callable[[], None]) -> Path:
        """Whoever comes there after `begin` is held; the file that is to be removed for it to go on."""
        file = self.lines.shut(gate)
        begin()
        wait_until(lambda: self.lines.is_held(gate), f"it to be held at {gate}", 90)
        return file

    def ask_for_drain(self) -> None:
        """And return when the query hears of it, or waits to."""
        with MooringClient.open(self.spark.conf.get("spark.mooring.metadata")) as client:
            client.drain(self.spark.sparkContext.applicationId, self.query.id)
        wait_until(lambda: self.marker("draining") is not None or self.is_drained(), "the drain to be begun", 90)

    def wait_at_the_edge(self) -> None:
        wait_until(lambda: is_drain_waiting(self.spark), "the drain to wait for the batch to be made", 90)

    def marker(self, name: str) -> dict[str, Any] | None:
        file = self.job.checkpoint / "_mooring" / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else None

    def is_drained(self) -> bool:
        return self.marker("drained") is not None

    def start_anew(self, file: Path) -> None:
        """Cut the query off while it is held, and start it again."""
        self.query.stop()
        file.unlink()
        self.lines.forget_calls()
        self.start()

    def assert_drained(self, wanted: int) -> None:
        """All of the first `wanted` lines came out, and no other; and it was asked as Spark asks."""
        assert self.query.awaitTermination(120), self.query.status
        assert self.query.exception() is None
        marker = self.marker("drained")
        assert marker is not None and marker["state-rows-left"] == 0
        offsets = [json.loads(offset)["line"] for offset in marker["offsets"] if offset]
        read = offsets[0] if offsets else 0
        if self.kind == STEPWISE:  # one more read is all that it can be asked for
            assert read <= wanted
        else:
            assert read == wanted
        self.lines.assert_asked_as_spark_asks()
        calls = self.lines.calls()
        if self.kind in ("full", "v1, admission", "v2, admission"):
            assert sum(call.limit == "ReadAllAvailable" for call in calls) == 1, "once more, for all that it has"
        if self.kind in SCALA_KINDS:
            assert sum(call.method == "stop" for call in calls) == 1
        if read:
            rows = self.job.rows()
            answer = self.spark.createDataFrame(windows(EVENTS[:read]), rows.schema)
            assert_df_equality(rows, answer, ignore_row_order=True, ignore_nullable=True)


def gate(lines: Lines, name: str) -> Callable[..., Column]:
    def passes(_: int) -> bool:
        lines.pass_gate(name)
        return True

    return f.udf(passes, "boolean")


def before_the_first_batch(reading: Reading) -> int:
    reading.start()
    wait_until(reading.lines.was_asked, "it to be asked", 90)
    reading.ask_for_drain()
    return 0


def idle(reading: Reading) -> int:
    reading.lines.write(EVENTS)
    reading.start()
    reading.has_read(len(EVENTS))
    reading.ask_for_drain()
    return len(EVENTS)


def while_its_first_batch_is_made(reading: Reading) -> int:
    file = reading.hold_at("ask", reading.start)
    reading.ask_for_drain()
    reading.wait_at_the_edge()
    reading.lines.write(EVENTS)
    file.unlink()
    return len(EVENTS)


def while_a_batch_is_made(reading: Reading) -> int:
    file = _held_in_the_batch_of_the_rest(reading, "ask")
    reading.ask_for_drain()
    reading.wait_at_the_edge()
    file.unlink()
    return len(EVENTS)


def _held_in_the_batch_of_the_rest(reading: Reading, at: str) -> Path:
    """The query has read the first lines. Its next batch, of all other lines, is held at a gate; the gate's file."""
    reading.start_with_the_first_lines()
    return reading.hold_at(at, lambda: reading.lines.write(EVENTS[FIRST:]))


def _asked_in_a_batch(reading: Reading, at: str) -> int:
    file = _held_in_the_batch_of_the_rest(reading, at)
    reading.ask_for_drain()
    file.unlink()
    return len(EVENTS)


def when_offsets_are_written(reading: Reading) -> int:
    return _asked_in_a_batch(reading, "plan")


def while_a_batch_runs(reading: Reading) -> int:
    return _asked_in_a_batch(reading, "task")


def in_a_batch_without_data(reading: Reading) -> int:
    reading.lines.write(EVENTS)
    file = reading.hold_at("result", reading.start)
    reading.ask_for_drain()
    file.unlink()
    return len(EVENTS)


def started_again_in_the_batch_that_was_asked_in(reading: Reading) -> int:
    file = _held_in_the_batch_of_the_rest(reading, "task")
    reading.ask_for_drain()
    reading.start_anew(file)
    return len(EVENTS)


def _frozen_before_the_rest_comes(reading: Reading) -> Path:
    """The query is held where the drain has frozen what it reads, which is the first lines; the gate's file."""
    reading.start_with_the_first_lines()
    file = reading.hold_at("bounded", reading.ask_for_drain)
    reading.lines.write(EVENTS[FIRST:])
    return file


def started_again_when_it_is_frozen(reading: Reading) -> int:
    """More lines come after the freeze, and are read by the second run only, which freezes anew."""
    file = _frozen_before_the_rest_comes(reading)
    reading.start_anew(file)
    return len(EVENTS)


def when_there_are_few_lines(reading: Reading) -> int:
    """Fewer than a source waits for that waits for a least number."""
    reading.start_with_the_first_lines()
    reading.lines.write(EVENTS[FIRST : FIRST + FEW])
    reading.ask_for_drain()
    return FIRST + FEW


def lines_that_come_after_the_freeze_are_not_read(reading: Reading) -> int:
    file = _frozen_before_the_rest_comes(reading)
    file.unlink()
    return FIRST


BOUNDED = [kind for kind in (*PYTHON_KINDS, *SCALA_KINDS) if "available now" in kind]
IN_ONE_BATCH = ["simple", "full, by the old signature", "v1", "v2"]
TABLE = [
    *((while_a_batch_is_made, kind) for kind in (*PYTHON_KINDS, *SCALA_KINDS)),
    *((idle, kind) for kind in (*PYTHON_KINDS, *SCALA_KINDS)),
    *((before_the_first_batch, kind) for kind in ("simple", "full", "full, available now", "v1", "v2, admission")),
    *((while_its_first_batch_is_made, kind) for kind in ("simple", STEPWISE, "full", "v1", "v2, available now")),
    *((when_offsets_are_written, kind) for kind in ("full", "full, available now", "v1, admission", "v2")),
    *((while_a_batch_runs, kind) for kind in ("simple", STEPWISE, "full, available now", "v1", "v2, admission")),
    *((in_a_batch_without_data, kind) for kind in IN_ONE_BATCH),
    *(
        (started_again_in_the_batch_that_was_asked_in, kind)
        for kind in ("simple", STEPWISE, "full, available now", "v1", "v2, admission")
    ),
    (when_there_are_few_lines, "full, available now, least rows"),
    *((started_again_when_it_is_frozen, kind) for kind in BOUNDED),
    *((lines_that_come_after_the_freeze_are_not_read, kind) for kind in BOUNDED),
]


@pytest.mark.parametrize(
    ("point", "kind"), TABLE, ids=[f"{kind}: {point.__name__.replace('_', ' ').strip()}" for point, kind in TABLE]
)
def test_a_source_is_asked_as_spark_asks_it(
    point: Callable[[Reading], int], kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    reading = Reading(spark, tmp_path, kind)
    wanted = point(reading)
    reading.assert_drained(wanted)


def test_a_socket_is_read_up_to_one_moment(spark: SparkSession, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=[server], daemon=True).start()
        reader = spark.readStream.format("socket").option("host", "127.0.0.1")
        text = reader.option("port", server.getsockname()[1]).load()
        parts = f.split("value", " ")
        rows = text.select(parts[0].cast("long").alias("key"), f.timestamp_millis(parts[1].cast("long")).alias("time"))
        run = Run(spark, tmp_path, "socket", window_counts(rows.withWatermark("time", "10 seconds")))
        run.read_all()
        assert run.drain()["state-rows-left"] == 0
    run.assert_all_came_out()


def serve(server: socket.socket) -> None:
    """Send all events to who comes first, and keep the connection."""
    connection, _ = server.accept()
    connection.sendall("".join(f"{key} {ms}\n" for key, ms in EVENTS).encode())
    connection.recv(1)  # until the query ends


def test_what_is_added_to_a_memory_stream_before_the_freeze_comes_out(spark: SparkSession, tmp_path: Path) -> None:
    jvm = spark.sparkContext._jvm
    java = jvm.org.apache.spark.sql
    stream = java.execution.streaming.runtime.MemoryStream.apply(java.Encoders.STRING(), spark._jsparkSession)
    rows = DataFrame(stream.toDF(), spark).select(
        f.split("value", " ")[0].cast("long").alias("key"),
        f.timestamp_millis(f.split("value", " ")[1].cast("long")).alias("time"),
    )
    run = Run(spark, tmp_path, "memory", window_counts(rows.withWatermark("time", "10 seconds")))
    for part in (EVENTS[:FIRST], EVENTS[FIRST:]):
        stream.addData(jvm.PythonUtils.toSeq([f"{key} {ms}" for key, ms in part]))
    assert run.drain()["state-rows-left"] == 0
    run.assert_all_came_out()
