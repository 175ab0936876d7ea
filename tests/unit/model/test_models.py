"""Names, tasks, containers and job models as values."""

import pytest

from mooring.errors import InvalidJobModelError
from mooring.model import (
    ANY_HOST,
    ContainerModel,
    JobModel,
    LocationId,
    SystemStreamPartition,
    TaskMode,
    TaskModel,
    TaskName,
    named_location,
    natural_order,
)

TASK = TaskModel(TaskName("q/Partition 0"), frozenset({SystemStreamPartition("spark", "q/0/default", 0)}), 0)


def test_numbers_in_names_compare_as_numbers():
    assert sorted(["10", "2", "1"], key=natural_order) == ["1", "2", "10"]
    assert sorted(["p-10/x2", "p-9/x10", "p-9/x9"], key=natural_order) == ["p-9/x9", "p-9/x10", "p-10/x2"]
    assert sorted(["b", "a", "7", ""], key=natural_order) == ["", "7", "a", "b"]


def test_names_that_differ_never_tie():
    assert sorted(["01", "1", "001"], key=natural_order) == ["001", "01", "1"]


def test_numbers_of_any_length_are_ordered():
    long = "9" * 5000
    assert sorted([long + "9", long], key=natural_order) == [long, long + "9"]


@pytest.mark.parametrize("location", [None, "", "ANY_HOST", ANY_HOST])
def test_these_locations_name_no_place(location):
    assert named_location(location) is None


def test_a_location_names_its_place():
    assert named_location("10.0.0.7") == LocationId("10.0.0.7")


def test_names_are_looked_up_by_plain_text():
    assert {TaskName("t"): 1}["t"] == 1
    assert {"here": 1}[LocationId("here")] == 1


def test_values_can_be_members_of_sets():
    container = ContainerModel.of("0", [TASK], LocationId("here"))
    twin = ContainerModel("0", {TASK.task_name: TASK}, LocationId("here"))
    assert len({container, twin}) == 1
    assert len({JobModel.of([container], 3), JobModel.of([twin], 3)}) == 1


def test_a_container_cannot_be_changed_from_outside():
    tasks = {TASK.task_name: TASK}
    container = ContainerModel("0", tasks)
    tasks.clear()
    assert set(container.tasks) == {TASK.task_name}
    with pytest.raises(TypeError):
        container.tasks["x"] = TASK


def test_an_active_task_is_nobodys_standby():
    with pytest.raises(InvalidJobModelError, match='"a" is active'):
        TaskModel(TaskName("a"), standby_of=TaskName("b"))
    assert TaskModel(TaskName("a"), task_mode=TaskMode.STANDBY, standby_of=TaskName("b")).standby_of == "b"


def test_a_container_names_its_tasks_rightly_and_once():
    with pytest.raises(InvalidJobModelError, match=r'container "0".*"wrong"'):
        ContainerModel("0", {TaskName("wrong"): TASK})
    with pytest.raises(InvalidJobModelError, match='container "0" has two tasks'):
        ContainerModel.of("0", [TASK, TASK])


def test_a_job_model_names_its_containers_rightly_and_once():
    with pytest.raises(InvalidJobModelError, match='"0" is listed as "1"'):
        JobModel({}, {"1": ContainerModel.of("0", [])})
    with pytest.raises(InvalidJobModelError, match=r'two containers.*"0"'):
        JobModel.of([ContainerModel.of("0", []), ContainerModel.of("0", [TASK])])


def test_changelog_partitions_are_counted_from_the_highest_number():
    high = TaskModel(TaskName("q/Partition 6"), changelog_partition=6)
    assert JobModel.of([ContainerModel.of("0", [TASK, high])]).max_change_log_stream_partitions == 7
    assert JobModel.of([ContainerModel.of("0", [])]).max_change_log_stream_partitions == 0
