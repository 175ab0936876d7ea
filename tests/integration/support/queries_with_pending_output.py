"""Queries that keep output in their state, each with its whole output for a small input, computed without Spark."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupStateTimeout

from mooring.testing.events import START_MS
from tests.integration.jobs.timers_that_set_timers import Chain

SEED = 11
EVENTS = [
    (key, START_MS + at) for rng in [random.Random(SEED)] for at in range(0, 60_000, 150) for key in [rng.randrange(5)]
]
"""Key and time in milliseconds; in order, so that none is late."""

GAP_MS, WINDOW_MS, MINUTE_MS = 2_000, 10_000, 60_000
Rows = list[tuple[Any, ...]]


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


def windows(events: list[tuple[int, int]] = EVENTS) -> Rows:
    counts = Counter((start_of(ms, WINDOW_MS), key) for key, ms in events)
    return [(start, key, count) for (start, key), count in counts.items()]


def sessions() -> Rows:
    return [(times[0], times[-1] + GAP_MS, key, len(times)) for key in range(5) for times in session_starts(key)]


def sessions_by_minute() -> Rows:
    """A session counts in the minute in which it ends."""
    totals: defaultdict[int, list[int]] = defaultdict(list)
    for _, end, _, count in sessions():
        totals[start_of(end - 1, MINUTE_MS)].append(count)
    return [(start, len(counts), sum(counts)) for start, counts in totals.items()]


def odd_partners() -> Rows:
    """The left side has all events of each window; the right side has those of odd keys only."""
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
    """A query, and its whole output for the input."""

    frame: Callable[[DataFrame], DataFrame]
    answer: Callable[[], Rows]
    chain: int = 1
    """The number of levels that feed each other: a flush needs one batch for each, and perhaps one more."""
    is_endless: bool = False
    """Whether it has processing-time timers: then stock Spark's availableNow does not end."""


def by_key() -> Rows:
    return list(Counter(key for key, _ in EVENTS).items())


def chain_of_timers() -> Rows:
    """Each key's timer sets two more, one after the other."""
    return [(key, number) for key in range(5) for number in (1, 2, 3)]


QUICK = {"sessions into windows"}
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
