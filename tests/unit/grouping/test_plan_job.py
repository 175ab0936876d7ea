"""The job model of an application with several queries."""

import pytest

from mooring.errors import InvalidGroupingError
from mooring.grouping import HostAwareGrouper, TaskNameGrouper, check_job_model, plan_job
from mooring.model import ContainerModel
from tests.unit.grouping.builders import model, plan_of, tasks

PLACES = {"0": "a", "1": "b", "2": "c"}


def query(name, count):
    return {name: tasks(*(f"{name}/Partition {number}" for number in range(count)))}


def totals(plan):
    return {processor: len(names) for processor, names in plan_of(plan.containers.values()).items()}


def test_each_query_is_even_on_its_own_and_remainders_fill_up_the_total():
    queries = query("a", 4) | query("b", 4) | query("c", 4)
    plan = plan_job(queries, PLACES, {})
    check_job_model(plan, queries, PLACES, {})
    assert totals(plan) == {"0": 4, "1": 4, "2": 4}


def test_a_query_that_comes_later_moves_nobody():
    before = plan_job(query("b", 4), PLACES, {})
    after = plan_job(query("a", 4) | query("b", 4), PLACES, {}, before)
    held = plan_of(after.containers.values())
    assert all(names <= held[processor] for processor, names in plan_of(before.containers.values()).items())
    assert sorted(totals(after).values()) == [2, 3, 3]


def test_idle_processors_stay_listed():
    assert totals(plan_job(query("a", 1), PLACES, {})) == {"0": 1, "1": 0, "2": 0}
    assert totals(plan_job({}, PLACES, {})) == {"0": 0, "1": 0, "2": 0}


def test_the_version_rises_only_when_something_changed():
    first = plan_job(query("a", 3), PLACES, {}, config={"k": "v"})
    assert first.version == 1 and dict(first.config) == {"k": "v"}
    assert plan_job(query("a", 3), PLACES, {}, first) is first
    second = plan_job(query("a", 3), {"0": "a", "1": "b"}, {}, first)
    assert second.version == 2 and dict(second.config) == {"k": "v"}
    assert plan_job(query("a", 3), {"0": "a", "1": "b"}, {}, second, config={}).version == 3


def test_tasks_of_a_query_that_ended_are_dropped():
    both = plan_job(query("a", 2) | query("b", 2), PLACES, {})
    assert sum(totals(plan_job(query("b", 2), PLACES, {}, both)).values()) == 2


def test_last_locations_are_used_for_all_queries():
    last = {"a/Partition 0": "c", "b/Partition 0": "c"}
    plan = plan_job(query("a", 1) | query("b", 1), PLACES, last)
    assert totals(plan) == {"0": 0, "1": 0, "2": 2}


def test_weights_are_bytes_and_so_is_the_load():
    queries = query("a", 1) | query("b", 1) | query("c", 1)
    weights = {"a/Partition 0": 1, "b/Partition 0": 9, "c/Partition 0": 5}
    held = plan_of(plan_job(queries, {"0": "a", "1": "b"}, {}, weights=weights).containers.values())
    assert held == {"0": {"a/Partition 0", "c/Partition 0"}, "1": {"b/Partition 0"}}


def test_another_grouper_can_be_chosen():
    class Everything(TaskNameGrouper):
        def group(self, task_models, task_locality, processor_locality, previous=None):
            return frozenset({ContainerModel.of("2", task_models)})

    plan = plan_job(query("a", 3), PLACES, {}, make_grouper=lambda weights, load: Everything())
    assert totals(plan) == {"0": 0, "1": 0, "2": 3}
    assert plan.containers["2"].location_id == "c"


def loads_told(queries, previous=None):
    """The load that the grouper of each query is told, in the order in which the queries are planned."""
    told = []

    def make(weights, load):
        told.append(dict(load))
        return HostAwareGrouper(weights, load)

    plan_job(queries, {"0": "a", "1": "b"}, {}, previous, make_grouper=make)
    return told


def test_the_grouper_is_told_what_earlier_queries_put_on_each_processor():
    assert loads_told(query("a", 3) | query("b", 3)) == [{"0": 0, "1": 0}, {"0": 2, "1": 1}]


def test_a_query_counts_for_those_before_it_as_what_it_has_now():
    before = model({"0": ["a/Partition 0"], "1": ["b/Partition 0"]})
    assert loads_told(query("a", 3) | query("b", 1), before) == [{"0": 0, "1": 1}, {"0": 2, "1": 1}]


def test_queries_that_run_are_planned_before_new_ones():
    before = model({"1": ["b/Partition 0"]})
    assert loads_told(query("a", 1) | query("b", 1), before) == [{"0": 0, "1": 0}, {"0": 0, "1": 1}]


def test_an_error_names_the_query():
    with pytest.raises(InvalidGroupingError, match='query "a": there are no tasks'):
        plan_job(query("a", 0), PLACES, {})
    with pytest.raises(InvalidGroupingError, match="no processors"):
        plan_job(query("a", 1), {}, {})


def test_two_queries_with_one_task_name_are_refused():
    with pytest.raises(InvalidGroupingError, match='"a" and "b" both have a task "t"'):
        plan_job({"a": tasks("t"), "b": tasks("t")}, PLACES, {})
