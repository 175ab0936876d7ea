"""The JSON of the job model: what is written, and which older shapes are still read."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import InvalidJobModelError
from mooring.model import (
    ContainerModel,
    JobModel,
    LocationId,
    SystemStreamPartition,
    TaskMode,
    TaskModel,
    TaskName,
    job_model_from_json,
    job_model_to_json,
)

GOLDEN = Path(__file__).parent / "golden"


def golden(name):
    return (GOLDEN / f"{name}.json").read_text()


def with_container(**changes):
    """A job model in JSON with the container "3", after these changes; a key that is ABSENT is left out."""
    container = {"processor-id": "3", "location-id": "here", "tasks": {}}
    container.update({key.replace("_", "-"): value for key, value in changes.items()})
    return json.dumps({"containers": {"3": {key: value for key, value in container.items() if value is not ABSENT}}})


def with_task(**changes):
    task = {"task-name": "t", "task-mode": "Active", "changelog-partition": 0, "system-stream-partitions": []}
    task.update({key.replace("_", "-"): value for key, value in changes.items()})
    return with_container(tasks={"t": {key: value for key, value in task.items() if value is not ABSENT}})


class ABSENT:
    """Stands for a key that is left out."""


def test_a_job_model_is_written_as_the_contract_shows():
    ssp = SystemStreamPartition("spark", "clicks/0/default", 0)
    active = TaskModel(TaskName("clicks/Partition 0"), frozenset({ssp}), 0)
    standby = TaskModel(
        TaskName("Standby-clicks/Partition 0-0"), frozenset({ssp}), 0, TaskMode.STANDBY, TaskName("clicks/Partition 0")
    )
    model = JobModel.of(
        [
            ContainerModel.of("10", [standby], LocationId("slice-4/2")),
            ContainerModel.of("2", []),
            ContainerModel.of("0", [active], LocationId("10.0.0.7")),
        ],
        version=12,
        config={"app.name": "clicks"},
    )
    assert job_model_to_json(model) == golden("today").strip()


def test_equal_models_are_written_alike():
    partitions = [SystemStreamPartition("spark", f"q/{operator}/default", 0) for operator in range(9)]
    task = TaskModel(TaskName("q/Partition 0"), frozenset(partitions))
    written = json.loads(job_model_to_json(JobModel.of([ContainerModel.of("0", [task])])))
    streams = written["containers"]["0"]["tasks"]["q/Partition 0"]["system-stream-partitions"]
    assert [stream["stream"] for stream in streams] == [partition.stream for partition in partitions]


def test_what_is_written_is_read_back():
    text = golden("today").strip()
    assert job_model_to_json(job_model_from_json(text)) == text
    assert job_model_from_json(text.encode()) == job_model_from_json(text)


def test_old_containers_are_known_by_their_container_id_number_or_text():
    model = job_model_from_json(golden("container_id_number"))
    assert list(model.containers) == ["0", "1"]
    assert model.containers["0"].location_id is None
    assert model.version == 0
    assert model.max_change_log_stream_partitions == 2


def test_a_missing_or_empty_task_mode_is_active():
    model = job_model_from_json(golden("container_id_number"))
    assert model.containers["0"].tasks[TaskName("Partition 0")].task_mode is TaskMode.ACTIVE
    assert model.containers["1"].tasks[TaskName("Partition 1")].task_mode is TaskMode.ACTIVE


def test_a_missing_key_bucket_is_minus_one():
    tasks = job_model_from_json(golden("container_id_number")).containers["0"].tasks
    assert tasks[TaskName("Partition 0")].system_stream_partitions == {SystemStreamPartition("kafka", "clicks", 0, -1)}


def test_unknown_keys_are_ignored_and_the_processor_id_wins_over_the_container_id():
    model = job_model_from_json(golden("unknown_keys"))
    task = TaskModel(TaskName("q/Partition 4"), frozenset({SystemStreamPartition("spark", "q/0/default", 4, 2)}), 4)
    assert model == JobModel.of([ContainerModel.of("7", [task], LocationId("10.0.0.7"))], version=3)


def test_a_job_model_of_another_framework_is_read():
    model = job_model_from_json(golden("another_frameworks"))
    assert list(model.containers) == ["0", "container-b"]
    assert model.containers["container-b"].tasks == {} and model.containers["0"].location_id is None
    assert json.loads(model.config["config"])["job.container.count"] == "2"
    assert job_model_from_json(job_model_to_json(model)) == model


def test_the_owner_of_a_standby_is_never_guessed_from_its_name():
    (task,) = job_model_from_json(golden("standby_of_another_tool")).containers["a-1"].tasks.values()
    assert task.task_mode is TaskMode.STANDBY
    assert task.standby_of is None


def test_settings_that_are_not_text_are_kept_as_their_json():
    model = job_model_from_json('{"config": {"a": "x", "b": 3, "c": true}, "containers": {}}')
    assert dict(model.config) == {"a": "x", "b": "3", "c": "true"}


@pytest.mark.parametrize(
    "changes",
    [
        {"processor_id": ABSENT},
        {"processor_id": None},
        {"processor_id": None, "container_id": 3},
        {"processor_id": ABSENT, "container_id": None},
        {"processor_id": ABSENT, "container_id": True},
        {"processor_id": ABSENT, "container_id": 1.5},
        {"processor_id": ""},
        {"tasks": ABSENT},
        {"tasks": []},
        {"location_id": 7},
    ],
)
def test_a_broken_container_is_named(changes):
    with pytest.raises(InvalidJobModelError, match='container "3"'):
        job_model_from_json(with_container(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"task_mode": "Sleeping"},
        {"task_mode": 1},
        {"task_name": 5},
        {"changelog_partition": ABSENT},
        {"changelog_partition": "0"},
        {"changelog_partition": True},
        {"system_stream_partitions": ABSENT},
        {"system_stream_partitions": [3]},
        {"system_stream_partitions": [{"system": "spark", "stream": "s"}]},
        {"standby_of": "other"},
        {"task_mode": "Standby", "standby_of": 5},
    ],
)
def test_a_broken_task_is_named_with_its_container(changes):
    with pytest.raises(InvalidJobModelError, match='container "3": task "t"'):
        job_model_from_json(with_task(**changes))


@pytest.mark.parametrize(
    "text", ["", "{", '{"containers"', b"\xff\xfe\x00", "[]", "{}", '{"containers": []}', "[" * 100_000]
)
def test_what_is_not_a_job_model_is_refused(text):
    with pytest.raises(InvalidJobModelError, match="job model"):
        job_model_from_json(text)


@pytest.mark.parametrize(
    "foreign",
    [
        {"version": 12, "queries": {"3f0c": {"0": ["7", "9"]}}},
        {"uuid": "88b0", "deploymentId": "app-1", "processorId": "4", "subType": "ContainerPlacementRequestMessage"},
        {"uuid": "88b0", "runId": "app-1", "drainMode": "DEFAULT"},
        {"application": "app-1", "processors": [], "tasks": []},
        {"containers": {"0": "10.0.0.7"}},
        {"containers": None},
    ],
)
def test_another_message_is_refused(foreign):
    with pytest.raises(InvalidJobModelError, match="container"):
        job_model_from_json(json.dumps(foreign))


@pytest.mark.parametrize("version", ["12", None, 1.5, True])
def test_a_version_that_is_no_number_is_refused(version):
    with pytest.raises(InvalidJobModelError, match="version"):
        job_model_from_json(json.dumps({"version": version, "containers": {}}))


def test_two_containers_of_one_processor_are_refused():
    text = '{"containers": {"0": {"processor-id": "7", "tasks": {}}, "1": {"container-id": 7, "tasks": {}}}}'
    with pytest.raises(InvalidJobModelError, match='"7"'):
        job_model_from_json(text)


NAMES = st.text(max_size=8).map(TaskName)
PARTITIONS = st.builds(
    SystemStreamPartition, st.text(max_size=3), st.text(max_size=3), st.integers(0, 9), st.integers(-1, 2)
)
ACTIVES = st.builds(TaskModel, NAMES, st.frozensets(PARTITIONS, max_size=2), st.integers(-1, 9))
STANDBYS = st.builds(
    TaskModel,
    NAMES,
    st.frozensets(PARTITIONS, max_size=1),
    st.integers(-1, 9),
    st.just(TaskMode.STANDBY),
    st.none() | NAMES,
)
CONTAINERS = st.builds(
    ContainerModel.of,
    st.text(min_size=1, max_size=4),
    st.lists(ACTIVES | STANDBYS, max_size=3, unique_by=lambda task: task.task_name),
    st.none() | st.text(max_size=4).map(LocationId),
)
MODELS = st.builds(
    JobModel.of,
    st.lists(CONTAINERS, max_size=3, unique_by=lambda container: container.processor_id),
    st.integers(0, 2**70),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)


@settings(max_examples=150)
@given(MODELS)
def test_every_job_model_survives_its_json(model):
    assert job_model_from_json(job_model_to_json(model)) == model


@settings(max_examples=100)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: st.dictionaries(
            st.sampled_from(["containers", "config", "tasks", "processor-id", "task-name", "0"]), inner, max_size=4
        ),
    )
)
def test_no_json_raises_anything_else(value):
    with suppress(InvalidJobModelError):
        job_model_from_json(json.dumps(value))
