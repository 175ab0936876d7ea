"""The figures of a killed executor, from the logs of driver and executors, and from the commits.

The time from the kill to the commit has four parts: until the driver notices, until the task starts, the opening of the
state, and the rest. They are those of the partition whose state was opened last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.executor_log import ExecutorLog, Opening, Store, lines_of

_LOST = re.compile(r"Lost executor (\d+) on")

Logs = Mapping[str, ExecutorLog]
"""Executor's id to its log."""


@dataclass(frozen=True)
class Kill:
    """The killed executor, the time of the kill (seconds since the epoch), and the executor's partitions."""

    at: float
    executor: str
    lost: frozenset[int]


@dataclass(frozen=True)
class Resumed:
    """A lost partition on its next executor; `started` is in milliseconds since the epoch."""

    executor: str
    started: int
    opening: Opening
    in_new_jvm: bool

    @property
    def opened(self) -> int:
        """When its state was open, in milliseconds since the epoch."""
        assert self.opening.ended is not None
        return self.opening.ended

    @property
    def before_opening(self) -> float:
        """Seconds from the start of the task to the start of the opening."""
        return (self.opening.began - self.started) / 1000


def losses(driver_log: str) -> dict[str, int]:
    """Executor to the time at which the driver first logged its loss, in milliseconds since the epoch."""
    noticed: dict[str, int] = {}
    for line in lines_of(driver_log):
        if found := _LOST.match(line.message):
            noticed.setdefault(found[1], line.ms)
    return noticed


def holders(logs: Logs) -> dict[int, str]:
    """Partition to the executor that opened it last."""
    openings = [(found.began, found.store[1], executor) for executor, log in logs.items() for found in log.openings]
    return {partition: executor for _, partition, executor in sorted(openings)}


def victim(partitions: Mapping[int, str], alive: Mapping[str, str], last_host: str) -> str:
    """The executor to kill: its share is nearest to an even one; if possible it is on another host than last time.

    `alive` maps executor to host. ValueError when none of them has a partition.
    """
    share = len(partitions) / len(alive)
    counts = Counter(executor for executor in partitions.values() if executor in alive)
    if not counts:
        raise ValueError(f"no executor of {sorted(alive)} has opened a partition")
    return min(counts, key=lambda id: (abs(counts[id] - share), alive[id] == last_host, alive[id], id))


def resumed(kill: Kill, logs: Logs) -> dict[int, Resumed]:
    """The lost partitions that the first such batch opened on another executor; the last of several attempts."""
    after = [
        (executor, opening)
        for executor, log in logs.items()
        for opening in log.openings
        if executor != kill.executor
        and opening.store[1] in kill.lost
        and opening.ended
        and opening.began >= kill.at * 1000
    ]
    batch = min((opening.version for _, opening in after), default=-1)
    first: dict[tuple[int, str, str], Resumed] = {}  # an operator may open its store twice in a task
    for executor, opening in sorted(after, key=lambda found: found[1].began):
        if opening.version == batch:
            log = logs[executor]
            started = log.task_starts.get(opening.thread, opening.began)
            partition = Resumed(executor, started, opening, (log.began_ms or 0) >= kill.at * 1000)
            first.setdefault((opening.store[1], executor, opening.thread), partition)
    return {number: partition for (number, _, _), partition in first.items()}


def figures_of(
    kill: Kill, logs: Logs, noticed: Mapping[str, int], commits: Mapping[int, float], is_stock: bool
) -> dict[str, float]:
    """The figures of one kill. ValueError when the batch that opened the lost partitions is not committed."""
    partitions = resumed(kill, logs)
    if not partitions:
        raise ValueError(
            f"no executor opened the partitions {sorted(kill.lost)} after the kill of executor {kill.executor}"
        )
    slowest = max(partitions.values(), key=lambda partition: partition.opened)
    batch = slowest.opening.version
    if batch not in commits:
        raise ValueError(f"batch {batch} is not among the commits {sorted(commits)}")
    noticed_at = min(noticed.get(kill.executor, slowest.started), slowest.started) / 1000

    others = [log for executor, log in logs.items() if executor != kill.executor]
    end = commits[batch]

    def is_meanwhile(ms: int) -> bool:
        return kill.at * 1000 <= ms <= end * 1000

    def is_for_lost(store: Store, ms: int) -> bool:
        return store[1] in kill.lost and is_meanwhile(ms)

    return {
        "kill-to-commit-seconds": end - kill.at,
        "next-commit-seconds": min(time for time in commits.values() if time >= kill.at) - kill.at,
        "detection-seconds": noticed_at - kill.at,
        "scheduling-seconds": slowest.started / 1000 - noticed_at,
        "open-seconds": slowest.opening.seconds,
        "catch-up-seconds": end - slowest.opened / 1000 + slowest.before_opening,
        "before-open-seconds": slowest.before_opening,
        "open-all-seconds": sum(partition.opening.seconds for partition in partitions.values()),
        "shuffle-wait-seconds": max(sum(w for ms, w in log.shuffle_waits if is_meanwhile(ms)) for log in others) / 1000,
        "return-gap-seconds": _longest_gap([time for time in commits.values() if time >= end]),
        "remote-bytes": float(sum(log.remote_bytes(is_stock, is_for_lost) for log in others)),
        "lost-partitions": float(len(kill.lost)),
        "in-new-jvm": float(sum(partition.in_new_jvm for partition in partitions.values())),
    }


def _longest_gap(times: Sequence[float]) -> float:
    """The longest time between two successive times; 0 for fewer than two."""
    ordered = sorted(times)
    return max((later - earlier for earlier, later in pairwise(ordered)), default=0.0)
