"""Every kind of state, in one JVM: what is held back comes out, and none is left; beside it, what stock Spark leaves.

The input is four small files, one a batch. What is to come out is computed without Spark.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from mooring import configure
from mooring.client import MooringClient
from mooring.drain import StopMode
from mooring.jar import jar_path
from mooring.testing.events import START_MS, utc
from mooring.testing.probes import wait_until
from tests.integration.jobs.timers_that_set_timers import Chain

SEED = 11
EVENTS = [
    (key, START_MS + at) for rng in [random.Random(SEED)] for at in range(0, 60_000, 150) for key in [rng.randrange(5)]
]
"""Key and time in milliseconds; in order, so that none is late."""

GAP_MS, WINDOW_MS, MINUTE_MS = 2_000, 10_000, 60_000
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """An application with the plugin, as in a notebook."""
    here = tmp_path_factory.mktemp("drains")
    builder = configure(
        SparkSession.builder.master("local[2]").appName("drains"),
        metadata=str(here / "metadata"),
        local_store_dir=str(here / "store"),
        drain_poll_interval="100ms",
    )
    settings = {
        "spark.jars": str(jar_path()),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(here / "warehouse"),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    yield session
    session.stop()


@pytest.fixture
def raw(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """The input as a stream: `key` and `time`."""
    directory = tmp_path / "events"
    directory.mkdir()
    for number in range(4):
        part = EVENTS[number * len(EVENTS) // 4 : (number + 1) * len(EVENTS) // 4]
        lines = [json.dumps({"key": key, "time": utc(ms)}) for key, ms in part]
        file = directory / f"{number}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (START_MS / 1000 + number,) * 2)  # the order in which Spark reads them
    return spark.readStream.schema("key LONG, time TIMESTAMP").option("maxFilesPerTrigger", 1).json(str(directory))


@pytest.fixture
def events(raw: DataFrame) -> DataFrame:
    """The same with a watermark of ten seconds."""
    return raw.withWatermark("time", "10 seconds")


class Run:
    """One query over all of the input, in a checkpoint of its own; its rows are in a table of its name."""

    def __init__(
        self, spark: SparkSession, directory: Path, name: str, frame: DataFrame, mode: str = "append", **by: Any
    ):
        self.spark, self.name, self.checkpoint = spark, name, directory / name
        writer = frame.writeStream.queryName(name).outputMode(mode).format("memory")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self.query: StreamingQuery = (writer.trigger(**by) if by else writer).start()

    def read_all(self) -> None:
        """Return when the input is read. Spark's own wait has no end for queries that go by the time of the day."""

        def is_read() -> bool:
            return sum(progress["numInputRows"] for progress in self.query.recentProgress) >= len(EVENTS)

        wait_until(is_read, f"{self.name} to have read its input", 90)

    def drain(self) -> dict[str, Any]:
        """Have it drained; what the checkpoint says of that."""
        with MooringClient.open(self.spark.conf.get("spark.mooring.metadata")) as client:
            client.drain(self.spark.sparkContext.applicationId, self.name)
        assert self.query.awaitTermination(90), self.query.status
        assert self.query.exception() is None
        marker: dict[str, Any] = json.loads((self.checkpoint / "_mooring" / "drained.json").read_text())
        return marker

    def rows(self) -> DataFrame:
        return self.spark.table(self.name)

    def state_rows(self) -> int:
        return sum(operator["numRowsTotal"] for operator in self.query.lastProgress["stateOperators"])


def session_starts(key: int) -> list[list[int]]:
    """The times of the events of each session of a key."""
    sessions: list[list[int]] = []
    for ms in sorted(ms for of, ms in EVENTS if of == key):
        if not sessions or ms - sessions[-1][-1] >= GAP_MS:
            sessions.append([])
        sessions[-1].append(ms)
    return sessions


def start_of(ms: int, length: int) -> int:
    return ms // length * length


def windows() -> Rows:
    counts = Counter((start_of(ms, WINDOW_MS), key) for key, ms in EVENTS)
    return [(start, key, count) for (start, key), count in counts.items()]


