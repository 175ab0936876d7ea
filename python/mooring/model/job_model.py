"""The job model: one version of the placement of all tasks on processors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mooring.errors import InvalidJobModelError
from mooring.model.container_model import ContainerModel


@dataclass(frozen=True, slots=True)
class JobModel:
    """One version of the placement of all tasks of the application. It is immutable.

    `containers` maps processor id to container. A key that is not the id of its container raises
    `InvalidJobModelError`. The job model keeps read-only copies of both mappings.
    """

    config: Mapping[str, str] = field(hash=False)
    containers: Mapping[str, ContainerModel] = field(hash=False)
    version: int = 0

    def __post_init__(self) -> None:
        for processor_id, container in self.containers.items():
            if processor_id != container.processor_id:
                raise InvalidJobModelError(f'container "{container.processor_id}" is listed as "{processor_id}"')
        object.__setattr__(self, "config", MappingProxyType(dict(self.config)))
        object.__setattr__(self, "containers", MappingProxyType(dict(self.containers)))

    @classmethod
    def of(
        cls, containers: Iterable[ContainerModel], version: int = 0, config: Mapping[str, str] | None = None
    ) -> "JobModel":
        """A job model of these containers. Two containers of one processor raise `InvalidJobModelError`."""
        by_id: dict[str, ContainerModel] = {}
        for container in containers:
            if container.processor_id in by_id:
                raise InvalidJobModelError(f'two containers have the processor id "{container.processor_id}"')
            by_id[container.processor_id] = container
        return cls(config or {}, by_id, version)

    def without_standbys(self) -> "JobModel":
        """The job model with active tasks only; the same object where it has no standbys."""
        if all(len(held.actives) == len(held.tasks) for held in self.containers.values()):
            return self
        return JobModel.of(
            (ContainerModel.of(id, held.actives.values(), held.location_id) for id, held in self.containers.items()),
            self.version,
            self.config,
        )

    @property
    def max_change_log_stream_partitions(self) -> int:
        """The number of changelog partitions of the tasks: the highest partition plus one, 0 without tasks."""
        numbers = (
            task.changelog_partition for container in self.containers.values() for task in container.tasks.values()
        )
        return max(numbers, default=-1) + 1
