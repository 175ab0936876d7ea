"""Grouping without weights, one promise at a time."""

import pytest

from mooring.errors import InvalidGroupingError
from mooring.grouping import HostAwareGrouper
from mooring.model import ContainerModel, JobModel, LocationId
from tests.unit.grouping.builders import group, moved, partitions, sizes, tasks


def test_sizes_differ_by_one_at_most():
    assert sizes(group(partitions(8), {"0": "a", "1": "b", "2": "c"})) == {"0": 3, "1": 3, "2": 2}


def test_tasks_are_dealt_in_natural_order():
    names = partitions(12)
    plan = group(names, {"2": "a", "10": "b", "9": "c"})
    assert plan == {"2": set(names[:4]), "9": set(names[4:8]), "10": set(names[8:])}


def test_a_task_returns_to_the_processor_it_had():
    before = {"0": ["t1", "t4"], "1": ["t2", "t3"]}
    assert group(["t1", "t2", "t3", "t4"], {"0": "a", "1": "b"}, before) == {"0": {"t1", "t4"}, "1": {"t2", "t3"}}


def test_the_previous_processor_comes_before_the_last_location():
    before = {"0": ["t1"], "1": ["t2"]}
    assert group(["t1", "t2"], {"0": "a", "1": "b"}, before, last={"t1": "b", "t2": "a"}) == {"0": {"t1"}, "1": {"t2"}}


def test_tasks_of_a_dead_processor_go_to_its_location():
    before = {"1": ["t1", "t2"], "2": ["t3", "t4"], "3": ["t5", "t6"], "4": ["t7", "t8"]}
    last = {"t1": "h1", "t2": "h1", "t3": "h1", "t4": "h1", "t5": "h3", "t6": "h3", "t7": "h3", "t8": "h3"}
    after = group([f"t{i}" for i in range(1, 9)], {"2": "h1", "3": "h3", "4": "h3"}, before, last)
    assert moved(before, after) == {"t1", "t2"}
    assert len(after["2"] & {"t1", "t2"}) == 1
    assert sorted(sizes(after).values()) == [2, 3, 3]


def test_a_task_whose_locality_is_not_known_was_last_where_its_processor_was():
    before = JobModel.of([ContainerModel.of("gone", tasks("t1"), LocationId("b"))])
    (container,) = HostAwareGrouper().group(tasks("t1"), {}, {"0": "a", "1": "b"}, before)
    assert container.processor_id == "1"


@pytest.mark.parametrize("nowhere", ["ANY_HOST", "", "nobody is here"])
def test_a_location_that_names_nobody_is_no_preference(nowhere):
    places = {"0": "ANY_HOST", "1": "", "2": "a"}
    assert group(["t"], places, last={"t": nowhere}) == {"0": {"t"}}


def test_a_new_processor_gets_only_the_excess_of_the_others():
    before = {"0": ["t0", "t1", "t2", "t3"], "1": ["t4", "t5", "t6", "t7"]}
    after = group([f"t{i}" for i in range(8)], {"0": "a", "1": "b", "2": "c"}, before)
    assert sizes(after) == {"0": 3, "1": 3, "2": 2}
    assert len(moved(before, after)) == 2


def test_a_new_processor_takes_from_its_own_location():
    before = {"0": ["t0", "t1", "t2"], "1": ["t3", "t4", "t5"]}
    last = {name: "a" if name < "t3" else "b" for name in (f"t{i}" for i in range(6))}
    after = group(list(last), {"0": "a", "1": "b", "2": "b", "3": "a"}, before, last)
    assert sizes(after) == {"0": 2, "1": 2, "2": 1, "3": 1}
    assert after["2"] <= {"t3", "t4", "t5"} and after["3"] <= {"t0", "t1", "t2"}


