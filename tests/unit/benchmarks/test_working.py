"""When the copies of an application count as caught up."""

import pytest

from benchmarks.sides import PARTITIONS
from benchmarks.working import are_caught_up


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
