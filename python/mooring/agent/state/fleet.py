"""What the agent knows: executors, processors, queries, and the newest job model. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mooring.agent.state.fleet_parts import (
    Allocation,
    Application,
    OngoingRequests,
    Overrides,
    PlacementSettings,
    StandbyReport,
    StateSizes,
    Timers,
    Timing,
)
from mooring.agent.state.loans import Lending
from mooring.locality import node_of
from mooring.model import JobModel, SystemStreamPartition, TaskModel, TaskName
from mooring.model.events import StoreOpened
from mooring.model.orders import Rows


@dataclass(frozen=True, slots=True)
class Executor:
    """A living executor; zone and host are empty where they are not known."""

    id: str
    location: str
    cores: int
    zone: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Processor:
    """A stable place for tasks, bound to one living executor or to none.

    `was_on` is the executor that the processor lost, at `unbound_since_ms`. A processor of the last run `is_awaited`
    until it has an executor in this application; its `unbound_since_ms` is when the records were read. A processor
    `is_spare` when it was added because a move had vacated its executor. A spare processor may hold copies. It gets
    active tasks only while no other processor can.
    """

    id: str
    location: str
    executor: str | None = None
    unbound_since_ms: int = 0
    is_awaited: bool = False
    was_on: str = ""
    is_spare: bool = False

    @property
    def last_executor(self) -> str:
        """The executor of the processor, else the executor that it lost last; empty where neither is known."""
        return self.executor or self.was_on


@dataclass(frozen=True, slots=True)
class Query:
    """A running stateful query.

    `label` is the name of the query in the names of its tasks. `batch`, `batch_ms` and `state_bytes` are of the last
    batch. Nothing is published for a query until it `is_released`: its first batch waits in the JVM until then.

    `ran_on` maps each partition to its executor in the last batch, which ended at `ran_at_ms`. `not_placed` are the
    partitions that the plan could not place in that batch. `newest_batch` is the batch that began last, at
    `began_at_ms`.
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
    ran_on: Mapping[int, str] = field(default_factory=dict)
    ran_at_ms: int = -1
    not_placed: frozenset[int] = frozenset()
    newest_batch: int = -1
    began_at_ms: int = -1
    has_rocksdb: bool = False

    @property
    def is_in_a_batch(self) -> bool:
        """Whether a batch has begun and not ended, however long it takes."""
        return self.newest_batch > self.batch

    def ran_elsewhere(self, partition: int, executor: str) -> bool:
        """Whether the last batch ran the partition on another executor, although the plan could place it."""
        return partition not in self.not_placed and self.ran_on.get(partition) != executor

    @property
    def can_be_copied(self) -> bool:
        """Whether the query has state that executors can copy."""
        return self.has_rocksdb and self.batch >= 0

    @property
    def tasks(self) -> frozenset[TaskModel]:
        """One task for each state partition. A task has the stores of all operators for its partition."""
        return frozenset(self._task(partition) for partition in range(self.task_count))

    @property
    def task_count(self) -> int:
        """The number of tasks: the greatest number of partitions of an operator."""
        return max(self.partitions.values(), default=0)

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
class SeenCopy:
    """A copy of a partition: state versions and milliseconds behind the newest version, and its bytes.

    `trouble` is why the last attempt to update the copy failed, in the executor's words; empty when it succeeded.
    `trouble_ms` is the time from the first failure in a row to the last one, in milliseconds.
    """

    lag_versions: int
    lag_ms: int
    local_bytes: int
    trouble: str = ""
    trouble_ms: int = 0

    def lags_at_most(self, most_lag: int) -> bool:
        """Whether the copy is at most `most_lag` versions behind. A copy in trouble must have the newest version."""
        return self.lag_versions <= (0 if self.trouble else most_lag)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything that the agent decides from.

    `changed_tasks` are the tasks that the newest job model gives to another processor than the one before, and new
    tasks. `task_locality` maps a task to the location where it ran last. `rows_at_start` are the rows that the JVM held
    when this agent started; empty once this agent has published a plan.

    `copies` maps query id, partition and executor to the last report about that copy. `tasks_to_warm_up` maps a task to
    the processor that gets the task once the task's state is warm there.

    `withheld` has the living executors from which Spark withholds tasks now, each with the reason. Their tasks run
    elsewhere, and return when Spark gives tasks to them again. `lending` has the executors that serve their tasks
    badly, and the tasks that are lent for that reason.
    """

    timing: Timing = field(default_factory=Timing)
    settings: PlacementSettings = field(default_factory=PlacementSettings)
    application: Application = field(default_factory=Application)
    allocation: Allocation = field(default_factory=Allocation)
    timers: Timers = field(default_factory=Timers)
    overrides: Overrides = field(default_factory=Overrides)
    ongoing: OngoingRequests = field(default_factory=OngoingRequests)
    sizes: StateSizes = field(default_factory=StateSizes)
    standby_report: StandbyReport = field(default_factory=StandbyReport)
    executors: Mapping[str, Executor] = field(default_factory=dict)
    processors: Mapping[str, Processor] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    model: JobModel = field(default_factory=lambda: JobModel.of([]))
    changed_tasks: frozenset[str] = frozenset()
    task_locality: Mapping[str, str] = field(default_factory=dict)
    rows_at_start: Rows = field(default_factory=dict)
    copies: Mapping[tuple[str, int, str], SeenCopy] = field(default_factory=dict)
    tasks_to_warm_up: Mapping[str, str] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    lending: Lending = field(default_factory=Lending)

    @property
    def executor_of(self) -> dict[str, str]:
        """Processor id to its living executor, for the processors that have one."""
        return {id: processor.executor for id, processor in self.processors.items() if processor.executor is not None}

    @property
    def has_all_executors(self) -> bool:
        """Whether as many executors are here as the application asks for, so that no other one comes."""
        return 0 < self.allocation.executors <= len(self.executors)

    @property
    def is_incomplete(self) -> bool:
        """Whether a processor waits for an executor."""
        return any(processor.executor is None for processor in self.processors.values())

    @property
    def locations(self) -> dict[str, str]:
        """Processor id to location."""
        return {id: processor.location for id, processor in self.processors.items()}

    @property
    def open_locations(self) -> dict[str, str]:
        """Processor id to location, for the processors that tasks may go to.

        These are the processors at hosts that are not drained, without spare processors that have no active task. Where
        none of these has an executor, spare processors are included, then processors at drained hosts, then all.
        """
        locations, bound = self.undrained_locations, self.executor_of
        no_spares = {id: location for id, location in locations.items() if not self.is_empty_spare(id)}
        at_drained = {id: location for id, location in self.locations.items() if not self.is_empty_spare(id)}
        found = next((open for open in (no_spares, locations, at_drained) if open.keys() & bound.keys()), None)
        return found or (self.locations if bound else no_spares or self.locations)

    @property
    def undrained_locations(self) -> dict[str, str]:
        """Processor id to location, without those at drained hosts."""
        return {id: location for id, location in self.locations.items() if location not in self.overrides.drained}

    @property
    def may_hold_copies(self) -> frozenset[str]:
        """The processors that have an executor, at a host that is not drained."""
        return frozenset(self.executor_of.keys() & self.undrained_locations.keys())

    @property
    def is_to_be_emptied(self) -> bool:
        """Whether an active task is at a drained host and could move."""
        if not self.overrides.drained or not self.may_hold_copies:
            return False
        locations = self.undrained_locations
        return any(held.actives and id not in locations for id, held in self.model.containers.items())

    def is_empty_spare(self, id: str) -> bool:
        """Whether the processor is spare and has no active task."""
        container = self.model.containers.get(id)
        return self.processors[id].is_spare and not (container and container.actives)

    def standby_ids(self) -> dict[str, tuple[str, int]]:
        """The id of each standby of a processor, to that processor and the number of the replica."""
        return {
            name: (id, replica)
            for id in self.processors
            for replica in range(self.settings.replication_factor - 1)
            if (name := f"{id}-{replica}") not in self.processors
        }

    def base_of(self, id: str) -> str:
        """The processor of a standby's id; any other id unchanged."""
        return id if id in self.processors else self.standby_ids().get(id, (id, 0))[0]

    def without_overrides_of_lost_processors(self) -> Fleet:
        """Without overrides for standbys of processors that do not exist. Without host affinity all overrides stay."""
        if not self.settings.has_host_affinity:
            return self
        known = self.standby_ids()
        overrides = replace(
            self.overrides,
            stopped_standbys=self.overrides.stopped_standbys & self.processors.keys(),
            pinned_standbys={id: location for id, location in self.overrides.pinned_standbys.items() if id in known},
        )
        return replace(self, overrides=overrides)

    def is_lent(self, query: str, partition: int, executor: str) -> bool:
        """Whether a task that the plan has on this executor is to run elsewhere.

        All tasks of the executor run elsewhere while Spark withholds tasks from it. A task on loan runs elsewhere as
        well, except when an operator moves a processor to the executor.
        """
        is_destination = any(move.destination == executor for move in self.ongoing.moves.values())
        return executor in self.withheld or (not is_destination and self.lending.is_lent(query, partition, executor))

    def with_executor(self, executor: Executor) -> Fleet:
        """With one executor added or replaced."""
        host_of = {**self.allocation.host_of, executor.location: executor.host or executor.location}
        allocation = replace(self.allocation, host_of=host_of)
        known = replace(self, executors={**self.executors, executor.id: executor}, allocation=allocation)
        return known.with_first_hosts_noted()

    def with_first_hosts_noted(self) -> Fleet:
        """With the hosts of the first executors, once all are here; unchanged before and after that."""
        if not self.has_all_executors or self.allocation.hosts_given is not None:
            return self
        found = ((executor, self.host_of(executor.location)) for executor in self.executors.values())
        given = tuple(host or executor.host or executor.location for executor, host in found)
        return replace(self, allocation=replace(self.allocation, hosts_given=given))

    def active_count(self, processor: str) -> int:
        """The number of active tasks that the newest job model gives a processor."""
        container = self.model.containers.get(processor)
        return len(container.actives) if container else 0

    def host_of(self, location: str) -> str | None:
        """The host of a location, on Kubernetes its node; None where it is not known."""
        provider = self.settings.location_provider
        if self.application.runs_in_pods:
            return node_of(location, provider)
        return self.allocation.host_of.get(location, location if provider == "host" else None)

    def with_processor(self, processor: Processor) -> Fleet:
        """With one processor added or replaced."""
        return replace(self, processors={**self.processors, processor.id: processor})

    def with_measure(self, store: str, state_bytes: int) -> Fleet:
        """With the bytes of one store; unchanged for a directory that is no store's."""
        task = task_of_store(store)
        if task is None:
            return self
        return replace(self, sizes=self.sizes.with_measured(*task, store.rpartition("/state/")[2], state_bytes))

    def with_opening(self, opened: StoreOpened) -> Fleet:
        """With the bytes that an executor fetched to open a store, if a processor has just moved to that executor."""
        task = task_of_store(opened.store)
        if task is None:
            return self
        changed = {
            id: move.with_fetched(task, opened.remote_bytes)
            for id, move in self.ongoing.moves.items()
            if move.is_switched and move.destination == opened.executor
        }
        if not changed:
            return self
        return replace(self, ongoing=replace(self.ongoing, moves={**self.ongoing.moves, **changed}))

    def with_query(self, query: Query) -> Fleet:
        """With one query added or replaced."""
        return replace(self, queries={**self.queries, query.id: query})

    def partition_of_task(self) -> dict[str, tuple[str, int]]:
        """Task name to query id and partition, for the queries that are released."""
        return {
            query.task_name(partition): (query.id, partition)
            for query in self.queries.values()
            if query.is_released
            for partition in range(query.task_count)
        }

    def state_bytes(self) -> dict[str, int]:
        """Task name to the bytes of its state, as measured, else as remembered; without tasks of unknown size."""
        found: dict[str, int] = {}
        for query in self.queries.values():
            for partition in range(query.task_count):
                name = query.task_name(partition)
                state_bytes = self.sizes.of_task(name, query.checkpoint.rstrip("/"), partition)
                if state_bytes is not None:
                    found[name] = state_bytes
        return found

    def expected_bytes(self) -> dict[str, int]:
        """Task name to the bytes of its state; a task of unknown size has an even share of its query's state."""
        shares = {
            str(query.task_name(partition)): query.state_bytes // query.task_count
            for query in self.queries.values()
            for partition in range(query.task_count)
        }
        return {**shares, **self.state_bytes()}

    def processor_of_task(self) -> dict[str, str]:
        """The name of each active task to its processor id, by the newest job model."""
        return {
            task: container.processor_id for container in self.model.containers.values() for task in container.actives
        }


def task_of_store(store: str) -> tuple[str, int] | None:
    """The checkpoint and the partition of a store's directory; None for a directory that is no store's."""
    checkpoint, _, below = store.rpartition("/state/")
    partition = below.split("/")[1] if "/" in below else ""
    return (checkpoint, int(partition)) if checkpoint and partition.isdecimal() else None