def test_the_remainder_that_one_of_many_gives_up_is_taken_where_its_task_can_stay():
    before = {"0": ["t0", "t1", "t2"], "1": ["t3", "t4", "t5"]}
    last = {"t0": "a", "t1": "a", "t2": "a", "t3": "b", "t4": "b", "t5": "b", "t6": "c"}
    after = group(list(last), {"0": "a", "1": "b", "2": "b"}, before, last)
    assert sizes(after) == {"0": 3, "1": 2, "2": 2}
    assert after["2"] - {"t6"} < {"t3", "t4", "t5"}


def test_of_a_crowd_those_leave_first_whose_state_is_elsewhere():
    before = {"0": ["t0", "t1", "t2", "t3"]}
    last = {"t0": "b", "t1": "a", "t2": "c", "t3": "a"}
    after = group(list(last), {"0": "a", "1": "b"}, before, last)
    assert after == {"0": {"t1", "t3"}, "1": {"t0", "t2"}}


def test_tasks_make_way_for_each_other_when_only_so_all_reach_their_location():
    before = {"0": ["t0", "t1", "t2"], "1": ["t3", "t4"], "2": [], "3": []}
    last = {"t0": "c", "t1": "d", "t2": "a", "t3": "c", "t4": "x"}
    after = group(list(last), {"0": "a", "1": "x", "2": "c", "3": "d"}, before, last)
    assert after == {"0": {"t0", "t2"}, "1": {"t4"}, "2": {"t3"}, "3": {"t1"}}


def test_remainder_tasks_stay_where_they_are():
    before = {"0": ["t0"], "1": ["t1", "t2"]}
    assert moved(before, group(["t0", "t1", "t2"], {"0": "a", "1": "b"}, before, load={"0": 0, "1": 9})) == set()


def test_remainders_go_where_the_load_is_least_then_to_the_smallest_id():
    assert group(["t"], {"2": "a", "10": "b", "9": "c"}) == {"2": {"t"}}
    assert group(["t"], {"2": "a", "10": "b", "9": "c"}, load={"2": 3, "10": 1, "9": 1}) == {"9": {"t"}}


def test_with_more_processors_than_tasks_those_that_hold_tasks_are_kept():
    before = {"7": ["t1", "t2"], "9": ["t3"]}
    after = group(["t1", "t2", "t3"], {str(i): "a" for i in range(10)}, before)
    assert sizes(after) == {"0": 1, "7": 1, "9": 1}
    assert after["9"] == {"t3"}


def test_with_more_processors_than_tasks_those_at_a_last_location_come_before_small_ids():
    assert group(["t1", "t2"], {"0": "a", "1": "a", "5": "b"}, last={"t1": "b"}) == {"0": {"t2"}, "5": {"t1"}}


def test_containers_carry_the_location_of_their_processor():
    found = HostAwareGrouper().group(tasks("t1", "t2", "t3"), {}, {"0": "a", "1": "", "2": "ANY_HOST"})
    assert {container.processor_id: container.location_id for container in found} == {"0": "a", "1": None, "2": None}


def test_tasks_and_processors_that_are_gone_leave_no_trace():
    after = group(["t1"], {"0": "a"}, {"0": ["old"], "gone": ["t1"]}, last={"old": "a"})
    assert after == {"0": {"t1"}}


@pytest.mark.parametrize(
    ("names", "places", "message"),
    [
        ([], {"0": "a"}, "no tasks"),
        (["t"], {}, "no processors"),
    ],
)
def test_what_cannot_be_grouped_is_refused(names, places, message):
    with pytest.raises(InvalidGroupingError, match=message):
        group(names, places)


def test_two_tasks_of_one_name_are_refused():
    with pytest.raises(InvalidGroupingError, match='task name "t" is given more than once'):
        HostAwareGrouper().group([*tasks("t"), *tasks("t")], {}, {"0": "a"})


def test_a_negative_weight_is_refused():
    with pytest.raises(InvalidGroupingError, match='"t" has the weight -1'):
        HostAwareGrouper({"t": -1})
