"""Who holds the copies: the rules, what is reported, and what stays where it was."""

from collections import Counter

import pytest

from mooring.errors import InvalidGroupingError
from mooring.model import ContainerModel, JobModel, SystemStreamPartition, TaskMode, TaskModel, TaskName
from mooring.standby import SharedZone, Unplaced, assign_standbys
from tests.property.standby_fleets import actives
from tests.unit.standby.builders import HOSTS, assign, copies_of, model

ONE_EACH = {"t0": "0", "t1": "1", "t2": "2"}


def loads(found):
    return Counter(p for held in copies_of(found).values() for p in held)


def test_factor_one_makes_no_copies():
    found = assign(ONE_EACH, factor=1)
    assert found.model == model(ONE_EACH) and not found.unplaced


@pytest.mark.parametrize("factor", [0, 5, -1])
def test_a_factor_out_of_range_is_refused(factor):
    with pytest.raises(InvalidGroupingError, match=f"factor is {factor}; it must be from 1 to 4"):
        assign(ONE_EACH, factor=factor)


def test_a_task_that_is_active_twice_is_refused():
    twice = JobModel.of([ContainerModel.of(id, [TaskModel(TaskName("t"))]) for id in "01"])
    with pytest.raises(InvalidGroupingError, match='task "t" is active on "0" and on "1"'):
        assign_standbys(twice, 2)


def test_a_negative_weight_is_refused():
    with pytest.raises(InvalidGroupingError, match='task "t0" has the weight -3'):
        assign(ONE_EACH, weights={"t0": -3})


def test_a_model_without_tasks_gets_no_copies():
    assert assign({}, factor=4).model == model({})


def test_a_standby_is_what_its_task_is_in_another_mode_and_says_whose_it_is():
    partitions = frozenset({SystemStreamPartition("spark", "q/0/default", 3)})
    task = TaskModel(TaskName("q-1/Partition 3"), partitions, 3)
    given = JobModel.of([ContainerModel.of("0", [task], "a"), ContainerModel.of("1", [], "b")], 7, {"k": "v"})
    found = assign_standbys(given, 2).model
    name = TaskName("Standby-q-1/Partition 3-0")
    assert found.containers["1"].tasks == {name: TaskModel(name, partitions, 3, TaskMode.STANDBY, task.task_name)}
    assert (found.version, found.config) == (7, {"k": "v"})


def test_processors_at_one_location_hold_no_copies_of_each_other():
    found = assign({"t": "0"}, locations={"0": "a", "1": "a", "2": "b"})
    assert copies_of(found) == {"t": {"2"}}


def test_a_copy_without_a_location_left_is_reported_and_not_doubled_up():
    found = assign({"t": "0"}, factor=4)
    assert copies_of(found) == {"t": {"1", "2"}}
    assert found.unplaced == (Unplaced("t", 2, "too few locations can hold copies: 2 besides that of its active"),)


def test_a_task_whose_location_is_not_known_gets_no_copy():
    found = assign({"t": "0"}, locations={"0": "ANY_HOST", "1": "b"})
    assert found.unplaced == (Unplaced("t", 0, "the location of its active is not known"),)


def test_processors_that_are_not_bound_or_have_no_location_get_no_copies():
    locations = {"0": "a", "1": "b", "2": "", "3": "d"}
    assert copies_of(assign({"t": "0"}, locations=locations, may_hold={"0", "2", "3"})) == {"t": {"3"}}


def test_an_active_on_a_processor_that_is_not_bound_has_its_copy_elsewhere():
    assert copies_of(assign({"t": "0"}, may_hold={"1"})) == {"t": {"1"}}


def test_a_copy_goes_to_another_zone():
    zones = {"a": "x", "b": "x", "c": "y"}
    found = assign({"t0": "0", "t1": "1"}, zones=zones)
    assert copies_of(found) == {"t0": {"2"}, "t1": {"2"}} and not found.sharing_zone


def test_with_too_few_zones_every_zone_is_used_and_the_rest_is_reported():
    locations = {str(n): f"h{n}" for n in range(5)}
    zones = {"h0": "x", "h1": "x", "h2": "x", "h3": "x", "h4": "y"}
    found = assign({"t": "0"}, factor=3, locations=locations, zones=zones)
    assert "4" in copies_of(found)["t"] and len(copies_of(found)["t"]) == 2
    assert found.sharing_zone == (SharedZone("t", "x"),)


def test_without_zones_nothing_is_said_about_them():
    assert assign(ONE_EACH, zones={}).sharing_zone == ()


