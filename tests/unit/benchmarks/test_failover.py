"""What a notice has done to batches."""

import pytest

from benchmarks.batches import Batch, longest
from benchmarks.failover import QUIET_BATCHES, Notice


def batch(start, seconds):
    return Batch(start, seconds, 1, {})


def test_of_a_notice_the_longest_batch_before_and_after_the_executor_is_gone_counts():
    early = [batch(number - 20, 1) for number in range(QUIET_BATCHES - 1)]
    batches = [batch(-90, 50), *early, batch(0, 9), batch(9, 1), batch(10, 3), batch(13, 1), batch(14, 2), batch(16, 8)]
    # Three batches are the notice's, the longest of 3 s; of six stretches of three, those with the sixth are as long.
    quiet = [batch(number, seconds) for number, seconds in enumerate([1, 2, 2, 1, 2, 3, 2, 1])]
    assert Notice(9.5, 13.5, 15.5).figures(batches, median=2, quiet=quiet) == {
        "worst-over-median": 1.5,
        "quiet-worst-over-median": 4.5,
        "as-long-when-quiet": 0.5,
        "return-worst-over-median": 1.0,
    }


def test_a_batch_counts_when_it_was_under_way():
    assert longest([batch(0, 2), batch(2, 1)], 1.5, 2) == 2
    with pytest.raises(ValueError):
        longest([batch(0, 2)], 2, 3)
