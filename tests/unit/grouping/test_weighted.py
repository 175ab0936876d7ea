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
    heavy, others = ["x1", "x2", *(f"t{i}" for i in range(11))], {"1": 97, "2": 97, "3": 97, "4": 97}
    before = {"0": heavy, **{id: [f"{id}-{i}" for i in range(weight)] for id, weight in others.items()}}
    weights = {name: 10 if name[0] == "t" else 1 for held in before.values() for name in held}
    after = group(list(weights), dict.fromkeys(before, "a"), before, weights=weights)  # mean 100, so 112 is too much
    assert len(moved(before, after)) == 1
    assert weigh(after, weights)["0"] == 102


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
    assert sorted(weigh(after, weights).values()) == [60, 70, 70, 1000]


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


def test_above_the_fair_share_tasks_go_to_the_lightest_and_not_to_their_location():
    before = {"0": [f"a{i}" for i in range(10)], "1": [f"b{i}" for i in range(16)] + ["big"]}
    before["gone"] = [f"d{i}" for i in range(18)]
    weights = {name: 12 if name == "big" else 2 for held in before.values() for name in held}
    after = group(list(weights), {"0": "a", "1": "b"}, before, dict.fromkeys(before["gone"], "a"), weights)
    assert weigh(after, weights) == {"0": 50, "1": 50}


def test_homeless_tasks_feed_a_new_processor_before_they_fill_up_their_location():
    before = {"1": [f"b{i}" for i in range(20)] + ["big"], "2": [f"c{i}" for i in range(26)]}
    before["gone"] = [f"d{i}" for i in range(38)]
    weights = {name: 12 if name == "big" else 2 for held in before.values() for name in held}
    places = {"0": "a", "1": "b", "2": "c", "new": "d"}
    after = group(list(weights), places, before, dict.fromkeys(before["gone"], "a"), weights)
    assert weigh(after, weights) == {"0": 42, "1": 52, "2": 52, "new": 34}
    assert moved(before, after) == set(before["gone"])


def test_a_giver_that_became_too_light_is_fed_too():
    before = {"0": ["x", "y"], "1": [f"b{i}" for i in range(7)], "2": ["z"], "3": [f"d{i}" for i in range(7)]}
    weights = {name: {"x": 55, "y": 50, "z": 1}.get(name, 21) for held in before.values() for name in held}
    after = group(list(weights), {"0": "a", "1": "b", "2": "a", "3": "d"}, before, weights=weights)
    assert weigh(after, weights) == {"0": 97, "1": 105, "2": 93, "3": 105}


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


def test_two_giants_on_one_processor_part():
    weights = {"g1": 100, "g2": 100, **{f"t{i}": 10 for i in range(6)}}
    before = {"0": ["g1", "g2"], "1": ["t0", "t1", "t2"], "2": ["t3", "t4", "t5"]}
    after = group(list(weights), dict.fromkeys("012", "a"), before, weights=weights)
    assert sorted(weigh(after, weights).values()) == [60, 100, 100]
