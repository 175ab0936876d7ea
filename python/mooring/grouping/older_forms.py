"""The deprecated forms of `group`. Each warns, and calls the form in `grouping.contract`."""

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from mooring.grouping.refusals import refuse_impossible
from mooring.model import ANY_HOST, ContainerModel, JobModel, SystemStreamPartition, TaskModel, TaskName


@dataclass(frozen=True, slots=True)
class GrouperMetadata:
    """The second argument of the older form `group(tasks, metadata)`: all input besides the tasks."""

    processor_locality: Mapping[str, str] = field(default_factory=dict)
    task_locality: Mapping[str, str] = field(default_factory=dict)
    previous: JobModel | None = None

    @property
    def previous_task_to_processor(self) -> dict[TaskName, str]:
        """Task name to the processor that held it."""
        return {task.task_name: processor for processor, task in self._held()}

    @property
    def previous_task_to_partitions(self) -> dict[TaskName, frozenset[SystemStreamPartition]]:
        """Task name to the state store partitions of the task."""
        return {task.task_name: task.system_stream_partitions for _, task in self._held()}

    def _held(self) -> Iterable[tuple[str, TaskModel]]:
        for processor, container in self.previous.containers.items() if self.previous else ():
            for task in container.tasks.values():
                yield processor, task


Group = Callable[..., frozenset[ContainerModel]]


def taking_older_forms(group: Group) -> Group:
    """The method `group`, which also takes `group(tasks)`, `group(tasks, ids)` and `group(tasks, metadata)`."""

    @wraps(group)
    def in_any_form(
        self: Any,
        task_models: Collection[TaskModel],
        task_locality: Mapping[str, str] | Collection[str] | GrouperMetadata | None = None,
        processor_locality: Mapping[str, str] | None = None,
        previous: JobModel | None = None,
    ) -> frozenset[ContainerModel]:
        if processor_locality is not None:
            return group(self, task_models, task_locality or {}, processor_locality, previous)
        if isinstance(task_locality, Mapping):
            raise TypeError("group(task_models, task_locality, processor_locality, previous) lacks processor_locality")
        if isinstance(task_locality, GrouperMetadata):
            warn_of_older_form("group(tasks, metadata)")
            known = task_locality
            return group(self, task_models, known.task_locality, known.processor_locality, known.previous)
        warn_of_older_form("group(tasks)" if task_locality is None else "group(tasks, container_ids)")
        ids = [str(id) for id in (self.container_ids if task_locality is None else task_locality)]
        refuse_impossible(task_models, ids)  # the mapping below would hide an id that is given twice
        return group(self, task_models, {}, processors_of_older_form(ids), None)

    return in_any_form


def processors_of_older_form(container_ids: Collection[str]) -> dict[str, str]:
    """The containers with `ANY_HOST` as location: the older forms have no locations."""
    return {id: ANY_HOST for id in container_ids}


def warn_of_older_form(form: str) -> None:
    """Warn the caller of the method that calls this function."""
    instead = "group(task_models, task_locality, processor_locality, previous)"
    warnings.warn(f"{form} is deprecated; call {instead}", DeprecationWarning, stacklevel=3)