def sessions() -> Rows:
    return [(one[0], one[-1] + GAP_MS, key, len(one)) for key in range(5) for one in session_starts(key)]


def sessions_by_minute() -> Rows:
    """A session counts in the minute in which it ends."""
    totals: defaultdict[int, list[int]] = defaultdict(list)
    for _, end, _, count in sessions():
        totals[start_of(end - 1, MINUTE_MS)].append(count)
    return [(start, len(counts), sum(counts)) for start, counts in totals.items()]


def odd_partners() -> Rows:
    """Of each window of a left side, all events; the right side has those of odd keys only."""
    counts = Counter((start_of(ms, MINUTE_MS), key % 2) for key, ms in EVENTS)
    return [(start, matched == 1, count) for (start, matched), count in counts.items()]


def window_counts(events: DataFrame) -> DataFrame:
    counted = events.groupBy(f.window("time", "10 seconds"), "key").agg(f.count("*").alias("events"))
    return counted.select(f.unix_millis("window.start").alias("start"), "key", "events")


def session_counts(events: DataFrame) -> DataFrame:
    counted = events.groupBy(f.session_window("time", "2 seconds").alias("window"), "key").count()
    return counted.select(
        f.unix_millis("window.start").alias("start"), f.unix_millis("window.end").alias("end"), "key", "count"
    )


def sessions_in_windows(events: DataFrame) -> DataFrame:
    counted = events.groupBy(f.session_window("time", "2 seconds"), "key").count()
    minutes = counted.groupBy(f.window(f.window_time("session_window"), "1 minute"))
    totals = minutes.agg(f.count("*").alias("sessions"), f.sum("count").alias("events"))
    return totals.select(f.unix_millis("window.start").alias("start"), "sessions", "events")


def outer_join_in_windows(events: DataFrame) -> DataFrame:
    right = events.where("key % 2 = 1").select(f.col("key").alias("partner"), f.col("time").alias("at"))
    joined = events.join(right, f.expr("key = partner AND at = time"), "leftOuter")
    counted = joined.groupBy(f.window("time", "1 minute"), f.isnotnull("partner").alias("matched")).count()
    return counted.select(f.unix_millis("window.start").alias("start"), "matched", "count")


def distinct(events: DataFrame) -> DataFrame:
    return events.dropDuplicatesWithinWatermark(["key", "time"]).select("key", f.unix_millis("time").alias("time"))


def timers(events: DataFrame) -> DataFrame:
    return events.groupBy("key").transformWithState(
        statefulProcessor=Chain(), outputStructType="key LONG, timer LONG", outputMode="append", timeMode="eventTime"
    )


def timers_of_processing_time(events: DataFrame) -> DataFrame:
    return events.groupBy("key").transformWithState(
        statefulProcessor=Chain(),
        outputStructType="key LONG, timer LONG",
        outputMode="append",
        timeMode="processingTime",
    )


def timed_out_counts(events: DataFrame) -> DataFrame:
    def count(key: Any, frames: Any, state: Any) -> Iterator[Any]:
        import pandas as pd

        if state.hasTimedOut:
            (counted,) = state.get
            state.remove()
            yield pd.DataFrame({"key": [key[0]], "events": [counted]})
        else:
            before = state.get[0] if state.exists else 0
            state.update((before + sum(len(frame) for frame in frames),))
            state.setTimeoutDuration(3_600_000)

    grouped = events.groupBy("key")
    return grouped.applyInPandasWithState(
        count, "key LONG, events LONG", "events LONG", "append", GroupStateTimeout.ProcessingTimeTimeout
    )


@dataclass(frozen=True)
class Kind:
    """A query, and all that it has to say of the input."""

    frame: Callable[[DataFrame], DataFrame]
    answer: Callable[[], Rows]
    chain: int = 1
    """How many levels feed each other: a flush needs one batch for each, and perhaps one more."""
    is_endless: bool = False
    """Whether it goes by the time of the day: then stock Spark's availableNow does not end."""


