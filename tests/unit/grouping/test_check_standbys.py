"""The checker sees each broken standby promise and says which."""

import re

import pytest

from mooring.errors import InvalidGroupingError
from mooring.grouping import check_job_model, check_standbys
from mooring.model import ContainerModel, JobModel, LocationId, TaskMode, TaskModel, TaskName
from tests.unit.standby.builders import HOSTS, model

ACTIVE = {"t0": "0", "t1": "1", "t2": "2"}
GOOD = {"t0": ("1",), "t1": ("2",), "t2": ("0",)}


def given(names=ACTIVE):
    return {TaskModel(TaskName(name)) for name in names}


def refuse(message, plan, *, names=ACTIVE, **known):
    with pytest.raises(InvalidGroupingError, match=re.escape(message)):
        check_standbys(plan, given(names), **known)


def with_task(task, processor="1"):
    """The actives, and one more task on a processor."""
    containers = model(ACTIVE).containers
    more = [*containers[processor].tasks.values(), task]
    grown = ContainerModel.of(processor, more, LocationId(HOSTS[processor]))
    return JobModel.of([*(held for id, held in containers.items() if id != processor), grown])


def copy(name="Standby-t0-0", of="t0", **changes):
    return TaskModel(TaskName(name), task_mode=TaskMode.STANDBY, standby_of=of and TaskName(of), **changes)


def test_a_good_plan_passes_with_all_that_is_known():
    zones, weights = {"a": "x", "b": "y", "c": "z"}, {"t0": 5, "t1": 5, "t2": 5}
    check_standbys(model(ACTIVE, GOOD), given(), zones, 2, weights, {"0", "1", "2"})


def test_a_plan_without_standbys_passes():
    check_standbys(model(ACTIVE), given(), factor=1)


def test_a_copy_of_a_task_whose_processor_is_stopped_is_seen():
    refuse(
        'task "t1" has a copy on processor "2"; the standbys of processor "1" are stopped',
        model(ACTIVE, GOOD),
        stopped={"1"},
    )


def test_who_is_stopped_needs_no_copy_and_the_others_do():
    check_standbys(model(ACTIVE, {"t0": ("1",), "t2": ("0",)}), given(), factor=2, stopped={"1"})
    refuse('task "t2" has 0 copies; there is a place for 1', model(ACTIVE, {"t0": ("1",)}), factor=2, stopped={"1"})


def test_a_copy_of_an_unknown_task_is_seen():
    refuse('copies "t9", which is no task', with_task(copy("Standby-t9-0", "t9")))


def test_a_standby_that_does_not_say_whose_it_is_is_seen():
    refuse('standby "Standby-t0-0" on processor "1" does not say which task it copies', with_task(copy(of=None)))


def test_a_task_in_the_wrong_mode_is_seen():
    standing_by = JobModel.of([ContainerModel.of("1", [copy("t0", "t0")], LocationId("b"))])
    refuse('standby "t0" on processor "1" has the name of a task that must be active', standing_by, names={"t0": "0"})


def test_other_partitions_than_those_of_the_task_are_seen():
    refuse('has other partitions than "t0"', with_task(copy(changelog_partition=4)))


def test_a_copy_at_the_location_of_its_active_is_seen():
    places = {"0": "a", "1": "a", "2": "c"}
    refuse('task "t0" and its copy on processor "1" are both at "a"', model({"t0": "0"}, {"t0": ("1",)}, places))


def test_two_copies_at_one_location_are_seen():
    places = {"0": "a", "1": "b", "2": "b"}
    plan = model({"t0": "0"}, {"t0": ("1", "2")}, places)
    refuse('the copies of task "t0" on the processors "1" and "2" are both at "b"', plan)


def test_one_standby_on_two_processors_is_seen():
    containers = [
        ContainerModel.of(id, [TaskModel(TaskName("t0"))] if id == "0" else [copy()], LocationId(place))
        for id, place in HOSTS.items()
    ]
    refuse('standby "Standby-t0-0" on processor "2" is also on processor "1"', JobModel.of(containers), names={"t0": 0})


