"""Who takes over when processors are lost."""

from collections import Counter

from mooring.standby import choose_new_owners, failover_order
from tests.unit.standby.builders import model

LOCATIONS = {str(n): f"h{n}" for n in range(4)}


def test_nothing_is_lost_nothing_is_taken_over():
    assert choose_new_owners(model({"t": "0"}, {"t": ("1",)}), lost=()) == {}


def test_a_lost_task_goes_to_its_copy():
    plan = model({"t": "0", "u": "1"}, {"t": ("2",), "u": ("2",)})
    assert choose_new_owners(plan, {"0"}) == {"t": "2"}


def test_a_copy_that_is_lost_too_is_no_help():
    plan = model({"t": "0", "u": "2"}, {"t": ("1",), "u": ("1",)})
    assert choose_new_owners(plan, {"0", "1"}) == {}


def test_the_load_is_spread_over_the_copies():
    # Taking the first choice each time would leave t3 and t4 both on 1.
    copies = {"t1": ("1", "2"), "t2": ("2", "3"), "t3": ("1", "2"), "t4": ("1",)}
    found = choose_new_owners(model(dict.fromkeys(copies, "0"), copies, LOCATIONS), {"0"})
    assert sorted(Counter(found.values()).values()) == [1, 1, 2]


def test_what_survivors_have_already_counts():
    plan = model({"t": "0", "u": "1", "v": "1"}, {"t": ("1", "2")}, LOCATIONS)
    assert choose_new_owners(plan, {"0"}) == {"t": "2"}


def test_ids_that_are_not_known_are_ignored():
    assert choose_new_owners(model({"t": "0"}), {"9"}) == {}


def test_the_order_of_preference_spreads_the_tasks_of_each_location():
    copies = {f"t{n}": ("1", "2", "3") for n in range(6)}
    order = failover_order(model(dict.fromkeys(copies, "0"), copies, LOCATIONS))
    assert all(set(row) == {"1", "2", "3"} for row in order.values())
    assert Counter(row[0] for row in order.values()) == {"1": 2, "2": 2, "3": 2}


def test_a_task_without_a_copy_has_an_empty_order():
    assert failover_order(model({"t": "0"})) == {"t": ()}
