"""What a new job model changes."""

from mooring.grouping import Move, plan_moves
from tests.unit.grouping.builders import model

PLACES = {"0": "a", "1": "a", "2": "b"}


def test_nothing_moves_between_equal_models():
    assert plan_moves(model({"0": ["t"]}, PLACES), model({"0": ["t"]}, PLACES, version=9)).moves == ()


def test_a_move_tells_both_ends_and_the_bytes():
    plan = plan_moves(model({"0": ["t", "u"]}, PLACES), model({"0": ["u"], "2": ["t"]}, PLACES), {"t": 7})
    assert plan.moves == (Move("t", "0", "a", "2", "b", 7),)
    assert (plan.tasks_to_fetch, plan.bytes_to_fetch) == (1, 7)


def test_a_move_within_a_location_fetches_nothing():
    plan = plan_moves(model({"0": ["t"]}, PLACES), model({"1": ["t"]}, PLACES), {"t": 7})
    assert plan.moves[0].stays_at_location and plan.moves[0].changes_processor
    assert (plan.tasks_to_fetch, plan.bytes_to_fetch) == (0, 0)


def test_a_task_moves_with_its_processor_to_another_location():
    (move,) = plan_moves(model({"0": ["t"]}, {"0": "a"}), model({"0": ["t"]}, {"0": "b"})).moves
    assert not move.changes_processor and not move.stays_at_location


def test_a_new_task_comes_from_nowhere_and_its_bytes_are_unknown():
    assert plan_moves(None, model({"0": ["t"]}, PLACES)).moves == (Move("t", None, None, "0", "a", None),)


def test_two_unknown_locations_are_not_the_same_place():
    (move,) = plan_moves(model({"0": ["t"]}), model({"1": ["t"]})).moves
    assert not move.stays_at_location


def test_tasks_that_are_gone_are_not_listed_and_the_rest_is_in_natural_order():
    after = model({"0": ["t10", "t9"]}, PLACES)
    assert [move.task_name for move in plan_moves(model({"1": ["old"]}), after).moves] == ["t9", "t10"]
