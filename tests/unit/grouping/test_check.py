"""The checker sees each broken promise and names it."""

import re

import pytest

from mooring.errors import InvalidGroupingError
from mooring.grouping import check_grouping, check_job_model
from mooring.model import TaskModel, TaskName
from tests.unit.grouping.builders import containers, model, tasks

PLACES = {"0": "a", "1": "b"}


def refuse(message, owned, *, places=PLACES, at=None, names=None, **known):
    given = tasks(*(names or {name for held in owned.values() for name in held}))
    with pytest.raises(InvalidGroupingError, match=re.escape(message)):
        check_grouping(containers(owned, at or places), given, places, **known)


def test_a_good_plan_passes():
    previous = model({"0": ["t1"], "1": ["t2"]})
    check_grouping(containers({"0": ["t1", "t3"], "1": ["t2"]}, PLACES), tasks("t1", "t2", "t3"), PLACES, {}, previous)


def test_a_task_left_out_is_seen():
    refuse('task "t2" is on no processor', {"0": ["t1"]}, names=["t1", "t2"])


def test_a_task_in_two_places_is_seen():
    refuse('task "t1" is on the processors "0" and "1"', {"0": ["t1"], "1": ["t1"]})


def test_a_task_that_nobody_gave_is_seen():
    refuse('task "t2" on processor "1" is not one that was given', {"0": ["t1"], "1": ["t2"]}, names=["t1"])


def test_a_task_that_was_changed_is_seen():
    with pytest.raises(InvalidGroupingError, match="is not one that was given"):
        check_grouping(containers({"0": ["t"]}, PLACES), {TaskModel(TaskName("t"), changelog_partition=3)}, PLACES)


def test_a_processor_that_is_gone_is_seen():
    refuse('processor "7" is in the plan, but gone', {"0": ["t1"], "7": ["t2"]})


def test_a_processor_listed_twice_is_seen():
    with pytest.raises(InvalidGroupingError, match='processor "0" is listed twice'):
        check_grouping(containers({"0": ["t"]}, PLACES) * 2, tasks("t"), PLACES)


def test_a_wrong_location_is_seen():
    refuse('processor "0" is at "a", not at "x"', {"0": ["t1"], "1": ["t2"]}, at={"0": "x", "1": "b"})


def test_uneven_sizes_are_seen():
    refuse('processor "0" has 3 of 4 tasks; even on 2 is 2 to 2', {"0": ["t1", "t2", "t3"], "1": ["t4"]})


def test_a_processor_without_a_task_is_seen():
    refuse('processor "0" has 2 of 2 tasks; even on 2 is 1 to 1', {"0": ["t1", "t2"]})


def test_too_much_weight_is_seen():
    weights = {"t1": 10, "t2": 10, "t3": 10, "t4": 1}
    refuse(
        'processor "0" weighs 30; the mean is 16, the heaviest task 10',
        {"0": ["t1", "t2", "t3"], "1": ["t4"]},
        weights=weights,
    )


def test_an_idle_processor_is_seen_with_weights_too():
    weights = {"t1": 10, "t2": 10, "t3": 1}
    refuse('processor "1" has no task', {"0": ["t1", "t2", "t3"]}, weights=weights)


def test_a_needless_move_is_seen():
    refuse(
        'processor "0" kept 0 of its tasks; it could have kept 1',
        {"0": ["t2"], "1": ["t1"]},
        task_locality={},
        previous=model({"0": ["t1"], "1": ["t2"]}),
    )


def test_a_remainder_that_moved_without_need_is_seen():
    refuse(
        'processor "0" gave a task up so that "1" could have one more',
        {"0": ["t1"], "1": ["t2", "t3"]},
        task_locality={},
        previous=model({"0": ["t1", "t2"], "1": ["t3"]}),
    )


def test_movers_that_should_swap_are_seen():
    refuse(
        'task "t1" was at "a" and could be there in the place of "t2"',
        {"0": ["t2"], "1": ["t1"]},
        task_locality={"t1": "a"},
    )


def test_a_remainder_that_would_bring_a_task_home_is_seen():
    refuse('task "t1" was at "b" and could be there on processor "1"', {"0": ["t1"]}, task_locality={"t1": "b"})


def test_a_task_without_locality_was_where_its_processor_was():
    refuse(
        'task "t1" was at "b" and could be there on processor "1"',
        {"0": ["t1"]},
        task_locality={},
        previous=model({"gone": ["t1"]}, {"gone": "b"}),
    )


def test_a_remainder_on_a_loaded_processor_is_seen():
    refuse('task "t1" should be on processor "1" (load 1)', {"0": ["t1"]}, task_locality={}, load={"0": 2, "1": 1})


def test_a_remainder_on_a_greater_id_is_seen():
    refuse(
        'task "t1" should be on processor "2"', {"10": ["t1"]}, places={"10": "a", "2": "b"}, task_locality={}, load={}
    )


def job(owned, queries, places=PLACES, **known):
    check_job_model(model(owned, places), {name: tasks(*names) for name, names in queries.items()}, places, **known)


def test_a_good_job_model_passes():
    job({"0": ["a1", "b1"], "1": ["a2"]}, {"a": ["a1", "a2"], "b": ["b1"]}, task_locality={})


@pytest.mark.parametrize(
    ("owned", "queries", "message"),
    [
        ({"0": ["a1"]}, {"a": ["a1"]}, 'processor "1" is not in the job model'),
        ({"0": ["a1"], "1": [], "7": []}, {"a": ["a1"]}, 'processor "7" is in the job model, but gone'),
        ({"0": ["a1"], "1": ["x"]}, {"a": ["a1"]}, 'task "x" on processor "1" belongs to no query'),
        ({"0": ["a1"], "1": []}, {"a": ["a1", "a2"]}, 'query "a": task "a2" is on no processor'),
        ({"0": ["a1"], "1": ["a1"]}, {"a": ["a1"]}, 'query "a": task "a1" is on the processors'),
        (
            {"0": ["a1", "a2"], "1": ["b1", "b2"]},
            {"a": ["a1", "a2"], "b": ["b1", "b2"]},
            'query "a": processor "0" has 2',
        ),
    ],
)
def test_a_bad_job_model_is_refused(owned, queries, message):
    with pytest.raises(InvalidGroupingError, match=re.escape(message)):
        job(owned, queries)
