"""When faults come, and what a notice has done to batches."""

from itertools import pairwise

import pytest

from benchmarks.batches import Batch, longest
from benchmarks.failover import QUIET_BATCHES, Notice, moment_of


def batch(start, seconds):
    return Batch(start, seconds, 1, {})


@pytest.mark.parametrize("count", [2, 4, 10, 24, 50])
@pytest.mark.parametrize("every", [1, 2])
def test_faults_come_evenly_over_the_second_in_which_a_batch_begins(count, every):
    """All of them, and those of one of two kinds that take turns: no gap is much longer than if they were equal."""
    moments = sorted(moment_of(number) for number in range(0, count * every, every))
    assert moments[0] >= 0 and moments[-1] < 1
    gaps = [later - one for one, later in pairwise([*moments, 1 + moments[0]])]
    assert max(gaps) <= 2.2 / count


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
