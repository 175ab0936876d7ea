"""The job model as JSON. Readers also understand older forms.

The form is that of Samza's job model, so Samza's tools can read it. Readers ignore unknown keys. `standby-of` is
written for standbys only. A text that can not be read raises `InvalidJobModelError`, which names the container, and the
task where the fault is in a task.
"""

import json
from typing import Any

from mooring.errors import InvalidJobModelError
from mooring.model.container_model import ContainerModel
from mooring.model.job_model import JobModel
from mooring.model.names import LocationId, TaskName, natural_order
from mooring.model.task_model import SystemStreamPartition, TaskMode, TaskModel


def job_model_to_json(model: JobModel) -> str:
    """One line of JSON. Equal models give equal texts, as processors and tasks are in natural order."""
    by_id = sorted(model.containers.values(), key=lambda container: natural_order(container.processor_id))
    return json.dumps(
        {
            "config": {key: model.config[key] for key in sorted(model.config)},
            "version": model.version,
            "containers": {container.processor_id: _write_container(container) for container in by_id},
            "max-change-log-stream-partitions": model.max_change_log_stream_partitions,
        }
    )


def job_model_from_json(text: str | bytes) -> JobModel:
    """Read a job model of the current form, or of an older one.

    In older forms `container-id` (a number or a text) stands for `processor-id`. A missing or empty `task-mode` is
    Active, a missing `version` is 0, a missing `config` is empty, and a missing `task-name` is the key of the task.
    `max-change-log-stream-partitions` follows from the tasks, so it is not read.
    """
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise InvalidJobModelError(f"the job model is not JSON: {e}") from e
    root = _object(parsed, "the job model")
    containers = _object(root.get("containers"), 'the job model\'s "containers"')
    return JobModel.of(
        (_read_container(key, value) for key, value in containers.items()),
        version=_integer(root.get("version", 0), "the job model's version"),
        config=_read_config(root.get("config")),
    )


def _write_container(container: ContainerModel) -> dict[str, Any]:
    return {
        "processor-id": container.processor_id,
        "location-id": container.location_id,
        "tasks": {name: _write_task(container.tasks[name]) for name in sorted(container.tasks, key=natural_order)},
    }


def _write_task(task: TaskModel) -> dict[str, Any]:
    written = {
        "task-name": task.task_name,
        "task-mode": task.task_mode.value,
        "changelog-partition": task.changelog_partition,
        "system-stream-partitions": [
            {"system": ssp.system, "stream": ssp.stream, "partition": ssp.partition, "keyBucket": ssp.key_bucket}
            for ssp in sorted(task.system_stream_partitions)
        ],
    }
    return written if task.standby_of is None else {**written, "standby-of": task.standby_of}


def _read_config(value: Any) -> dict[str, str]:
    """The settings, which are texts. A number or a flag of another tool becomes its JSON text."""
    config = {} if value is None else _object(value, "the job model's config")
    return {key: entry if isinstance(entry, str) else json.dumps(entry) for key, entry in config.items()}


def _read_container(key: str, value: Any) -> ContainerModel:
    where = f'container "{key}"'
    container = _object(value, where)
    tasks = _object(container.get("tasks"), f'{where}: "tasks"')
    location = container.get("location-id")
    return ContainerModel.of(
        _processor_id(container, where),
        (_read_task(name, task, f'{where}: task "{name}"') for name, task in tasks.items()),
        None if location is None else LocationId(_text(location, f"{where}: location-id")),
    )


def _processor_id(container: dict[str, Any], where: str) -> str:
    for key in ("processor-id", "container-id"):
        if key in container:
            found = container[key]
            if isinstance(found, int) and not isinstance(found, bool):
                return str(found)
            if isinstance(found, str) and found:
                return found
            raise InvalidJobModelError(f"{where}: {key} is {found!r}; it must be a number or a text that is not empty")
    raise InvalidJobModelError(f"{where} has neither a processor-id nor a container-id")


def _read_task(key: str, value: Any, where: str) -> TaskModel:
    task = _object(value, where)
    partitions = task.get("system-stream-partitions")
    if not isinstance(partitions, list):
        raise InvalidJobModelError(f"{where}: system-stream-partitions is {partitions!r}; it must be a list")
    mode = _task_mode(task.get("task-mode"), where)
    standby_of = task.get("standby-of")
    if standby_of is not None and mode is not TaskMode.STANDBY:
        raise InvalidJobModelError(f"{where}: standby-of is {_short(standby_of)}, but the task is active")
    return TaskModel(
        TaskName(_text(task.get("task-name", key), f"{where}: task-name")),
        frozenset(_read_partition(partition, where) for partition in partitions),
        _integer(task.get("changelog-partition"), f"{where}: changelog-partition"),
        mode,
        None if standby_of is None else TaskName(_text(standby_of, f"{where}: standby-of")),
    )


def _read_partition(value: Any, where: str) -> SystemStreamPartition:
    partition = _object(value, f"{where}: a system-stream-partition")
    return SystemStreamPartition(
        _text(partition.get("system"), f"{where}: system"),
        _text(partition.get("stream"), f"{where}: stream"),
        _integer(partition.get("partition"), f"{where}: partition"),
        _integer(partition.get("keyBucket", -1), f"{where}: keyBucket"),
    )


def _task_mode(value: Any, where: str) -> TaskMode:
    for mode in TaskMode:
        if value == mode.value:
            return mode
    if value is None or value == "":
        return TaskMode.ACTIVE
    known = " or ".join(mode.value for mode in TaskMode)
    raise InvalidJobModelError(f"{where}: task-mode is {value!r}; it must be {known}")


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidJobModelError(f"{where} is {_short(value)}; it must be a JSON object")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidJobModelError(f"{where} is {_short(value)}; it must be a text")
    return value


def _integer(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidJobModelError(f"{where} is {_short(value)}; it must be a whole number")
    return value


def _short(value: Any) -> str:
    return "missing or null" if value is None else repr(value)[:80]
