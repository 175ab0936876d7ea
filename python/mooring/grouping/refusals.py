"""Refuses input that no grouper can group, before anything is planned."""

from collections.abc import Collection, Sequence

from mooring.errors import InvalidGroupingError
from mooring.model import TaskModel


def refuse_impossible(task_models: Collection[TaskModel], processor_ids: Sequence[str]) -> None:
    """Raise `InvalidGroupingError` for no tasks, no processors, or a task name or processor id given twice."""
    if not task_models:
        raise InvalidGroupingError("there are no tasks to group")
    if not processor_ids:
        raise InvalidGroupingError(f"there are no processors to group {len(task_models)} tasks on")
    _refuse_duplicates("task name", [task.task_name for task in task_models])
    _refuse_duplicates("processor id", processor_ids)


def refuse_bad_count(count: int) -> None:
    """Raise `InvalidGroupingError` for a fixed number of containers that is not positive."""
    if count <= 0:
        raise InvalidGroupingError(f"the number of containers is {count}; it must be at least 1")


def refuse_too_few_tasks(count: int, tasks: int) -> None:
    """Raise `InvalidGroupingError` for fewer tasks than a fixed number of containers."""
    if tasks < count:
        raise InvalidGroupingError(f"there are {tasks} tasks for {count} containers; each container needs one at least")


def refuse_unknown(processor_id: str, processor_ids: Sequence[str]) -> None:
    """Raise `InvalidGroupingError` for a processor id that is not in `processor_ids`."""
    if processor_id not in processor_ids:
        raise InvalidGroupingError(f'there is no processor "{processor_id}"; there are: {", ".join(processor_ids)}')


def _refuse_duplicates(what: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidGroupingError(f'the {what} "{name}" is given more than once')
        seen.add(name)
