"""What no grouper can group."""

import pytest

from mooring.errors import InvalidGroupingError
from mooring.grouping.refusals import refuse_bad_count, refuse_impossible
from tests.unit.grouping.builders import tasks


def test_a_processor_id_given_twice_is_refused():
    with pytest.raises(InvalidGroupingError, match='processor id "1" is given more than once'):
        refuse_impossible(tasks("t"), ["0", "1", "1"])


@pytest.mark.parametrize("count", [0, -3])
def test_a_count_that_is_not_positive_is_refused(count):
    with pytest.raises(InvalidGroupingError, match=f"is {count}"):
        refuse_bad_count(count, tasks("t"))


def test_fewer_tasks_than_the_count_are_refused():
    with pytest.raises(InvalidGroupingError, match="2 tasks for 3 containers"):
        refuse_bad_count(3, tasks("t", "u"))


def test_enough_of_everything_is_accepted():
    refuse_impossible(tasks("t"), ["0"])
    refuse_bad_count(1, tasks("t"))
