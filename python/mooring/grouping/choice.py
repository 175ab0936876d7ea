"""Finds the grouper of an application: a grouper of Mooring by its short name, or a class of the user's."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, Final

from mooring.errors import InvalidGroupingError, InvalidSettingError
from mooring.grouping.contract import TaskNameGrouper
from mooring.grouping.host_aware import (
    GroupByContainerCount,
    GroupByContainerIds,
    HostAwareGrouper,
    SingleContainerGrouper,
)
from mooring.grouping.job import GrouperFactory
from mooring.model import ContainerModel, JobModel, TaskModel

_COUNT: Final = "group-by-container-count:"
_OURS: Final[Mapping[str, GrouperFactory]] = {
    "host-aware": HostAwareGrouper,
    "group-by-container-ids": partial(GroupByContainerIds, 1),
    "single-container": partial(SingleContainerGrouper, None),
}


@dataclass(frozen=True, slots=True)
class GrouperChoice:
    """A grouper by its name in `spark.mooring.grouper`. With `by_bytes` it evens out bytes of state, not tasks."""

    name: str = "host-aware"
    make: GrouperFactory = HostAwareGrouper
    is_users: bool = False
    by_bytes: bool = False

    @property
    def config(self) -> dict[str, str]:
        """The settings that the job model keeps, so that `mooring plan` uses the same grouper."""
        return {
            "spark.mooring.grouper": self.name,
            "spark.mooring.grouper.weights": "bytes" if self.by_bytes else "tasks",
        }


DEFAULT_GROUPER: Final = GrouperChoice()


def choose_grouper(name: str, weights: str = "tasks") -> GrouperChoice:
    """The grouper of this name. InvalidSettingError when there is none, or when the user's class can not be used.

    A user's class is instantiated once, as a test. Its constructor gets `weights` and `load` if it has parameters with
    these names. A class without a parameter `weights` evens out tasks.
    """
    by_bytes = weights == "bytes"
    if name in _OURS:
        return GrouperChoice(name, _OURS[name], by_bytes=by_bytes)
    if name.startswith(_COUNT) and name[len(_COUNT) :].isdecimal():
        count = int(name[len(_COUNT) :])
        try:
            GroupByContainerCount(count)
        except InvalidGroupingError as refusal:
            raise InvalidSettingError(f"grouper={name}: {refusal}") from refusal
        return GrouperChoice(name, partial(GroupByContainerCount, count), by_bytes=by_bytes)
    users = _users_class(name)
    make = partial(_Guarded, name, users)
    try:
        make(None, None)
    except InvalidGroupingError as fault:
        raise InvalidSettingError(f"grouper={name}: it can not be made: {fault}") from fault
    return GrouperChoice(name, make, is_users=True, by_bytes=by_bytes and "weights" in signature(users).parameters)


def _users_class(name: str) -> type[TaskNameGrouper]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as fault:  # a user's module may raise anything
        raise InvalidSettingError(
            f"grouper={name}: it can not be loaded ({type(fault).__name__}: {fault}); the module must be on the"
            " PYTHONPATH of the driver"
        ) from fault
    if not (isinstance(found, type) and issubclass(found, TaskNameGrouper)):
        raise InvalidSettingError(f"grouper={name}: it is not a class that extends mooring.grouping.TaskNameGrouper")
    return found


class _Guarded(TaskNameGrouper):
    """A user's grouper whose errors all become InvalidGroupingErrors."""

    def __init__(
        self,
        name: str,
        users: type[TaskNameGrouper],
        weights: Mapping[str, int] | None,
        load: Mapping[str, int] | None,
    ) -> None:
        self._name = name
        known = {"weights": weights, "load": load}
        self._grouper: TaskNameGrouper = self._call(lambda: users(**_taken_by(users, known)))
        self.moves_fewest = bool(self._grouper.moves_fewest)
        self.most_processors = self._grouper.most_processors

    def group(
        self,
        task_models: Collection[TaskModel],
        task_locality: Mapping[str, str],
        processor_locality: Mapping[str, str],
        previous: JobModel | None = None,
    ) -> frozenset[ContainerModel]:
        """Call the user's grouper. InvalidGroupingError when it returns no set of containers."""
        found = self._call(
            lambda: self._grouper.group(task_models, dict(task_locality), dict(processor_locality), previous)
        )
        if not isinstance(found, Iterable):
            raise InvalidGroupingError(f"{self._name} gave {type(found).__name__}, not a set of ContainerModel")
        containers = list(found)
        for container in containers:
            if not isinstance(container, ContainerModel):
                raise InvalidGroupingError(f"{self._name} gave a {type(container).__name__} among its containers")
        try:
            return frozenset(JobModel.of(containers).containers.values())
        except Exception as fault:  # two containers with one id, or one that is no model
            raise InvalidGroupingError(f"{self._name} gave containers that make no job model: {fault}") from fault

    def _call(self, method: Callable[[], Any]) -> Any:
        try:
            return method()
        except InvalidGroupingError:
            raise
        except (Exception, SystemExit) as fault:  # a user's code may raise anything; the query must not notice
            raise InvalidGroupingError(f"{self._name} raised {type(fault).__name__}: {fault}") from fault


def _taken_by(users: type[TaskNameGrouper], known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if name in signature(users).parameters}
