"""Figures of one restart, from logs and a checkpoint that were written by hand."""

import os

import pytest

from benchmarks.executor_log import ExecutorLog, Opening, Reads
from benchmarks.restart import figures_of
from benchmarks.sides import Run


def opened(partition, began, seconds, copied=1000):
    end = began + int(seconds * 1000)
    return Opening((0, partition, "default"), began, began, end, end, end, copied)


def restart_of(*logs):
    compacted = [{"customMetrics": {"rocksdbTotalBytesReadByCompaction": bytes_read}} for bytes_read in (700, 50)]
    batch = {"batchId": 4, "durationMs": {"queryPlanning": 500, "addBatch": 6000}, "stateOperators": compacted}
    return Run(100.0, {"query-start": 110.0, "progress": [batch]}, logs, ())


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "4").touch()
    os.utime(tmp_path / "commits" / "4", (121.5, 121.5))
    return tmp_path


def test_openings_are_added_up_over_the_executors(checkpoint):
    logs = [
        ExecutorLog(openings=[opened(0, 0, 1.0), opened(1, 2000, 0.25)]),
        ExecutorLog(openings=[opened(2, 500, 1.5), opened(2, 3000, 0.5)]),
    ]
    seen = figures_of(restart_of(*logs), checkpoint, "stock")
    assert (seen["open-seconds"], seen["open-slowest-seconds"]) == (2.75, 1.5)
    assert (seen["open-cold-seconds"], seen["open-warm-seconds"]) == (2.5, 0.25)


def test_the_first_commit_is_the_time_of_its_file(checkpoint):
    seen = figures_of(restart_of(ExecutorLog(openings=[opened(0, 0, 1.0)])), checkpoint, "stock")
    assert (seen["first-commit-seconds"], seen["start-to-query-seconds"], seen["query-to-commit-seconds"]) == (
        21.5,
        10.0,
        11.5,
    )


def test_what_rocksdb_compacts_meanwhile_is_added_up_over_the_operators(checkpoint):
    seen = figures_of(restart_of(ExecutorLog(openings=[opened(0, 0, 1.0)])), checkpoint, "stock")
    assert seen["compaction-bytes"] == 750


def test_each_side_counts_its_own_bytes_from_the_checkpoint(checkpoint):
    reads = [Reads((0, 0, "default"), 0, 3, 900, 1, 77, 0, 0)]
    log = ExecutorLog(openings=[opened(0, 0, 1.0, copied=1000)], reads=reads)
    assert figures_of(restart_of(log), checkpoint, "stock")["remote-bytes"] == 1000
    assert figures_of(restart_of(log), checkpoint, "mooring")["remote-bytes"] == 77


def test_an_executor_that_opened_nothing_counts_for_nothing(checkpoint):
    seen = figures_of(restart_of(ExecutorLog(), ExecutorLog(openings=[opened(0, 0, 1.0)])), checkpoint, "stock")
    assert seen["open-seconds"] == 1.0
    assert "remote-calls" not in seen
