"""The grouping promises for every grouper that makes them: on all processors, on a fixed number, on one."""

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mooring.errors import InvalidGroupingError
from mooring.grouping import (
    GroupByContainerCount,
    GroupByContainerIds,
    GrouperMetadata,
    HostAwareGrouper,
    SingleContainerGrouper,
    check_job_model,
    plan_job,
)
from mooring.model import JobModel, natural_order
from tests.property.fleets import Fleet, fleets, owners, task

on_many = settings(max_examples=200)


@dataclass(frozen=True)
class Case:
    """A fleet with its grouper, and how many processors that one uses."""

    fleet: Fleet
    most: int | None

    @property
    def expected(self) -> int:
        counts = [len(self.fleet.tasks), len(self.fleet.processor_locality)]
        return min([*counts, self.most] if self.most else counts)


@st.composite
def cases(draw, weighted=False, only_fixed=False):
    fleet = draw(fleets(weighted))
    kinds = ("count", "single") if only_fixed else ("ids", "count", "single")
    kind = draw(st.sampled_from(kinds))
    count = draw(st.integers(1, len(fleet.tasks)))
    make, most = {
        "ids": (partial(GroupByContainerIds, 3), None),
        "count": (partial(GroupByContainerCount, count), count),
        "single": (partial(SingleContainerGrouper, None), 1),
    }[kind]
    return Case(replace(fleet, make_grouper=make), most)


@on_many
@given(cases(weighted=None))
def test_every_task_is_held_once_on_as_many_processors_as_the_grouper_uses(case):
    held = [task for container in case.fleet.group() for task in container.tasks.values()]
    assert len(held) == len(case.fleet.tasks) and set(held) == case.fleet.tasks
    assert len(case.fleet.group()) == case.expected


