"""One task: its name, its state partitions, and its mode."""

from dataclasses import dataclass
from enum import Enum

from mooring.errors import InvalidJobModelError
from mooring.model.names import TaskName


class TaskMode(Enum):
    """Whether a task does the work, or keeps a copy of the state of a task that does. The values are those in JSON."""

    ACTIVE = "Active"
    STANDBY = "Standby"


@dataclass(frozen=True, order=True, slots=True)
class SystemStreamPartition:
    """One state store partition. `stream` is `query/operator/store`; `key_bucket` is -1 when keys are not split."""

    system: str
    stream: str
    partition: int
    key_bucket: int = -1


@dataclass(frozen=True, slots=True)
class TaskModel:
    """A task with its state partitions.

    `standby_of` is the name of the active task that a standby copies. It is None for a standby that was read from the
    JSON of another tool. It must be None for an active task: otherwise `InvalidJobModelError` is raised.
    """

    task_name: TaskName
    system_stream_partitions: frozenset[SystemStreamPartition] = frozenset()
    changelog_partition: int = 0
    task_mode: TaskMode = TaskMode.ACTIVE
    standby_of: TaskName | None = None

    def __post_init__(self) -> None:
        if self.standby_of is not None and self.task_mode is not TaskMode.STANDBY:
            raise InvalidJobModelError(
                f'task "{self.task_name}" is active, so it cannot be a standby of "{self.standby_of}"'
            )
