"""Every grouping promise as a property: 5,000 random fleets and more, counted below."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mooring.errors import InvalidGroupingError
from mooring.grouping import check_grouping, check_job_model, plan_job, plan_moves
from mooring.model import JobModel, natural_order
from tests.property.fleets import Fleet, fleets, model_of, owners
from tests.property.grouping_reference import cheapest

on_many = settings(max_examples=400)
"""Fourteen properties on 400 fleets each: 5,600 fleets in a run."""


def effective_weights(fleet: Fleet) -> dict[str, int]:
    names = [task.task_name for task in fleet.tasks]
    known = [fleet.weights[name] for name in names if name in fleet.weights]
    return {name: fleet.weights.get(name, sum(known) // len(known) if known else 0) for name in names}


@on_many
@given(fleets(weighted=None))
def test_every_task_is_held_once_and_every_processor_used_that_can_be(fleet):
    held = [task for container in fleet.group() for task in container.tasks.values()]
    assert len(held) == len(fleet.tasks) and set(held) == fleet.tasks
    assert len(fleet.group()) == min(len(fleet.tasks), len(fleet.processor_locality))


@on_many
@given(fleets())
def test_sizes_are_floor_or_ceil(fleet):
    held = Counter(owners(fleet.group()).values())
    tasks, processors = len(fleet.tasks), len(fleet.processor_locality)
    assert {held[id] for id in fleet.processor_locality} <= {tasks // processors, -(-tasks // processors)}


@on_many
@given(fleets(weighted=True))
def test_the_weight_of_each_processor_is_within_the_heaviest_task_of_the_mean(fleet):
    weights, processors = effective_weights(fleet), len(fleet.processor_locality)
    sums = Counter(dict.fromkeys(fleet.processor_locality, 0))
    for name, owner in owners(fleet.group()).items():
        sums[owner] += weights[name]
    total, heaviest = sum(weights.values()), max(weights.values())
    assert max(sums.values()) * processors <= total + heaviest * processors
    if len(fleet.tasks) > processors and heaviest:
        assert all(abs(weight * processors - total) < heaviest * processors for weight in sums.values())


@on_many
@given(fleets(weighted=True))
def test_no_processor_stays_light_while_a_heavy_one_has_a_task_that_fits(fleet):
    weights, processors = effective_weights(fleet), len(fleet.processor_locality)
    assume(len(fleet.tasks) > processors and any(weights.values()))
    sums = Counter(dict.fromkeys(fleet.processor_locality, 0))
    for name, owner in owners(fleet.group()).items():
        sums[owner] += weights[name]
    left, sharing, ordered = sum(weights.values()), processors, sorted(weights.values())
    while sharing > 1 and ordered[-1] > Fraction(left, sharing):
        left, sharing = left - ordered.pop(), sharing - 1
    fair = Fraction(left, sharing)
    for name, owner in owners(fleet.group()).items():
        for light in sums:
            if weights[name] and sums[owner] > fair and sums[light] + Fraction(1, processors) < fair * 3 / 4:
                assert sums[light] + weights[name] > fair


@on_many
@given(fleets())
def test_no_even_plan_moves_fewer_tasks_or_brings_more_to_their_last_location(fleet):
    owner, ids = owners(fleet.group()), list(fleet.processor_locality)
    names, homes = sorted(owner), fleet.homes()
    last = {name: fleet.last_location(name) for name in names}
    moved = sum(homes.get(name) != owner[name] for name in names)
    strangers = sum(last[name] != fleet.processor_locality[owner[name]] for name in names)
    best = cheapest(
        home=[ids.index(homes[name]) if homes.get(name) in ids else None for name in names],
        wish=[last[name] for name in names],
        place=list(fleet.processor_locality.values()),
        load=[fleet.load[id] for id in ids],
    )
    assert (moved, strangers) == best[:2]
    floor, remainders = divmod(len(names), len(ids))
    held = Counter(homes[name] for name in names if homes.get(name) in ids)
    if 0 < remainders >= sum(count > floor for count in held.values()):
        size = Counter(owner.values())
        assert sum(fleet.load[id] for id in ids if size[id] > floor) == best[2]


@on_many
@given(fleets())
def test_remainder_tasks_stay_where_they_are(fleet):
    now = fleet.after(fleet.group())
    elsewhere = replace(now, load={id: 9 - load for id, load in fleet.load.items()})
    assert elsewhere.group() == now.group() == fleet.group()


@on_many
@given(fleets(weighted=None), st.integers(0, 9))
def test_the_order_of_the_input_does_not_matter(fleet, seed):
    assert fleet.in_another_order(seed).group() == fleet.group()


@on_many
@given(fleets(weighted=None))
def test_grouping_its_own_output_changes_nothing(fleet):
    once = fleet.group()
    assert replace(fleet, previous=JobModel.of(once)).group() == once
    assert fleet.after(once).group() == once


@on_many
@given(fleets(weighted=None, few_tasks=True))
def test_with_more_processors_than_tasks_holders_stay_then_come_last_locations_then_small_ids(fleet):
    fleet = replace(fleet, load={})
    owner, homes = owners(fleet.group()), fleet.homes()
    holders = {homes[task.task_name] for task in fleet.tasks if homes.get(task.task_name) in fleet.processor_locality}
    assert holders <= set(owner.values())
    idle = sorted(set(fleet.processor_locality) - set(owner.values()), key=natural_order)
    for name, id in owner.items():
        near = fleet.last_location(name)
        if homes.get(name) != id and fleet.processor_locality[id] != near:
            assert near not in [fleet.processor_locality[other] for other in idle]
            assert natural_order(id) < natural_order(idle[0])


@on_many
@given(fleets(weighted=None), st.sampled_from(["", "ANY_HOST", "nobody is here"]))
def test_a_location_without_anybody_is_no_preference(fleet, nowhere):
    places = set(fleet.processor_locality.values()) - {"", "ANY_HOST"}
    no_preference = {name: last if last in places else nowhere for name, last in fleet.task_locality.items()}
    assert replace(fleet, task_locality=no_preference).group() == fleet.group()


@on_many
@given(fleets(weighted=True))
def test_weights_do_not_move_a_task_when_it_is_even_already(fleet):
    """Whatever the plan before, once it is within the promise it stays, also when all weights grow alike."""
    now = fleet.after(fleet.group())
    grown = replace(now, weights={name: 7 * weight for name, weight in effective_weights(fleet).items()})
    assert grown.group() == now.group()


@on_many
@given(fleets(weighted=None))
def test_the_checker_passes_what_the_planner_plans(fleet):
    check_grouping(
        fleet.group(),
        fleet.tasks,
        fleet.processor_locality,
        fleet.task_locality,
        fleet.previous,
        fleet.weights,
        fleet.load,
    )


@on_many
@given(fleets(), st.randoms(use_true_random=False))
def test_the_checker_refuses_a_plan_that_is_worse(fleet, chance):
    """A random even plan is either as good as the planner's, or the checker says what is wrong with it."""
    ids, names = list(fleet.processor_locality), sorted(task.task_name for task in fleet.tasks)
    slots = chance.sample(ids, len(ids)) * (len(names) // len(ids) + 1)
    owner = dict(zip(chance.sample(names, len(names)), slots, strict=False))
    moved = {"random": 0, "planned": 0}
    for kind, plan in (("random", owner), ("planned", owners(fleet.group()))):
        moved[kind] = sum(fleet.homes().get(name) != id for name, id in plan.items())
    assume(moved["random"] > moved["planned"])
    plan = model_of(owner, fleet.processor_locality).containers.values()
    check_grouping(plan, fleet.tasks, fleet.processor_locality)
    with pytest.raises(InvalidGroupingError, match=r"could have kept|gave a task up"):
        check_grouping(plan, fleet.tasks, fleet.processor_locality, fleet.task_locality, fleet.previous)


@on_many
@given(fleets(weighted=None))
def test_an_application_of_several_queries_keeps_every_promise_for_each(fleet):
    queries = {}
    for task in fleet.tasks:
        queries.setdefault(task.task_name.split("/")[0], set()).add(task)
    queries = {query: frozenset(tasks) for query, tasks in queries.items()}
    plan = plan_job(queries, fleet.processor_locality, fleet.task_locality, fleet.previous, fleet.weights)
    check_job_model(plan, queries, fleet.processor_locality, fleet.task_locality, fleet.previous, fleet.weights)
    assert plan_job(queries, fleet.processor_locality, fleet.task_locality, plan, fleet.weights) is plan
    assert plan_moves(plan, plan).moves == ()