@on_many
@given(cases())
def test_sizes_are_floor_or_ceil(case):
    sizes = Counter(owners(case.fleet.group()).values())
    tasks = len(case.fleet.tasks)
    assert set(sizes.values()) <= {tasks // case.expected, -(-tasks // case.expected)}


@on_many
@given(cases(weighted=True))
def test_the_heaviest_processor_exceeds_the_mean_by_at_most_the_heaviest_task(case):
    weights = {task.task_name: case.fleet.weights.get(task.task_name) for task in case.fleet.tasks}
    assume(all(weight is not None for weight in weights.values()))
    sums = Counter()
    for name, owner in owners(case.fleet.group()).items():
        sums[owner] += weights[name]
    assert max(sums.values()) * case.expected <= sum(weights.values()) + max(weights.values()) * case.expected


@on_many
@given(cases(only_fixed=True))
def test_no_other_choice_of_processors_moves_fewer_tasks(case):
    fleet, homes = case.fleet, case.fleet.homes()

    def moved(grouped):
        return sum(homes.get(name) != owner for name, owner in owners(grouped).items())

    others = [
        replace(
            fleet, make_grouper=HostAwareGrouper, processor_locality={id: fleet.processor_locality[id] for id in ids}
        )
        for ids in combinations(fleet.processor_locality, case.expected)
    ]
    assert moved(fleet.group()) == min(moved(other.group()) for other in others)


@on_many
@given(cases(only_fixed=True))
def test_holders_are_chosen_first_then_the_last_location_of_a_task_then_small_ids(case):
    fleet = case.fleet
    used = set(owners(fleet.group()).values())
    holders = {
        fleet.homes()[t.task_name] for t in fleet.tasks if fleet.homes().get(t.task_name) in fleet.processor_locality
    }
    assert holders <= used or used <= holders
    new, unused = used - holders, set(fleet.processor_locality) - used
    waiting = {fleet.last_location(t.task_name) for t in fleet.tasks if fleet.homes().get(t.task_name) not in used}
    for processor in new:
        if fleet.processor_locality[processor] not in waiting - {None, "", "ANY_HOST"}:
            assert all(natural_order(processor) < natural_order(other) for other in unused)


@on_many
@given(cases(weighted=None), st.integers(0, 9))
def test_the_order_of_the_input_does_not_matter(case, seed):
    assert case.fleet.in_another_order(seed).group() == case.fleet.group()


@on_many
@given(cases(weighted=None))
def test_grouping_its_own_output_changes_nothing(case):
    once = case.fleet.group()
    assert replace(case.fleet, previous=JobModel.of(once)).group() == once
    assert case.fleet.after(once).group() == once


@on_many
@given(cases(weighted=None), st.sampled_from(["", "ANY_HOST", "nobody is here"]))
def test_a_location_without_anybody_is_no_preference(case, nowhere):
    places = set(case.fleet.processor_locality.values()) - {"", "ANY_HOST"}
    no_preference = {name: last if last in places else nowhere for name, last in case.fleet.task_locality.items()}
    assert replace(case.fleet, task_locality=no_preference).group() == case.fleet.group()


@on_many
@given(cases(weighted=None))
def test_the_checker_passes_what_the_grouper_groups(case):
    fleet = case.fleet
    queries = {"q": frozenset(fleet.tasks)}
    plan = plan_job(
        queries, fleet.processor_locality, fleet.task_locality, fleet.previous, fleet.weights, fleet.make_grouper
    )
    check_job_model(
        plan, queries, fleet.processor_locality, fleet.task_locality, fleet.previous, fleet.weights, case.most
    )


@on_many
@given(fleets(weighted=None))
def test_group_by_container_ids_plans_as_the_host_aware_grouper_does(fleet):
    assert replace(fleet, make_grouper=partial(GroupByContainerIds, 2)).group() == fleet.group()


@on_many
@given(fleets(), st.integers(1, 5), st.integers(1, 5))
def test_another_count_moves_only_what_evenness_demands(fleet, count, other):
    assume(max(count, other) <= len(fleet.tasks))
    before = replace(fleet, make_grouper=partial(GroupByContainerCount, count), previous=None).group()
    changed = replace(fleet.after(before), make_grouper=partial(GroupByContainerCount, other))
    now, then, tasks = owners(changed.group()), owners(before), len(fleet.tasks)
    sizes, used = Counter(then.values()), min(other, len(fleet.processor_locality))
    kept = sum(now[name] == then[name] for name in now)
    floor, remainders = divmod(tasks, used)
    held = sorted(sizes.values(), reverse=True)[:used]
    assert kept == sum(min(h, floor + (i < remainders)) for i, h in enumerate(held))


@on_many
@given(cases())
def test_the_older_forms_warn_and_give_what_the_contract_gives(case):
    grouper, fleet = case.fleet.make_grouper(None, None), case.fleet
    ids = sorted(fleet.processor_locality)
    anywhere = dict.fromkeys(ids, "ANY_HOST")
    metadata = GrouperMetadata(fleet.processor_locality, fleet.task_locality, fleet.previous)
    with pytest.warns(DeprecationWarning, match="call group"):
        assert grouper.group(fleet.tasks, ids) == grouper.group(fleet.tasks, {}, anywhere)
    with pytest.warns(DeprecationWarning, match="call group"):
        assert grouper.group(fleet.tasks, metadata) == grouper.balance(fleet.tasks, metadata)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contract = grouper.group(fleet.tasks, fleet.task_locality, fleet.processor_locality, fleet.previous)
    with pytest.warns(DeprecationWarning):
        assert grouper.balance(fleet.tasks, metadata) == contract


@on_many
@given(st.integers(1, 9), st.integers(1, 9))
def test_the_oldest_form_numbers_its_containers_from_zero(tasks, count):
    models = {task(f"q/Partition {n}") for n in range(tasks)}
    with pytest.warns(DeprecationWarning, match="group\\(tasks\\)"):
        found = GroupByContainerIds(count).group(models)  # type: ignore[call-arg]
    assert {container.processor_id for container in found} == {str(n) for n in range(min(tasks, count))}
    with pytest.warns(DeprecationWarning):
        assert [container.processor_id for container in SingleContainerGrouper("7").group(models)] == ["7"]  # type: ignore[call-arg]
    if count <= tasks:
        with pytest.warns(DeprecationWarning):
            assert GroupByContainerCount(count).group(models) == found  # type: ignore[call-arg]
    else:
        with pytest.warns(DeprecationWarning), pytest.raises(InvalidGroupingError, match=f"{tasks} tasks for {count}"):
            GroupByContainerCount(count).group(models)  # type: ignore[call-arg]


@on_many
@given(cases(weighted=None))
def test_what_can_not_be_grouped_is_refused(case):
    grouper, fleet = case.fleet.make_grouper(None, None), case.fleet
    some = next(iter(fleet.tasks))
    with pytest.raises(InvalidGroupingError, match="no tasks"):
        grouper.group([], {}, fleet.processor_locality)
    with pytest.raises(InvalidGroupingError, match="no processors"):
        grouper.group(fleet.tasks, {}, {})
    with pytest.raises(InvalidGroupingError, match="given more than once"):
        grouper.group([some, some], {}, fleet.processor_locality)
    with pytest.warns(DeprecationWarning), pytest.raises(InvalidGroupingError, match="given more than once"):
        grouper.group(fleet.tasks, ["0", "0"])
