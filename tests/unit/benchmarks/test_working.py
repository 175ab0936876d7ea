"""When an application with copies counts as settled."""

import pytest

from benchmarks.sides import PARTITIONS
from benchmarks.working import is_settled


def settled(count=PARTITIONS, shares=(3, 3, 2), **last):
    tasks = [{"mode": "Standby", "local-bytes": 1000, "lag-versions": 0} for _ in range(count)]
    tasks[-1] |= {name.replace("_", "-"): value for name, value in last.items()}
    processors = [{"tasks": [f"Partition {number}" for number in range(share)]} for share in shares]
    return {"processors": processors, "tasks": [*tasks, {"mode": "Active", "local-bytes": 0, "lag-versions": 0}]}


def test_copies_are_caught_up_while_a_batch_is_under_way():
    assert is_settled(settled())
    assert is_settled(settled(lag_versions=1))


@pytest.mark.parametrize("status", [{}, settled(PARTITIONS - 1), settled(lag_versions=2), settled(local_bytes=0)])
def test_a_copy_that_is_missing_empty_or_behind_is_waited_for(status):
    assert not is_settled(status)


@pytest.mark.parametrize("shares", [(5, 3, 0), (4, 4)])
def test_a_plan_that_will_be_evened_is_waited_for(shares):
    assert not is_settled(settled(shares=shares))
