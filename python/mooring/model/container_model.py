"""One processor and its tasks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mooring.errors import InvalidJobModelError
from mooring.model.names import LocationId, TaskName
from mooring.model.task_model import TaskMode, TaskModel


@dataclass(frozen=True, slots=True)
class ContainerModel:
    """A processor with a stable id, its tasks (none when it is idle), and its location where that is known.

    `tasks` maps name to task; the container keeps a read-only copy. A key that is not the name of its task raises
    `InvalidJobModelError`. The hash leaves the tasks out, so large containers are cheap members of sets.
    """

    processor_id: str
    tasks: Mapping[TaskName, TaskModel] = field(hash=False)
    location_id: LocationId | None = None

    def __post_init__(self) -> None:
        for name, task in self.tasks.items():
            if name != task.task_name:
                raise InvalidJobModelError(f'container "{self.processor_id}" lists task "{task.task_name}" as "{name}"')
        object.__setattr__(self, "tasks", MappingProxyType(dict(self.tasks)))

    @property
    def actives(self) -> dict[TaskName, TaskModel]:
        """The active tasks of the processor."""
        return {name: task for name, task in self.tasks.items() if task.task_mode is TaskMode.ACTIVE}

    @classmethod
    def of(
        cls, processor_id: str, tasks: Iterable[TaskModel], location_id: LocationId | None = None
    ) -> "ContainerModel":
        """A container of these tasks. Two tasks of one name raise `InvalidJobModelError`."""
        by_name: dict[TaskName, TaskModel] = {}
        for task in tasks:
            if task.task_name in by_name:
                raise InvalidJobModelError(f'container "{processor_id}" has two tasks named "{task.task_name}"')
            by_name[task.task_name] = task
        return cls(processor_id, by_name, location_id)