def by_key() -> Rows:
    return list(Counter(key for key, _ in EVENTS).items())


def chain_of_timers() -> Rows:
    """Each key's timer sets two more, one after the other."""
    return [(key, number) for key in range(5) for number in (1, 2, 3)]


QUICK = {"sessions into windows", "timers of processing time"}
KINDS = {
    "windows": Kind(window_counts, windows),
    "sessions": Kind(session_counts, sessions),
    "sessions into windows": Kind(sessions_in_windows, sessions_by_minute, chain=2),
    "outer join into windows": Kind(outer_join_in_windows, odd_partners, chain=2),
    "duplicates within the watermark": Kind(distinct, lambda: list(EVENTS)),
    "timers that set timers": Kind(timers, chain_of_timers, chain=3),
    "timers of processing time": Kind(timers_of_processing_time, chain_of_timers, chain=3, is_endless=True),
    "timeouts of processing time": Kind(timed_out_counts, by_key, is_endless=True),
}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.heavy) for name in KINDS]
)
def test_all_that_was_held_back_comes_out(name: str, spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    kind = KINDS[name]
    run = Run(spark, tmp_path, name.replace(" ", "_"), kind.frame(events))
    run.read_all()
    before, held = run.rows().count(), run.state_rows()
    marker = run.drain()
    wanted = spark.createDataFrame(kind.answer(), run.rows().schema)
    print(f"{name}: {before} rows and {held} rows of state before; {wanted.count()} rows, none after the drain")
    assert_df_equality(run.rows(), wanted, ignore_row_order=True, ignore_nullable=True)
    assert held > 0 and marker["state-rows-left"] == run.state_rows() == 0
    assert 1 <= marker["flush-batches"] <= kind.chain + 1
    how = {} if kind.is_endless else {"availableNow": True}
    stock = Run(spark, tmp_path, f"{run.name}_stock", kind.frame(events), **how)
    stock.read_all()
    if kind.is_endless:
        stock.query.stop()
    assert stock.query.awaitTermination(90)
    print(f"{how or 'stopped'}, without a drain: {stock.rows().count()} rows, {stock.state_rows()} rows of state left")
    assert stock.state_rows() > 0, "or there is nothing to show"


@pytest.mark.heavy
def test_in_update_mode_the_last_row_of_each_key_stands(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    run = Run(spark, tmp_path, "updates", window_counts(events), "update")
    run.read_all()
    marker = run.drain()
    last = run.rows().groupBy("start", "key").agg(f.max("events").alias("events"))
    wanted = spark.createDataFrame(windows(), run.rows().schema)
    assert_df_equality(last, wanted, ignore_row_order=True, ignore_nullable=True)
    assert marker["state-rows-left"] == 0


@pytest.mark.heavy
def test_in_complete_mode_the_whole_result_stands_and_its_state_stays(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path, "completes", window_counts(events), "complete")
    run.read_all()
    marker = run.drain()
    wanted = spark.createDataFrame(windows(), run.rows().schema)
    assert_df_equality(run.rows(), wanted, ignore_row_order=True, ignore_nullable=True)
    assert marker["state-rows-left"] == len(windows())


@pytest.mark.heavy
@pytest.mark.parametrize("policy", ["min", "max"])
def test_both_policies_of_several_watermarks_let_everything_out(
    policy: str, spark: SparkSession, raw: DataFrame, events: DataFrame, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
    late = (
        raw.where("key = 0").withColumn("time", f.expr("time - INTERVAL 5 MINUTES")).withWatermark("time", "1 minute")
    )
    both = events.unionByName(late)
    try:
        run = Run(spark, tmp_path, f"policy_{policy}", window_counts(both))
        run.read_all()
        assert run.drain()["state-rows-left"] == 0 == run.state_rows()
    finally:
        spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")
    if policy == "min":  # by the other one the second input is late all the time
        assert run.rows().agg(f.sum("events")).first()[0] == len(EVENTS) + sum(key == 0 for key, _ in EVENTS)


@pytest.mark.heavy
def test_a_trigger_that_is_an_hour_away_is_not_waited_for(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path, "hourly", window_counts(events), processingTime="1 hour")
    wait_until(lambda: bool(run.query.lastProgress), "the first batch", 60)
    began = time.monotonic()
    run.drain()
    print(f"drained after {time.monotonic() - began:.1f} s")
    wanted = spark.createDataFrame(windows(), run.rows().schema)
    assert_df_equality(run.rows(), wanted, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.heavy
def test_a_query_that_reads_what_is_available_can_be_drained_on_its_way(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    slow = events.where(f.udf(slowly, "boolean")("key"))
    run = Run(spark, tmp_path, "available", window_counts(slow), availableNow=True)
    wait_until(lambda: bool(run.query.lastProgress), "the first batch", 60)
    run.drain()
    wanted = spark.createDataFrame(windows(), run.rows().schema)
    assert_df_equality(run.rows(), wanted, ignore_row_order=True, ignore_nullable=True)


def slowly(key: int) -> bool:
    time.sleep(0.01)  # so that a batch of a hundred rows takes a second
    return True


@pytest.mark.parametrize("source", ["rate", "rate-micro-batch"])
def test_sources_without_an_end_are_read_up_to_one_moment(source: str, spark: SparkSession, tmp_path: Path) -> None:
    """Neither knows Trigger.AvailableNow; the first is read up to its newest offset of that moment."""
    options = {"rate": {"rowsPerSecond": 100}, "rate-micro-batch": {"rowsPerBatch": 100}}[source]
    rows = spark.readStream.format(source).options(**options).load().withWatermark("timestamp", "1 hour")
    counted = rows.groupBy(f.window("timestamp", "1 second")).agg(
        f.count("*").alias("events"), f.max("value").alias("last")
    )
    run = Run(spark, tmp_path, source.replace("-", "_"), counted.select("events", "last"))
    wait_until(lambda: len(run.query.recentProgress) >= 3, "three batches", 60)
    marker = run.drain()
    events, last = run.rows().agg(f.sum("events"), f.max("last")).first()
    print(f"{events} rows, the last one is {last}")
    assert events == last + 1 > 0 and marker["state-rows-left"] == 0


@pytest.mark.heavy
def test_a_trigger_once_is_refused_and_the_query_goes_on(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    slow = events.where(f.udf(slowly, "boolean")("key"))
    run = Run(spark, tmp_path, "once", window_counts(slow), once=True)
    with MooringClient.open(spark.conf.get("spark.mooring.metadata")) as client:
        uuid = client.drain(spark.sparkContext.applicationId, "once")
        wait_until(lambda: not client.is_drain_open(uuid), "the answer", 60)
    assert run.query.awaitTermination(60) and run.query.exception() is None
    assert not (run.checkpoint / "_mooring" / "drained.json").exists()


@pytest.mark.heavy
def test_two_queries_are_stopped_at_once_and_one_goes_on(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    runs = [Run(spark, tmp_path, name, window_counts(events)) for name in ("one", "other", "third")]
    for run in runs:
        run.read_all()
    with MooringClient.open(spark.conf.get("spark.mooring.metadata")) as client:
        client.stop(spark.sparkContext.applicationId, StopMode.AFTER_BATCH, "one")
        client.drain(spark.sparkContext.applicationId, "other")
    assert runs[0].query.awaitTermination(60) and runs[1].query.awaitTermination(60)
    assert runs[2].query.isActive and runs[0].state_rows() > 0 == runs[1].state_rows()
    runs[2].query.stop()


def test_a_drained_checkpoint_is_not_started_from_by_mistake(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path, "drained_once", window_counts(events))
    run.read_all()
    run.drain()
    again = window_counts(events).writeStream.queryName("again").format("noop")
    query = again.option("checkpointLocation", str(run.checkpoint)).start()
    with pytest.raises(StreamingQueryException, match=r"resume\.drained"):
        query.awaitTermination(60)
