"""What is decided without asking anybody: the next state of a barrier, and which versions go."""

import pytest

from mooring.coordination import KEPT_VERSIONS, BarrierState, Leadership, next_barrier_state
from mooring.coordination.job_models import to_remove
from mooring.coordination.zookeeper.term import ZkTerm, guards_of
from mooring.errors import LeadershipLost
from mooring.metadata.zookeeper.commit import Guard


@pytest.mark.parametrize(
    ("joined", "waited_ms", "state"),
    [
        ("", 0, BarrierState.NEW),
        ("a", 99, BarrierState.NEW),
        ("ab", 0, BarrierState.DONE),
        ("abc", 0, BarrierState.DONE),
        ("a", 100, BarrierState.TIMED_OUT),
        ("ab", 100, BarrierState.DONE),
    ],
)
def test_a_barrier_is_done_when_all_have_joined_and_late_ones_count(joined, waited_ms, state):
    assert next_barrier_state({"a", "b"}, set(joined), waited_ms, timeout_ms=100) == state


def test_the_newest_ten_stay():
    assert to_remove(list(range(3))) == []
    assert to_remove([12, 3, *range(20, 29)]) == [3]
    assert KEPT_VERSIONS == 10


def test_a_write_is_bound_to_the_candidate_and_the_generation():
    term = ZkTerm(7, "one", "/m/leader", "candidate-x-0000000001")
    assert guards_of(term) == (Guard("/m/leader/candidate-x-0000000001"), Guard("/m/leader/generation", 7))


def test_a_term_of_another_election_binds_nothing():
    with pytest.raises(LeadershipLost):
        guards_of(Leadership(7, "one"))
