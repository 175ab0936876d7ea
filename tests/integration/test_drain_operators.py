"""Every kind of state, in one JVM: what is held back comes out, and none is left; beside it, what stock Spark leaves.

The input is four small files, one a batch. What is to come out is computed without Spark.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from mooring.cli.main import main
from mooring.client import MooringClient
from mooring.drain import StopMode
from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.drained_query import Run, is_drain_waiting
from tests.integration.support.file_fed_job import status_in
from tests.integration.support.lines_source import STEPWISE, Lines, rows_of_lines
from tests.integration.support.queries_with_pending_output import EVENTS, KINDS, QUICK, window_counts, windows

pytestmark = pytest.mark.one_jvm


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with application("drains", tmp_path_factory.mktemp("drains"), drain_poll_interval="100ms") as session:
        yield session


@pytest.fixture
def raw(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """The input as a stream: `key` and `time`."""
    return events_in_files(spark, tmp_path / "events", 4)


@pytest.fixture
def events(raw: DataFrame) -> DataFrame:
    """The same with a watermark of ten seconds."""
    return raw.withWatermark("time", "10 seconds")


@pytest.fixture
def slow_events(events: DataFrame) -> DataFrame:
    """The same; a batch of a hundred rows takes a second."""

    def slowly(_: int) -> bool:
        time.sleep(0.01)
        return True

    return events.where(f.udf(slowly, "boolean")("key"))


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
    run.assert_all_came_out()
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
    run.assert_all_came_out()


@pytest.mark.heavy
def test_a_query_that_reads_what_is_available_can_be_drained_on_its_way(
    spark: SparkSession, slow_events: DataFrame, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path, "available", window_counts(slow_events), availableNow=True)
    wait_until(lambda: bool(run.query.lastProgress), "the first batch", 60)
    run.drain()
    run.assert_all_came_out()


@pytest.mark.parametrize("source", ["rate", pytest.param("rate-micro-batch", marks=pytest.mark.heavy)])
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


def test_a_source_that_reads_in_steps_is_asked_from_where_its_last_batch_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its next batch is being made when the drain begins."""
    lines = Lines(tmp_path)
    lines.write(EVENTS[:200])
    rows = rows_of_lines(spark, lines, STEPWISE)
    run = Run(spark, tmp_path, "lines", window_counts(rows.withWatermark("time", "10 seconds")))
    wait_until(lambda: bool(run.query.lastProgress), "the first batch", 60)
    gate = lines.shut("ask")
    wait_until(lambda: lines.is_held("ask"), "it to be asked", 60)
    run.ask_for_drain()
    wait_until(lambda: is_drain_waiting(spark), "the drain to wait for the end of that", 60)
    gate.unlink()
    (offset,) = run.drained()["offsets"]
    lines.assert_asked_as_spark_asks()
    run.assert_all_came_out(json.loads(offset)["line"])


def test_when_one_query_fails_in_a_drain_the_others_are_waited_for_and_each_is_named(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are held in a batch when they are told; one fails in it, and the other one goes on later."""
    sources = {}
    for name in ("bad", "good"):
        (tmp_path / f"source of {name}").mkdir()
        sources[name] = Lines(tmp_path / f"source of {name}")
        sources[name].write(EVENTS)
    gates = {name: lines.shut("task") for name, lines in sources.items()}
    runs = {}
    for name, lines in sources.items():
        rows = rows_of_lines(spark, lines, "simple").where(passes(lines)("key")).withWatermark("time", "10 seconds")
        runs[name] = Run(spark, tmp_path, name, window_counts(rows))
    wait_until(lambda: all(lines.is_held("task") for lines in sources.values()), "both to be in a batch", 90)
    place = spark.conf.get("spark.mooring.metadata")
    wait_until(lambda: runs.keys() <= {query["name"] for query in shown(place, "queries")}, "both to be shown", 60)
    ended_with: list[int] = []
    command = ["drain", "--metadata", place, "--wait", "--timeout", "120s"]
    waiting = threading.Thread(target=lambda: ended_with.append(main(command)))
    waiting.start()
    wait_until(lambda: all(run.is_told() for run in runs.values()), "both to be told", 60)
    (sources["bad"].directory / "fails").touch()
    gates["bad"].unlink()
    with pytest.raises(StreamingQueryException, match="asked to fail"):
        runs["bad"].query.awaitTermination(60)
    wait_until(lambda: ("bad", "failed") in phases(place), "its end to be known", 60)
    assert waiting.is_alive() and runs["good"].query.isActive
    gates["good"].unlink()
    runs["good"].drained()
    waiting.join(60)
    assert ended_with == [1]
    said = capsys.readouterr().err
    assert "query bad ended before it was drained: it failed: " in said and "\ndrained: good" in said


def phases(place: str) -> list[tuple[str, str]]:
    return [(row["query"], row["phase"]) for row in shown(place, "drains")]


def shown(place: str, what: str) -> list[dict[str, Any]]:
    """What the status has of it; nothing where there is none yet."""
    found: list[dict[str, Any]] = status_in(place).get(what, [])
    return found


def passes(lines: Lines) -> Callable[..., Column]:
    """Of each row, once the gate `task` is open; it fails where it is told to."""

    def pass_or_fail(_: int) -> bool:
        lines.pass_gate("task")
        if (lines.directory / "fails").exists():
            raise RuntimeError("asked to fail")
        return True

    return f.udf(pass_or_fail, "boolean")


@pytest.mark.heavy
def test_a_trigger_once_is_refused_and_the_query_goes_on(
    spark: SparkSession, slow_events: DataFrame, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path, "once", window_counts(slow_events), once=True)
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


@pytest.mark.heavy
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
