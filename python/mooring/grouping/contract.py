"""The one contract of all groupers."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from mooring.model import ContainerModel, JobModel, TaskModel


class TaskNameGrouper(ABC):
    """Decides which processor holds which task.

    What a grouper must know besides its input is given to it when it is made. A grouper is a pure function: it holds no
    live object, reads no clock, and gives the same output for the same input in any iteration order.
    """

    @abstractmethod
    def group(
        self,
        task_models: Collection[TaskModel],
        task_locality: Mapping[str, str],
        processor_locality: Mapping[str, str],
        previous: JobModel | None = None,
    ) -> frozenset[ContainerModel]:
        """Group the tasks of one query.

        `task_locality` maps task name to the location where the task ran last, `processor_locality` maps the id of each
        living processor to its location; empty text and `ANY_HOST` mean no preference. `previous` is the job model in
        force, or None; it may hold tasks and processors that are gone.

        Returns one container for each processor that gets tasks: min(tasks, processors) of them. Each task is in
        exactly one. Raises `InvalidGroupingError` for no tasks, no processors, and two tasks of one name.
        """
