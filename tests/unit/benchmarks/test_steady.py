"""Figures out of the progress that Spark reports."""

from datetime import datetime, timezone

import pytest

from benchmarks.sides import Run
from benchmarks.steady import Case, Turn, counted, figures_of, to_first

TEN = datetime(2026, 1, 5, 10, tzinfo=timezone.utc).timestamp()
THE_FIRST_MINUTE = Turn(TEN, TEN + 60)


def progress(batch, second, milliseconds, rows=1000, **metrics):
    operator = {"commitTimeMs": 40, "customMetrics": metrics}
    times = {"triggerExecution": milliseconds}
    stamp = f"2026-01-05T10:00:{second:06.3f}Z"
    return {
        "batchId": batch,
        "timestamp": stamp,
        "durationMs": times,
        "numInputRows": rows,
        "stateOperators": [operator],
    }


def measured(reported, batches=10, turns=(THE_FIRST_MINUTE,)):
    run = Run(0.0, {"application": "app", "progress": reported}, (), ())
    case = Case("raw", False, batches=batches, left_out=1)
    return figures_of(run, counted(run, turns, case), case)


def test_throughput_is_rows_over_the_time_from_the_first_batch_kept_to_the_end_of_the_last():
    seen = measured([progress(0, 0, 9000), progress(1, 10, 500), progress(2, 10.5, 500), progress(3, 11, 1000)])
    assert seen["throughput"] == pytest.approx([3000 / 2.0], rel=1e-6)


def test_throughput_is_over_all_turns_and_what_does_not_lie_whole_within_one_is_left_out():
    reported = [progress(0, 0, 100), *(progress(n, n, 900 if n < 4 else 450) for n in range(1, 8))]
    seen = measured(reported, turns=(Turn(TEN + 0.5, TEN + 3.5), Turn(TEN + 4.2, TEN + 7.1)))
    assert seen["throughput"] == pytest.approx([4000 / (1.9 + 1.45)], rel=1e-6)
    assert seen["batch-p95"] == [0.9]


def test_batches_that_warm_up_and_those_after_the_last_are_left_out():
    seen = measured([progress(n, n, 100 if n in (1, 2) else 9000) for n in range(5)], batches=3)
    assert (seen["batch-p50"], seen["batch-p95"]) == ([0.1], [0.1])


def test_a_metric_that_is_always_zero_has_no_figure():
    batches = [progress(n, n, 100, rocksdbCommitFileSyncLatencyMs=20, rocksdbSaveZipFilesLatencyMs=0) for n in range(3)]
    seen = measured(batches)
    assert seen["file-sync-p50"] == [0.02]
    assert "zip-p50" not in seen


def test_a_run_is_compared_with_the_one_beside_it():
    assert to_first({"stock": [100, 200], "mooring": [90, 220]}, "stock") == {"mooring": [0.9, 1.1]}
