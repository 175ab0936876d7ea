"""The parts of `Fleet` that are read together: settings, timers, what operators have requested, sizes, standbys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mooring.grouping import DEFAULT_GROUPER, GrouperChoice
from mooring.standby import SharedZone, Unplaced


@dataclass(frozen=True, slots=True)
class Timing:
    """The durations that the agent decides with, in milliseconds, and the speed at which copies are fetched.

    `barrier_timeout_ms` is how long a new version waits until executors have taken it up. A living executor needs a
    second, and the timeout is several seconds. An executor fetches at most `copy_bytes_a_second` for its copies.
    """

    debounce_ms: int = 3_000
    rebind_timeout_ms: int = 60_000
    first_plan_wait_ms: int = 10_000
    barrier_timeout_ms: int = 4_000
    copy_bytes_a_second: int = 64 << 20


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """The settings that say where tasks and copies go.

    With a `replication_factor` of n each task has n - 1 standbys. Without `has_host_affinity` Spark runs tasks on any
    executor, and no processor has tasks. At most `most_receivers` processors get tasks at the same time. With
    `asks_for_hosts` the cluster manager is asked for executors on the hosts that have state. `location_provider` says
    what a location is, as the setting does.
    """

    grouping: GrouperChoice = DEFAULT_GROUPER
    replication_factor: int = 1
    has_host_affinity: bool = True
    most_receivers: int = 1
    asks_for_hosts: bool = False
    location_provider: str = "host"


@dataclass(frozen=True, slots=True)
class Application:
    """The Spark application.

    `attempt` tells drivers of one application apart; it is empty where the cluster manager starts only one. A task
    waits `locality_wait_ms` for the executor that it prefers. `master` is Spark's own setting.
    """

    id: str = ""
    attempt: str = ""
    locality_wait_ms: int = 3_000
    master: str = ""

    @property
    def restarts_in_place(self) -> bool:
        """Whether the cluster manager starts the successor of an executor on the same host."""
        return not self.master.startswith("yarn") and not self.runs_in_pods

    @property
    def runs_in_pods(self) -> bool:
        """Whether the cluster manager is Kubernetes, where the host of an executor is the address of its pod."""
        return self.master.startswith("k8s:")


@dataclass(frozen=True, slots=True)
class Allocation:
    """What the application asks its cluster manager for.

    `executors` is how many executors it asks for; 0 where that changes or is not known. `hosts_given` are the hosts of
    its first executors, once all are there; None before. `hosts_asked` are the hosts that it asked for at its start.
    On Kubernetes both are nodes. `host_of` maps the locations of this application's executors to their hosts.
    """

    executors: int = 0
    hosts_asked: tuple[str, ...] = ()
    hosts_given: tuple[str, ...] | None = None
    host_of: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timers:
    """When the agent acts next, in milliseconds since the epoch; None for a timer that is not set.

    At `regroup_at_ms` the agent makes a new job model. `even_out_by_ms` is set while tasks wait for warm copies before
    the load is evened out; at that time the tasks move without them. After `new_batches_ignored_after_ms` the next step
    of moves waits only for batches that began before that time. A step is a part of a balanced job model
    (`moves_in_steps`).
    """

    regroup_at_ms: int | None = None
    even_out_by_ms: int | None = None
    new_batches_ignored_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Overrides:
    """What operators have requested, and what holds until they request otherwise.

    The tasks of the processors in `stopped_standbys` get no copies. `pinned_standbys` maps a standby of a processor to
    the location that an operator wants for it; standby 4-0 is replica 0 of the tasks of processor 4. No task and no
    copy goes to the locations in `drained` while there is another location.
    """

    stopped_standbys: frozenset[str] = frozenset()
    pinned_standbys: Mapping[str, str] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProcessorMove:
    """A move of a processor from the executor `source` to the executor `destination`.

    Until `is_switched`, the destination warms the tasks up. After it, `fetched_to_open` maps checkpoint and partition
    to the bytes of state that stores at the destination have fetched when they were opened.
    """

    source: str
    destination: str
    is_switched: bool = False
    fetched_to_open: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def with_fetched(self, task: tuple[str, int], fetched_bytes: int) -> ProcessorMove:
        """With so many bytes more that the destination has fetched to open the stores of a partition."""
        fetched = self.fetched_to_open.get(task, 0) + fetched_bytes
        return replace(self, fetched_to_open={**self.fetched_to_open, task: fetched})


@dataclass(frozen=True, slots=True)
class OngoingRequests:
    """What the requests that are under way change for a while.

    `moves` maps a processor to its move. `closed_standbys` are in the job model, and no executor has them for a while.
    `restarts` maps a request to the executor that the JVM ends for it.
    """

    moves: Mapping[str, ProcessorMove] = field(default_factory=dict)
    closed_standbys: frozenset[str] = frozenset()
    restarts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateSizes:
    """The bytes of state of tasks.

    `measured` maps checkpoint and partition to the bytes of each of its stores. It outlives a query's run, as executors
    send a size only once. `remembered` maps a task name to its bytes in the last run.
    """

    measured: Mapping[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    remembered: Mapping[str, int] = field(default_factory=dict)

    def with_measured(self, checkpoint: str, partition: int, store: str, state_bytes: int) -> StateSizes:
        """With the bytes of one store of a partition."""
        key = (checkpoint, partition)
        stores = {**self.measured.get(key, {}), store: state_bytes}
        return replace(self, measured={**self.measured, key: stores})

    def of_task(self, name: str, checkpoint: str, partition: int) -> int | None:
        """The bytes of a task, as measured, else as remembered; None if neither is known."""
        stores = self.measured.get((checkpoint, partition))
        return sum(stores.values()) if stores else self.remembered.get(name)


@dataclass(frozen=True, slots=True)
class StandbyCounts:
    """Counts since this agent started: failovers of tasks whose executor was lost, and copies that found no place."""

    failovers_to_standby: int = 0
    failovers_to_any_host: int = 0
    failed_allocations: int = 0


@dataclass(frozen=True, slots=True)
class StandbyReport:
    """What the newest job model could not do for standbys, and the counts since this agent started."""

    unplaced: tuple[Unplaced, ...] = ()
    sharing_zone: tuple[SharedZone, ...] = ()
    counts: StandbyCounts = StandbyCounts()
