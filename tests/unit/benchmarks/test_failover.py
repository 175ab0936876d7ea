"""When the copies count as caught up, and what a notice has done to batches."""

import pytest

from benchmarks.batches import Batch, longest
from benchmarks.failover import Notice, are_caught_up
from benchmarks.sides import PARTITIONS


def copies(count=PARTITIONS, **last):
    tasks = [{"mode": "Standby", "local-bytes": 1000, "lag-versions": 0} for _ in range(count)]
    tasks[-1] |= {name.replace("_", "-"): value for name, value in last.items()}
    return {"tasks": [*tasks, {"mode": "Active", "local-bytes": 0, "lag-versions": 0}]}


def test_copies_are_caught_up_while_a_batch_is_under_way():
    assert are_caught_up(copies())
    assert are_caught_up(copies(lag_versions=1))


@pytest.mark.parametrize("status", [{}, copies(PARTITIONS - 1), copies(lag_versions=2), copies(local_bytes=0)])
def test_a_copy_that_is_missing_empty_or_behind_is_waited_for(status):
    assert not are_caught_up(status)


def batch(start, seconds):
    return Batch(start, seconds, 1, {})


def test_of_a_notice_the_longest_batch_before_and_after_the_executor_is_gone_counts():
    batches = [batch(0, 9), batch(9, 1), batch(10, 3), batch(13, 1), batch(14, 2), batch(16, 8)]
    assert Notice(9.5, 13.5, 15.5).figures(batches, median=2) == {
        "worst-over-median": 1.5,
        "return-worst-over-median": 1.0,
    }


def test_a_batch_counts_when_it_was_under_way():
    assert longest([batch(0, 2), batch(2, 1)], 1.5, 2) == 2
    with pytest.raises(ValueError):
        longest([batch(0, 2)], 2, 3)