def test_copies_are_spread_evenly():
    active = {f"t{n}": str(n % 3) for n in range(10)}
    assert sorted(loads(assign(active, factor=2)).values()) == [3, 3, 4]


def test_evenness_is_found_through_a_chain_of_moves():
    # The t are active on 2, so none of the three copies on 1 can go there; one goes to 0, and one of the u makes room.
    active = {"t0": "2", "t1": "2", "t2": "2", "u0": "1", "u1": "1"}
    before = {"t0": ("1",), "t1": ("1",), "t2": ("1",), "u0": ("0",), "u1": ("0",)}
    found = assign(active, before=before)
    assert loads(found) == {"0": 2, "1": 2, "2": 1}
    assert sum(copies_of(found)[task] == set(had) for task, had in before.items()) == 3


def moves(found, before):
    return sum(len(held - set(before.get(task, ()))) for task, held in copies_of(found).items())


def test_a_copy_that_moved_without_need_is_brought_home():
    locations = {"0": "x", "1": "x", "2": "y", "3": "z"}
    before = {"t0": ("3", "0", "1"), "t1": ("0", "3", "1"), "t2": ("2", "1", "3")}
    found = assign({"t0": "1", "t1": "0", "t2": "3"}, locations=locations, before=before)
    assert (moves(found, before), sorted(loads(found).values())) == (1, [1, 1, 1])


def test_a_copy_comes_home_when_another_can_leave_for_free():
    locations = {"0": "z", "1": "x", "2": "y"}
    active = {"t0": "2", "t1": "1", "t2": "1", "t3": "1", "t4": "0", "t5": "0"}
    before = {"t0": ("2",), "t1": ("0",), "t2": ("0",), "t3": ("0",), "t4": ("2",), "t5": ("0",)}
    found = assign(active, locations=locations, before=before)
    assert (moves(found, before), sorted(loads(found).values())) == (3, [2, 2, 2])


def test_a_copy_that_moves_anyway_is_what_makes_room():
    locations = {"0": "z", "1": "y", "2": "x"}
    before = {"t0": ("1",), "t1": ("1",), "t2": ("1",), "t3": ("0",)}
    found = assign({"t0": "2", "t1": "1", "t2": "0", "t3": "0"}, locations=locations, before=before)
    assert (moves(found, before), sorted(loads(found).values())) == (2, [1, 1, 2])


def test_the_copies_of_one_host_are_spread_over_the_others():
    locations = {str(n): f"h{n}" for n in range(11)}
    active = {f"t{n}": str(n % 11) for n in range(110)}
    found = assign(active, locations=locations)
    pairs = Counter((active[task], p) for task, held in copies_of(found).items() for p in held)
    assert max(pairs.values()) <= 2


def test_copies_stay_where_they_were():
    before = {"t0": ("2",), "t1": ("0",), "t2": ("1",)}
    assert copies_of(assign(ONE_EACH, before=before)) == {"t0": {"2"}, "t1": {"0"}, "t2": {"1"}}


def test_only_the_copies_of_a_lost_processor_move():
    locations = {"0": "a", "1": "b", "2": "c", "3": "d"}
    active = {"t0": "0", "t1": "1", "t2": "2"}
    before = {"t0": ("1",), "t1": ("2",), "t2": ("gone",)}
    found = assign(active, locations=locations, before=before, old_locations=locations | {"gone": "e"})
    assert copies_of(found) == {"t0": {"1"}, "t1": {"2"}, "t2": {"3"}}


def test_a_new_copy_goes_to_a_processor_at_the_location_of_the_lost_one():
    locations = {"0": "a", "1": "b", "2": "c", "3": "d"}
    found = assign({"t": "0"}, locations=locations, before={"t": ("gone",)}, old_locations=locations | {"gone": "d"})
    assert copies_of(found) == {"t": {"3"}}


def test_a_copy_that_became_active_is_replaced_where_the_active_was():
    # The active moved from 0 to 2, which had the copy; the files at 0 are still there.
    previous = model({"t": "0"}, {"t": ("2",)})
    assert copies_of(assign_standbys(model({"t": "2"}), 2, previous)) == {"t": {"0"}}


def test_a_copy_on_a_processor_that_changed_its_host_is_not_taken_for_being_there():
    locations = {"0": "a", "1": "new", "2": "b"}
    found = assign({"t": "0"}, locations=locations, before={"t": ("1",)}, old_locations=HOSTS)
    assert copies_of(found) == {"t": {"2"}}  # at "b", where the files are


