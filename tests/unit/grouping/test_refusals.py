"""What no grouper can group."""

import pytest

from mooring.errors import InvalidGroupingError
from mooring.grouping.refusals import refuse_bad_count, refuse_impossible, refuse_too_few_tasks, refuse_unknown
from tests.unit.grouping.builders import tasks


def test_a_processor_id_given_twice_is_refused():
    with pytest.raises(InvalidGroupingError, match='processor id "1" is given more than once'):
        refuse_impossible(tasks("t"), ["0", "1", "1"])


@pytest.mark.parametrize("count", [0, -3])
def test_a_count_that_is_not_positive_is_refused(count):
    with pytest.raises(InvalidGroupingError, match=f"is {count}"):
        refuse_bad_count(count)


def test_fewer_tasks_than_the_count_are_refused():
    with pytest.raises(InvalidGroupingError, match="2 tasks for 3 containers"):
        refuse_too_few_tasks(3, 2)


def test_a_processor_that_is_not_there_is_refused():
    with pytest.raises(InvalidGroupingError, match='no processor "7"; there are: 0, 1'):
        refuse_unknown("7", ["0", "1"])


def test_enough_of_everything_is_accepted():
    refuse_impossible(tasks("t"), ["0"])
    refuse_bad_count(1)
    refuse_too_few_tasks(1, 1)
    refuse_unknown("0", ["0"])
