"""The matching that brings tasks to their last location."""

from mooring.grouping.matching import Matching

CROWD_1, CROWD_2 = ("crowd", 1), ("crowd", 2)
EAST, WEST = ("place", 1), ("place", 2)


def test_units_are_matched_up_to_the_width_between_two_nodes():
    matching = Matching({CROWD_1: 5, EAST: 4}, {(CROWD_1, EAST): 3})
    assert matching.partners(CROWD_1) == {EAST: 3}


def test_a_unit_gives_way_to_one_that_has_no_other_place():
    units = {CROWD_1: 1, CROWD_2: 1, EAST: 1, WEST: 1}
    matching = Matching(units, {(CROWD_1, EAST): 1, (CROWD_1, WEST): 1, (CROWD_2, EAST): 1})
    assert matching.partners(CROWD_2) == {EAST: 1}
    assert matching.partners(CROWD_1) == {WEST: 1}


def test_an_offer_is_taken_up_when_it_makes_the_matching_larger():
    matching = Matching({CROWD_1: 2, EAST: 1}, {(CROWD_1, EAST): 2, (CROWD_1, WEST): 1})
    assert matching.offer(EAST)
    assert not matching.offer(EAST)
    assert not matching.offer(WEST)
    assert matching.partners(CROWD_1) == {EAST: 2}


def test_an_offer_may_be_taken_up_by_somebody_who_makes_room_for_another():
    units = {CROWD_1: 1, CROWD_2: 1, EAST: 1}
    matching = Matching(units, {(CROWD_1, EAST): 1, (CROWD_1, WEST): 1, (CROWD_2, EAST): 1})
    assert matching.partners(CROWD_1) == {EAST: 1}
    assert matching.offer(WEST)
    assert matching.partners(CROWD_1) == {WEST: 1}
    assert matching.partners(CROWD_2) == {EAST: 1}


def test_a_node_that_is_not_connected_takes_no_offer():
    assert not Matching({}, {}).offer(EAST)
