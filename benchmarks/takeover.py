"""What it took to go on after an executor was killed, from the logs of driver and executors and the commits.

The time from the kill to the commit is that of the partition whose state was opened last: up to the driver's notice,
up to the start of the task, the opening, and the rest.
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
    """Who was killed, when (seconds since 1970), and which partitions it had."""

    at: float
    executor: str
    lost: frozenset[int]


@dataclass(frozen=True)
class Resumed:
    """One lost partition where it went on; times in milliseconds since 1970."""

    executor: str
    started: int
    opening: Opening
    in_new_jvm: bool

    @property
    def opened(self) -> int:
        """When its state was open."""
        assert self.opening.ended is not None
        return self.opening.ended

    @property
    def before_opening(self) -> float:
        """Seconds from the start of the task until it began to open its state."""
        return (self.opening.began - self.started) / 1000


def losses(driver_log: str) -> dict[str, int]:
    """Executor to when the driver said first that it is lost, in milliseconds since 1970."""
    noticed: dict[str, int] = {}
    for line in lines_of(driver_log):
        if found := _LOST.match(line.message):
            noticed.setdefault(found[1], line.ms)
    return noticed


def holders(logs: Logs) -> dict[int, str]:
    """Partition to the executor that opened it last."""
    openings = [(one.began, one.store[1], executor) for executor, log in logs.items() for one in log.openings]
    return {partition: executor for _, partition, executor in sorted(openings)}


def victim(partitions: Mapping[int, str], alive: Mapping[str, str], last_host: str) -> str:
    """Whom to kill: the executor whose share is nearest to an even one, where possible not on the host of last time.

    `alive` is executor to host. ValueError when none of them has a partition.
    """
    share = len(partitions) / len(alive)
    counts = Counter(executor for executor in partitions.values() if executor in alive)
    if not counts:
        raise ValueError(f"no executor of {sorted(alive)} has opened a partition")
    return min(counts, key=lambda one: (abs(counts[one] - share), alive[one] == last_host, alive[one], one))


def resumed(kill: Kill, logs: Logs) -> dict[int, Resumed]:
    """The lost partitions of the first batch that opened some of them elsewhere; of several attempts the last."""
    after = [
        (executor, one)
        for executor, log in logs.items()
        for one in log.openings
        if executor != kill.executor and one.store[1] in kill.lost and one.ended and one.began >= kill.at * 1000
    ]
    batch = min((one.version for _, one in after), default=-1)
    first: dict[tuple[int, str, str], Resumed] = {}  # an operator may open its store twice in a task
    for executor, one in sorted(after, key=lambda found: found[1].began):
        if one.version == batch:
            log = logs[executor]
            went_on = Resumed(
                executor, log.task_starts.get(one.thread, one.began), one, (log.began_ms or 0) >= kill.at * 1000
            )
            first.setdefault((one.store[1], executor, one.thread), went_on)
    return {partition: went_on for (partition, _, _), went_on in first.items()}


def figures_of(
    kill: Kill, logs: Logs, noticed: Mapping[str, int], commits: Mapping[int, float], is_stock: bool
) -> dict[str, float]:
    """The figures of one kill. ValueError when the batch that opened what was lost has not been committed."""
    went_on = resumed(kill, logs)
    if not went_on:
        raise ValueError(f"nobody opened the partitions {sorted(kill.lost)} after the kill of executor {kill.executor}")
    slowest = max(went_on.values(), key=lambda one: one.opened)
    batch = slowest.opening.version
    if batch not in commits:
        raise ValueError(f"batch {batch} is not among the commits {sorted(commits)}")
    told = min(noticed.get(kill.executor, slowest.started), slowest.started) / 1000

    others = [log for executor, log in logs.items() if executor != kill.executor]
    end = commits[batch]

    def is_meanwhile(ms: int) -> bool:
        return kill.at * 1000 <= ms <= end * 1000

    def is_for_lost(store: Store, ms: int) -> bool:
        return store[1] in kill.lost and is_meanwhile(ms)

    return {
        "kill-to-commit-seconds": end - kill.at,
        "next-commit-seconds": min(time for time in commits.values() if time >= kill.at) - kill.at,
        "detection-seconds": told - kill.at,
        "scheduling-seconds": slowest.started / 1000 - told,
        "open-seconds": slowest.opening.seconds,
        "catch-up-seconds": end - slowest.opened / 1000 + slowest.before_opening,
        "before-open-seconds": slowest.before_opening,
        "open-all-seconds": sum(one.opening.seconds for one in went_on.values()),
        "shuffle-wait-seconds": max(sum(w for ms, w in log.shuffle_waits if is_meanwhile(ms)) for log in others) / 1000,
        "return-gap-seconds": _longest_gap([time for time in commits.values() if time >= end]),
        "remote-bytes": float(sum(log.remote_bytes(is_stock, is_for_lost) for log in others)),
        "lost-partitions": float(len(kill.lost)),
        "in-new-jvm": float(sum(one.in_new_jvm for one in went_on.values())),
    }


def _longest_gap(times: Sequence[float]) -> float:
    """The longest time between one and the next; 0 where there is none."""
    ordered = sorted(times)
    return max((later - one for one, later in pairwise(ordered)), default=0.0)
