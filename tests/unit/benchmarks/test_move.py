"""What a change has done to batches, and where processors go."""

import pytest

from benchmarks.batches import Batch
from benchmarks.move import Change, host_after, one_on_each_host
from mooring.errors import ClusterError

HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


def batch(start, seconds):
    return Batch(start, seconds, 1, {})


def test_the_longest_batch_of_a_change_is_compared_with_quiet_ones_before_it():
    warming_up, quiet = [batch(0, 20)], [batch(20, 2), batch(22, 2), batch(24, 2.5)]
    amid, after, later = [batch(26.5, 2), batch(28.5, 3)], [batch(31.5, 4)], [batch(35.5, 30)]
    seen = Change(20, 27, 30, 35.5).figures([*warming_up, *quiet, *amid, *after, *later])
    assert seen == {
        "worst-over-median": 2,
        "worst-batch-seconds": 4,
        "quiet-p50": 2,
        "quiet-worst-over-median": 1.25,
        "change-seconds": 3,
    }


def test_the_batch_that_is_under_way_at_the_request_is_not_quiet():
    assert Change(0, 5, 6, 9).figures([batch(0, 2), batch(3, 4)])["worst-over-median"] == 2


def test_a_change_without_quiet_batches_before_it_has_no_figures():
    with pytest.raises(ClusterError, match="no batch was quiet"):
        Change(10, 20, 30, 40).figures([batch(0, 11), batch(19, 5)])


def processor(id, host, tasks=1):
    return {"id": id, "location": host, "tasks": ["a task"] * tasks}


def test_processors_are_taken_in_the_order_of_their_hosts():
    found = [processor("0", HOSTS[2]), processor("1", HOSTS[0]), processor("2", HOSTS[1]), processor("7", HOSTS[1], 0)]
    assert one_on_each_host({"processors": found}) == ("1", "2", "0")


@pytest.mark.parametrize("status", [{}, {"processors": [processor("0", HOSTS[0]), processor("1", HOSTS[1])]}])
def test_a_host_without_tasks_is_waited_for(status):
    assert one_on_each_host(status) == ()


def test_after_the_last_host_comes_the_first():
    assert [host_after(host, [*HOSTS[::-1], HOSTS[1]]) for host in HOSTS] == [HOSTS[1], HOSTS[2], HOSTS[0]]
