"""The grouper that adds standbys to the result of another grouper."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mooring.grouping.contract import TaskNameGrouper
from mooring.grouping.host_aware import HostAwareGrouper
from mooring.model import ContainerModel, JobModel, TaskModel, named_location
from mooring.standby import JobModelWithStandbys, assign_standbys, choose_new_owners


class StandbyTaskNameGrouper(TaskNameGrouper):
    """Groups as another grouper does, and adds `factor - 1` standbys of each task by the rules of `mooring.standby`.

    For a task of a processor that is gone, the location of one of its copies counts as its last location. `zones` maps
    location to zone. `weights` maps task name to bytes of state; standbys are evened out by bytes.
    """

    def __init__(
        self,
        grouper: TaskNameGrouper | None = None,
        factor: int = 2,
        zones: Mapping[str, str] | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        self._grouper: TaskNameGrouper = HostAwareGrouper(weights) if grouper is None else grouper
        self._factor = factor
        self._zones = dict(zones or {})
        self._weights = dict(weights or {})
        self.moves_fewest = self._grouper.moves_fewest
        self.most_processors = self._grouper.most_processors
        self.container_ids = self._grouper.container_ids

    def group(
        self,
        task_models: Collection[TaskModel],
        task_locality: Mapping[str, str],
        processor_locality: Mapping[str, str],
        previous: JobModel | None = None,
    ) -> frozenset[ContainerModel]:
        """One container for each processor that gets a task or a standby. See `TaskNameGrouper.group`."""
        model = self.group_with_report(task_models, task_locality, processor_locality, previous).model
        return frozenset(container for container in model.containers.values() if container.tasks)

    def group_with_report(
        self,
        task_models: Collection[TaskModel],
        task_locality: Mapping[str, str],
        processor_locality: Mapping[str, str],
        previous: JobModel | None = None,
    ) -> JobModelWithStandbys:
        """The result as a job model of all processors, with the standbys that could not be placed.

        Raises `InvalidGroupingError` when the other grouper or `assign_standbys` refuses the input.
        """
        wishes = dict(task_locality) | locations_of_copies(task_locality, processor_locality, previous)
        grouped = self._grouper.group(task_models, wishes, processor_locality, previous and previous.without_standbys())
        idle = processor_locality.keys() - {container.processor_id for container in grouped}
        model = JobModel.of(
            [*grouped, *(ContainerModel.of(id, [], named_location(processor_locality[id])) for id in idle)]
        )
        return assign_standbys(model, self._factor, previous, self._zones, self._weights)


def locations_of_copies(
    task_locality: Mapping[str, str], processor_locality: Mapping[str, str], previous: JobModel | None
) -> dict[str, str]:
    """Task name to the location of a copy, for tasks of lost processors whose last location has no processor."""
    if previous is None:
        return {}
    gone = previous.containers.keys() - processor_locality.keys()
    there = set(processor_locality.values())
    was_at = {name: previous.containers[id].location_id for id in gone for name in previous.containers[id].tasks}
    return {
        name: processor_locality[taker]
        for name, taker in choose_new_owners(previous, gone).items()
        if task_locality.get(name, was_at[name]) not in there
    }
