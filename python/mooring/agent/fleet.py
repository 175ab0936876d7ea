"""What the agent knows: executors, processors, queries, and the job model in force.

Values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mooring.grouping import DEFAULT_GROUPER, GrouperChoice
from mooring.model import JobModel, SystemStreamPartition, TaskModel, TaskName


@dataclass(frozen=True, slots=True)
class Timing:
    """The few settings that the core needs, in milliseconds."""

    debounce_ms: int = 3_000
    rebind_timeout_ms: int = 60_000
    first_plan_wait_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class Executor:
    """A living executor."""

    id: str
    location: str
    cores: int


@dataclass(frozen=True, slots=True)
class Processor:
    """A stable place for tasks, bound to one living executor or to none.

    `unbound_since_ms` is when it lost its executor, or when it was remembered from the last run (`is_awaited`: it has
    not had an executor in this application yet).
    """

    id: str
    location: str
    executor: str | None = None
    unbound_since_ms: int = 0
    is_awaited: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A running stateful query.

    `label` is what its tasks are called by; the batch's number, milliseconds and bytes of state are those of the last
    batch.

    Until it `is_released`, nothing is published for it: its first batch waits in the JVM.
    """

    id: str
    run: str
    name: str
    label: str
    checkpoint: str
    partitions: Mapping[int, int]
    planned_at_ms: int
    batch: int = -1
    batch_ms: int = 0
    state_bytes: int = 0
    is_released: bool = False

    @property
    def tasks(self) -> frozenset[TaskModel]:
        """One task for each state partition; it takes in that partition of all operators."""
        return frozenset(self._task(partition) for partition in range(max(self.partitions.values(), default=0)))

    def task_name(self, partition: int) -> TaskName:
        """The name of the task of a state partition."""
        return TaskName(f"{self.label}/Partition {partition}")

    def _task(self, partition: int) -> TaskModel:
        stores = frozenset(
            SystemStreamPartition("spark", f"{self.label}/{operator}/default", partition)
            for operator, partitions in self.partitions.items()
            if partition < partitions
        )
        return TaskModel(self.task_name(partition), stores, partition)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything the core decides from."""

    timing: Timing = Timing()
    grouping: GrouperChoice = DEFAULT_GROUPER
    application: str = ""
    executors: Mapping[str, Executor] = field(default_factory=dict)
    processors: Mapping[str, Processor] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    model: JobModel = field(default_factory=lambda: JobModel.of([]))
    task_locality: Mapping[str, str] = field(default_factory=dict)
    wanted_by_jvm: Mapping[tuple[str, int], str] = field(default_factory=dict)
    regroup_at_ms: int | None = None

    def with_executor(self, executor: Executor) -> Fleet:
        """With one executor more, or known better."""
        return replace(self, executors={**self.executors, executor.id: executor})

    def with_processor(self, processor: Processor) -> Fleet:
        """With one processor added or replaced."""
        return replace(self, processors={**self.processors, processor.id: processor})

    def with_query(self, query: Query) -> Fleet:
        """With one query added or replaced."""
        return replace(self, queries={**self.queries, query.id: query})

    def state_bytes(self) -> dict[str, int]:
        """Task name to the bytes of its state, for tasks whose stores have been measured."""
        return {}

    def processor_of_task(self) -> dict[str, str]:
        """Task name to processor id, as the job model in force has it."""
        return {
            task: container.processor_id for container in self.model.containers.values() for task in container.tasks
        }