def test_a_copy_on_a_processor_without_a_location_or_unbound_is_seen():
    nowhere = {"0": "a", "1": ""}
    refuse('on processor "1", which has no location', model({"t0": "0"}, {"t0": ("1",)}, nowhere))
    refuse('on processor "1", which may not hold copies', model({"t0": "0"}, {"t0": ("1",)}), may_hold={"0", "2"})


def test_a_copy_of_a_task_of_unknown_location_is_seen():
    plan = model({"t0": "0"}, {"t0": ("1",)}, {"0": "ANY_HOST", "1": "b"})
    refuse('task "t0" has a copy, but the location of its active is not known', plan)


def test_a_needlessly_shared_zone_is_seen():
    zones = {"a": "x", "b": "x", "c": "y"}
    refuse(
        'the 1 copies of task "t0" are in 0 zones besides that of the active; they could be in 1',
        model({"t0": "0"}, {"t0": ("1",)}),
        zones=zones,
    )
    check_standbys(model({"t0": "0"}, {"t0": ("1",)}), given(["t0"]), {"a": "x", "b": "x", "c": "x"})


def test_too_many_and_too_few_copies_are_seen():
    refuse('task "t0" has 2 copies; the factor 2 allows fewer', model(ACTIVE, GOOD | {"t0": ("1", "2")}), factor=2)
    refuse('task "t2" has 0 copies; there is a place for 1', model(ACTIVE, {**GOOD, "t2": ()}), factor=2)


def test_uneven_load_is_seen():
    active = {"t0": "0", "t1": "0", "t2": "2"}
    plan = model(active, {"t0": ("1",), "t1": ("1",), "t2": ("1",)})
    refuse('processor "1" has copies of the weight 3, and "2" of 0: the copy of task "t0" could move', plan, factor=2)


def test_unevenness_that_rules_or_zones_demand_passes():
    # All is active on 0 and 1, at one location, so the only other processor holds every copy.
    plan = model({"t0": "0", "t1": "1"}, {"t0": ("2",), "t1": ("2",)}, {"0": "a", "1": "a", "2": "b"})
    check_standbys(plan, given({"t0", "t1"}), factor=2)
    zoned = model({"t0": "0", "t1": "0"}, {"t0": ("2",), "t1": ("2",)})
    check_standbys(zoned, given({"t0", "t1"}), {"a": "x", "b": "x", "c": "y"}, factor=2)


def test_too_much_weight_is_seen_and_a_little_is_not():
    active = {f"t{n}": "0" for n in range(4)}
    plan = model(active, dict.fromkeys(active, ("1",)))
    refuse("copies of the weight 40", plan, names=active, factor=2, weights=dict.fromkeys(active, 10))
    slightly = {"t0": ("1",), "t1": ("1",), "t2": ("1",), "t3": ("2",)}
    weights = {"t0": 30, "t1": 5, "t2": 5, "t3": 5}
    check_standbys(model(active, slightly), given(active), factor=2, weights=weights)


def test_the_check_of_a_job_model_looks_at_its_standbys():
    queries = {"q": given()}
    check_job_model(model(ACTIVE, GOOD), queries, HOSTS, factor=2)
    with pytest.raises(InvalidGroupingError, match='task "t1" has 0 copies'):
        check_job_model(model(ACTIVE, {**GOOD, "t1": ()}), queries, HOSTS, factor=2)
    with pytest.raises(InvalidGroupingError, match="besides that of the active"):
        check_job_model(model(ACTIVE, GOOD), queries, HOSTS, zones={"a": "x", "b": "x", "c": "y"})
    with pytest.raises(InvalidGroupingError, match="may not hold copies"):
        check_job_model(model(ACTIVE, GOOD), queries, HOSTS, may_hold=())
