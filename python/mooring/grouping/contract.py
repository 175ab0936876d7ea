"""The contract of all groupers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from mooring.grouping.older_forms import (
    GrouperMetadata,
    processors_of_older_form,
    taking_older_forms,
    warn_of_older_form,
)
from mooring.model import ContainerModel, JobModel, TaskModel


class TaskNameGrouper(ABC):
    """Decides which processor holds which task.

    A grouper gets all that it must know besides its input when it is made. It is a pure function: it holds no live
    object, reads no clock, and returns the same output for the same input in any iteration order. Its own output, taken
    as input again, is not changed.

    With `moves_fewest`, a grouper promises the fewest moves among even plans, and brings moved tasks to their last
    location. Only then is this checked. `most_processors` is the most processors that it uses, None for as many as
    there are tasks. `container_ids` are the processors of the older form `group(tasks)`.
    """

    moves_fewest: bool = False
    most_processors: int | None = None
    container_ids: Collection[str] = ("0",)

    def __init_subclass__(cls, **options: Any) -> None:
        """Wrap `group` of each subclass, so that it also takes the older forms: overloads are not inherited."""
        super().__init_subclass__(**options)
        if "group" in vars(cls):
            cls.group = taking_older_forms(cls.group)  # type: ignore[method-assign]

    @abstractmethod
    def group(
        self,
        task_models: Collection[TaskModel],
        task_locality: Mapping[str, str],
        processor_locality: Mapping[str, str],
        previous: JobModel | None = None,
    ) -> frozenset[ContainerModel]:
        """Group the tasks of one query.

        `task_locality` maps task name to the location where the task ran last. `processor_locality` maps the id of each
        living processor to its location. An empty text and `ANY_HOST` mean no preference. `previous` is the job model
        before this one, or None; it may have tasks and processors that are gone.

        Returns one container for each processor that gets tasks: min(tasks, processors) of them. Each task is in
        exactly one. Raises `InvalidGroupingError` for no tasks, no processors, and two tasks of one name.

        Deprecated forms that call this one: `group(tasks)`, `group(tasks, container_ids)`, `group(tasks, metadata)`.
        """

    def balance(
        self, task_models: Collection[TaskModel], before: GrouperMetadata | JobModel
    ) -> frozenset[ContainerModel]:
        """Group again, starting from an earlier mapping. Deprecated: call `group` with `previous`.

        With a job model, the processors are those in the job model. A grouper with a fixed count adds its own ids.
        """
        warn_of_older_form("balance(tasks, before)")
        if isinstance(before, GrouperMetadata):
            return self.group(task_models, before.task_locality, before.processor_locality, before.previous)
        return self.group(task_models, {}, self._processors_to_balance(before), before)

    def _processors_to_balance(self, before: JobModel) -> Mapping[str, str]:
        listed = {id: container.location_id or "" for id, container in before.containers.items()}
        return listed or processors_of_older_form(self.container_ids)
