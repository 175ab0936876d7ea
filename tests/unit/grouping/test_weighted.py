"""Grouping by bytes."""

from tests.unit.grouping.builders import group, moved, sizes


def weigh(plan, weights):
    return {processor: sum(weights[name] for name in held) for processor, held in plan.items()}


def test_bytes_are_even_where_counts_are_not():
    weights = {"big": 60, "t1": 10, "t2": 10, "t3": 10, "t4": 10, "t5": 10, "t6": 10}
    plan = group(list(weights), {"0": "a", "1": "b"}, weights=weights)
    assert weigh(plan, weights) == {"0": 60, "1": 60}
    assert sorted(sizes(plan).values()) == [1, 6]


def test_equal_weights_give_equal_sizes():
    weights = {f"t{i}": 7 for i in range(11)}
    assert sorted(sizes(group(list(weights), dict.fromkeys("0123", "a"), weights=weights)).values()) == [2, 3, 3, 3]


def test_a_plan_within_one_heaviest_task_of_the_mean_is_left_alone():
    weights = {"t1": 50, "t2": 30, "t3": 20, "t4": 25, "t5": 25}
    before = {"0": ["t1", "t2"], "1": ["t3", "t4", "t5"]}
    assert moved(before, group(list(weights), {"0": "a", "1": "b"}, before, weights=weights)) == set()


def test_a_processor_that_is_too_heavy_gives_away_just_enough():
    weights = {"t1": 50, "t2": 40, "t3": 7, "t4": 6, "t5": 3}  # mean 53 and heaviest 50: below 103 nothing has to move
    before = {"0": ["t1", "t2", "t3", "t4"], "1": ["t5"]}
    assert moved(before, group(list(weights), {"0": "a", "1": "b"}, before, weights=weights)) == {"t4"}


def test_a_new_processor_is_filled_up_to_the_mean():
    weights = {f"t{i:02}": 10 for i in range(20)}
    before = {"0": sorted(weights)[:10], "1": sorted(weights)[10:]}
    after = group(list(weights), {"0": "a", "1": "b", "2": "c"}, before, weights=weights)
    assert sorted(weigh(after, weights).values()) == [60, 70, 70]
    assert len(moved(before, after)) == 6


def test_a_new_processor_gets_work_even_beside_a_giant():
    weights = {"giant": 1000, **{f"t{i}": 10 for i in range(20)}}
    before = {"0": ["giant"], "1": sorted(weights)[1:11], "2": sorted(weights)[11:]}
    after = group(list(weights), {"0": "a", "1": "b", "2": "c", "3": "d"}, before, weights=weights)
    assert after["0"] == {"giant"}
    assert len(after["3"]) >= 1


def test_a_new_processor_takes_from_its_own_location_first():
    weights = {f"t{i:02}": 10 for i in range(16)}
    before = {"0": sorted(weights)[:8], "1": sorted(weights)[8:]}
    after = group(list(weights), {"0": "a", "1": "b", "2": "b"}, before, weights=weights)
    assert len(after["2"] & set(before["1"])) == 3
    assert weigh(after, weights) == {"0": 60, "1": 50, "2": 50}


def test_tasks_of_a_dead_processor_go_to_their_location_while_it_is_below_the_mean():
    weights = {"t1": 10, "t2": 10, "t3": 10, "t4": 10, "t5": 10, "t6": 10}
    before = {"0": ["t1", "t2"], "1": ["t3"], "2": ["t4"], "gone": ["t5", "t6"]}
    after = group(list(weights), {"0": "b", "1": "a", "2": "b"}, before, {"t5": "a", "t6": "x"}, weights)
    assert after == {"0": {"t1", "t2"}, "1": {"t3", "t5"}, "2": {"t4", "t6"}}


def test_homeless_tasks_feed_a_new_processor_so_that_no_other_task_moves():
    weights = {f"t{i}": 10 for i in range(8)}
    before = {"0": ["t0", "t1"], "1": ["t2", "t3"], "2": ["t4", "t5"], "gone": ["t6", "t7"]}
    last = {"t6": "a", "t7": "a"}
    after = group(list(weights), {"0": "a", "1": "b", "2": "c", "new": "d"}, before, last, weights)
    assert after["new"] == {"t6", "t7"}


def test_a_task_without_a_weight_counts_as_the_mean_of_the_others():
    weights = {"t1": 10, "t2": 10, "t3": 40}  # so t4 is 20, and no even plan puts it beside t3
    plan = group(["t1", "t2", "t3", "t4"], {"0": "a", "1": "b"}, weights=weights)
    assert {frozenset(held) for held in plan.values()} == {frozenset({"t3"}), frozenset({"t1", "t2", "t4"})}


def test_with_no_more_tasks_than_processors_each_has_one_and_the_heaviest_stays():
    weights = {"t1": 1, "t2": 9, "t3": 5}
    before = {"0": ["t1", "t2", "t3"]}
    after = group(list(weights), {"0": "a", "1": "a", "2": "a", "3": "a"}, before, weights=weights)
    assert after == {"0": {"t2"}, "1": {"t1"}, "2": {"t3"}}


def test_weights_that_are_all_nothing_are_no_weights():
    names = [f"t{i}" for i in range(5)]
    plan = group(names, {"0": "a", "1": "b"}, weights=dict.fromkeys(names, 0))
    assert plan == group(names, {"0": "a", "1": "b"})


def test_tasks_of_no_weight_are_spread_by_number():
    weights = {"t1": 10, "t2": 10, **{f"z{i}": 0 for i in range(6)}}
    assert sorted(sizes(group(list(weights), {"0": "a", "1": "b"}, weights=weights)).values()) == [4, 4]