def test_a_lower_factor_keeps_copies_that_are_there():
    before = {"t0": ("1", "2"), "t1": ("0", "2"), "t2": ("0", "1")}
    found = copies_of(assign(ONE_EACH, factor=2, before=before))
    assert all(len(held) == 1 and held <= set(before[task]) for task, held in found.items())


def test_a_higher_factor_keeps_all_copies_and_their_numbers():
    first = assign(ONE_EACH, factor=2)
    second = assign_standbys(first.model, 3, first.model)
    for id, container in first.model.containers.items():
        assert container.tasks.items() <= second.model.containers[id].tasks.items()


def test_actives_never_move():
    assert actives(assign(ONE_EACH, factor=3).model) == ONE_EACH


def test_names_with_dashes_and_numbers_are_not_confused():
    active = {"a": "0", "a-0": "1", "Standby-a-0": "2"}
    found = assign(active, factor=2)
    assert found.unplaced == (Unplaced("a", 0, 'an active task is already named "Standby-a-0"'),)
    assert {task: len(held) for task, held in copies_of(found).items()} == {"a": 0, "a-0": 1, "Standby-a-0": 1}


def test_old_standbys_of_tasks_that_ended_and_of_no_task_are_left_out():
    nobodys = TaskModel(TaskName("Standby-t0-0"), task_mode=TaskMode.STANDBY)
    before = model({}, {"ended": ("2",)}).containers
    previous = JobModel.of([before["0"], before["2"], ContainerModel.of("1", [nobodys], "b")])
    assert assign_standbys(model(ONE_EACH), 2, previous) == assign(ONE_EACH)


def test_with_weights_bytes_are_even():
    locations = {str(n): f"h{n}" for n in range(4)}
    active = {f"t{n}": str(n % 4) for n in range(40)}
    weights = {task: 1 + n * n for n, task in enumerate(active)}
    carried = Counter()
    for task, held in copies_of(assign(active, locations=locations, weights=weights)).items():
        carried.update({p: weights[task] for p in held})
    assert max(carried.values()) <= sum(weights.values()) / 4 + max(weights.values())


def test_a_plan_is_left_alone_while_weights_drift():
    locations = {str(n): f"h{n}" for n in range(4)}
    active = {f"t{n}": str(n % 4) for n in range(40)}
    first = assign(active, locations=locations, weights=dict.fromkeys(active, 100))
    drifted = {task: 100 + n for n, task in enumerate(active)}
    assert assign_standbys(first.model, 2, first.model, weights=drifted) == first


def test_a_new_processor_gets_its_share_of_bytes():
    locations = {str(n): f"h{n}" for n in range(4)}
    active = {f"t{n}": str(n % 3) for n in range(40)}
    weights = {task: 50 + n for n, task in enumerate(active)}
    first = assign(active, locations={id: locations[id] for id in "012"}, weights=weights)
    found = assign_standbys(model(active, {}, locations), 2, first.model, weights=weights)
    carried = sum(weights[task] for task, held in copies_of(found).items() if "3" in held)
    assert carried >= sum(weights.values()) / 4 * 3 / 4


def test_a_processor_that_is_too_heavy_is_relieved_though_nobody_is_too_light():
    locations = {str(n): f"h{n}" for n in range(10)}
    active = {f"t{n}": str(n % 9) for n in range(100)}
    before = {task: ("9",) if n < 14 else (str((n + 1) % 9),) for n, task in enumerate(active)}
    found = assign(active, locations=locations, before=before, weights=dict.fromkeys(active, 7))
    assert loads(found)["9"] == 11 and moves(found, before) == 3


def test_a_processor_that_is_too_light_is_filled_though_nobody_is_too_heavy():
    locations = {str(n): f"h{n}" for n in range(10)}
    active = {f"t{n}": str(n % 9) for n in range(90)}
    before = {task: (str((n + 1) % 9),) for n, task in enumerate(active)}
    found = assign(active, locations=locations, before=before, weights=dict.fromkeys(active, 7))
    assert loads(found)["9"] >= 7


def test_no_copy_is_lost_where_two_of_a_task_could_go_to_two_processors_at_one_location():
    locations = {"0": "b", "1": "d", "2": "a", "3": "a", "4": "b", "5": "c"}
    active = {"t0": "3", "t1": "1", "t2": "3", "t3": "0"}
    before = {"t0": ("0", "1"), "t1": ("0", "5"), "t2": ("0", "1"), "t3": ("0", "1")}
    found = assign(active, 3, locations, before)
    assert found.unplaced == () and {len(held) for held in copies_of(found).values()} == {2}
