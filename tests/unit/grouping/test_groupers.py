"""The groupers besides the default one: on all ids, on a fixed number, on one."""

import pytest

from mooring.errors import InvalidGroupingError
from mooring.grouping import (
    GroupByContainerCount,
    GroupByContainerIds,
    GrouperMetadata,
    HostAwareGrouper,
    SingleContainerGrouper,
    TaskNameGrouper,
)
from mooring.model import ContainerModel, JobModel, SystemStreamPartition, TaskModel, TaskName
from tests.unit.grouping.builders import model, moved, partitions, plan_of, sizes, tasks

NAMES = partitions(8)


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one_is_refused_where_the_grouper_is_made(count):
    for make in (GroupByContainerCount, GroupByContainerIds):
        with pytest.raises(InvalidGroupingError, match=f"number of containers is {count}"):
            make(count)


def test_a_greater_count_takes_only_the_excess():
    before = {"0": NAMES[:4], "1": NAMES[4:]}
    found = GroupByContainerCount(4).group(
        tasks(*NAMES), {}, {"0": "a", "1": "a", "2": "b", "3": "b", "4": "c"}, model(before)
    )
    assert sizes(plan_of(found)) == {"0": 2, "1": 2, "2": 2, "3": 2}
    assert len(moved(before, plan_of(found))) == 4


def test_a_smaller_count_leaves_those_where_they_are_that_may_stay():
    before = {"0": NAMES[:2], "1": NAMES[2:4], "2": NAMES[4:6], "3": NAMES[6:]}
    found = plan_of(GroupByContainerCount(2).group(tasks(*NAMES), {}, dict.fromkeys("0123", "a"), model(before)))
    assert sizes(found) == {"0": 4, "1": 4}
    assert len(moved(before, found)) == 4


def test_a_count_that_is_more_than_there_are_processors_uses_all_of_them():
    found = GroupByContainerCount(3).group(tasks(*NAMES), {}, {"x": "a", "y": "b"})
    assert sizes(plan_of(found)) == {"x": 4, "y": 4}


def test_a_fixed_count_prefers_the_locations_of_the_tasks():
    last = dict.fromkeys(NAMES[:4], "c") | dict.fromkeys(NAMES[4:], "d")
    found = GroupByContainerCount(2).group(tasks(*NAMES), last, {"0": "a", "1": "b", "2": "c", "3": "d", "4": "c"})
    assert plan_of(found) == {"2": set(NAMES[:4]), "3": set(NAMES[4:])}


def test_a_single_container_stays_where_most_tasks_are():
    before = model({"0": NAMES[:3], "1": NAMES[3:]})
    assert plan_of(SingleContainerGrouper().group(tasks(*NAMES), {}, {"0": "a", "1": "b"}, before)) == {"1": set(NAMES)}
    weighted = SingleContainerGrouper(weights={NAMES[0]: 100})
    by_bytes = weighted.group(tasks(*NAMES[:1], *NAMES[4:6]), {}, {"0": "a", "1": "b"}, before)
    assert set(plan_of(by_bytes)) == {"1"}, "a weight that is not known is the mean, so two of them weigh more"


def test_a_single_container_may_be_named():
    assert set(plan_of(SingleContainerGrouper("1").group(tasks(*NAMES), {}, {"0": "a", "1": "b"}))) == {"1"}
    with pytest.raises(InvalidGroupingError, match='no processor "9"'):
        SingleContainerGrouper("9").group(tasks(*NAMES), {}, {"0": "a", "1": "b"})


def test_balancing_a_job_model_alone_takes_its_processors():
    before = model({"a": NAMES, "b": []}, {"a": "east", "b": "west"})
    with pytest.warns(DeprecationWarning, match="balance"):
        found = HostAwareGrouper().balance(tasks(*NAMES), before)
    assert sizes(plan_of(found)) == {"a": 4, "b": 4}


def test_balancing_to_a_greater_count_adds_numbered_containers():
    with pytest.warns(DeprecationWarning):
        found = GroupByContainerCount(4).balance(tasks(*NAMES), model({"0": NAMES[:4], "1": NAMES[4:]}))
    assert sizes(plan_of(found)) == {"0": 2, "1": 2, "2": 2, "3": 2}


def test_a_users_grouper_understands_the_older_forms_as_well():
    class First(TaskNameGrouper):
        def group(self, task_models, task_locality, processor_locality, previous=None):
            return frozenset({ContainerModel.of(min(processor_locality), task_models)})

    with pytest.warns(DeprecationWarning, match=r"group\(tasks, container_ids\)"):
        assert plan_of(First().group(tasks("t"), ["5", "4"])) == {"4": {"t"}}  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning):
        assert plan_of(First().group(tasks("t"))) == {"0": {"t"}}  # type: ignore[call-arg]


def test_a_call_of_the_contract_that_forgot_the_processors_is_no_older_form():
    with pytest.raises(TypeError, match="processor_locality"):
        HostAwareGrouper().group(tasks("t"), {})  # type: ignore[call-arg]


def test_metadata_answers_what_the_older_interface_asked():
    ssp = SystemStreamPartition("spark", "q/0/default", 0)
    held = TaskModel(TaskName("q/Partition 0"), frozenset({ssp}))
    metadata = GrouperMetadata(previous=JobModel.of([ContainerModel.of("4", [held])]))
    assert metadata.previous_task_to_processor == {"q/Partition 0": "4"}
    assert metadata.previous_task_to_partitions == {"q/Partition 0": frozenset({ssp})}
    assert GrouperMetadata().previous_task_to_processor == {}
