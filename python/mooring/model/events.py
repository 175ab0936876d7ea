"""What the JVM tells the agent, as values.

The JSON forms are in docs/internals.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mooring.model.dataclass_codec import key


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `at_ms` is when, in milliseconds since the epoch, by the driver's clock."""

    at_ms: int = field(metadata=key("at"))


@dataclass(frozen=True, slots=True)
class ClockTicked(Event):
    """Time passed; the agent's own event."""


@dataclass(frozen=True, slots=True)
class PlanInForce(Event):
    """The plan that the JVM holds when an agent starts: `wanted` maps query id and partition to the first executor.

    `offered` is the newest version that executors were to take up, -1 for none.
    """

    version: int
    wanted: Mapping[tuple[str, int], str]
    offered: int = -1


@dataclass(frozen=True, slots=True)
class DriverStarting(Event):
    """A driver with a shared metadata store wants to know whether it leads; its Spark context waits for the answer."""

    name: str
    driver_host: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ApplicationStarted(Event):
    """The application has its id.

    `checkpoint_location` is the session default for checkpoints, or empty. `is_catalogued`: Delta is there, and
    executors tell of the state that they commit. `locality_wait_ms` is for how long a task waits for the executor that
    it prefers. `attempt` tells drivers of one application apart, where the cluster manager starts another one for it,
    as YARN does; else it is empty. `spark` and `java` are the versions that the driver runs on, `built_for` the Spark
    that the plugin was built for; empty or 0 where they are not known.
    """

    application: str
    name: str
    settings: Mapping[str, str]
    checkpoint_location: str
    is_catalogued: bool = field(default=False, metadata=key("catalogued"))
    attempt: str = ""
    spark: str = ""
    built_for: str = ""
    java: int = 0
    locality_wait_ms: int = field(default=3_000, metadata=key("locality-wait"))


@dataclass(frozen=True, slots=True)
class ExecutorRegistered(Event):
    """An executor can take tasks.

    It may be told again, once its `zone` is known; empty until then, and where nobody knows it.
    """

    executor: str
    location: str
    cores: int
    zone: str = ""


@dataclass(frozen=True, slots=True)
class ExecutorLost(Event):
    """An executor is gone, for whatever reason."""

    executor: str
    reason: str


@dataclass(frozen=True, slots=True)
class OffersWithheld(Event):
    """To these living executors, and to no others, Spark offers no tasks; each maps to the reason, in words."""

    executors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlanPickedUp(Event):
    """An executor knows a version of the job model that was offered."""

    executor: str
    version: int


@dataclass(frozen=True, slots=True)
class ExecutorRestarting(Event):
    """For a request of an operator an executor is to end when no task runs on it; told to every later agent as well."""

    request: str
    executor: str


@dataclass(frozen=True, slots=True)
class RestartGivenUp(Event):
    """No moment has come to end that executor: it works on, and nobody ends it for that request any more."""

    request: str
    executor: str


OUR_PROVIDER: Final = "io.mooring.HostAffinityStateStoreProvider"
"""The class that keeps state in RocksDB, whose files executors can copy."""


@dataclass(frozen=True, slots=True)
class QueryPlanned(Event):
    """The first batch of a stateful query's run waits for its plan.

    `batch` is that one; a later agent hears the one after the last that was committed. `partitions`: by operator id;
    `provider`: the class that keeps its state.
    """

    query: str
    run: str
    name: str
    checkpoint: str
    batch: int
    partitions: Mapping[int, int]
    provider: str = OUR_PROVIDER


@dataclass(frozen=True, slots=True)
class BatchBegan(Event):
    """A batch was planned and is about to run; `BatchEnded` of the one before may come later than this."""

    query: str
    batch: int


@dataclass(frozen=True, slots=True)
class QueryIdle(Event):
    """No batch of the query runs, whatever was heard of its last one."""

    query: str


@dataclass(frozen=True, slots=True)
class TaskRun:
    """How the task of one partition went in a batch.

    `wanted` is the executor that it preferred, empty for none. It read so many `rows` in so many milliseconds.
    `is_speculative`: the attempt that was done first was one that Spark made because another one took long. Attempts
    before it threw an exception on the executors in `failed_on`.
    """

    wanted: str
    milliseconds: int
    rows: int
    is_speculative: bool = field(default=False, metadata=key("speculative"))
    failed_on: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BatchEnded(Event):
    """A batch was committed.

    `placements` maps partition to the executor that ran it; `planned` counts the tasks that had a preference,
    `as_planned` those that ran there; `state_bytes` is the size of the query's whole state, 0 when it is not known;
    `runs` maps partition to how its task went. `not_placed` are partitions that the plan could not place: a `coalesce`
    put them into one task with partitions that the plan wants on another executor.
    """

    query: str
    batch: int
    milliseconds: int
    placements: Mapping[int, str]
    planned: int
    as_planned: int
    state_bytes: int = 0
    runs: Mapping[int, TaskRun] = field(default_factory=dict)
    not_placed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class QueryEnded(Event):
    """A run of a query is over; `error` is empty when it was stopped."""

    query: str
    run: str
    error: str


@dataclass(frozen=True, slots=True)
class QueryStarting(Event):
    """A run of a query with state is about to make its sources, and waits to hear whether it is to be drained."""

    query: str
    run: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class CheckpointTaken(Event):
    """A run of a query, with or without state, has started on a checkpoint."""

    run: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class CheckpointLeft(Event):
    """A run of a query is over, and with it its work on its checkpoint."""

    run: str


@dataclass(frozen=True, slots=True)
class TerminationAsked(Event):
    """The driver was told to end (SIGTERM), and its queries are to be drained first."""


@dataclass(frozen=True, slots=True)
class DrainOwed(Event):
    """A query has started from a checkpoint whose drain is not over: it is to be drained once those of `after` are.

    They are queries, by their ids, that were to be drained before it. One that is `held` was not to be started but for
    that, and reads nothing until it is told.
    """

    query: str
    after: frozenset[str]
    held: bool = False


@dataclass(frozen=True, slots=True)
class DrainProgressed(Event):
    """How far the drain of a query's run is: frozen, caught-up, flushed, drained; or refused, or failed, and why.

    Or it is stopped with its state. `name` is the query's; `writes` is what the sink of one that failed says of itself.
    `batch` is the last one that has ended, `batches` how many there were since it was asked for, with `rows` of input;
    `flushes` counts those that flushed, in which `flushed` rows of state went; `left` are left.
    """

    query: str
    run: str
    phase: str
    batch: int = -1
    batches: int = 0
    rows: int = 0
    flushes: int = 0
    flushed: int = 0
    left: int = 0
    reason: str = ""
    name: str = ""
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreOpened(Event):
    """An executor brought up a state store from files; bytes and files as they were read.

    `ahead_ms` is how long some of them were fetched before it was opened.
    """

    executor: str
    store: str
    version: int
    milliseconds: int
    local_files: int
    local_bytes: int
    remote_files: int
    remote_bytes: int
    local_changelogs: int
    remote_changelogs: int
    ahead_ms: int = field(default=0, metadata=key("ahead-milliseconds"))


@dataclass(frozen=True, slots=True)
class StoresFetched(Event):
    """How far an executor has come with the stores that its tasks open when a run of the query starts."""

    executor: str
    query: str
    done: int
    of: int
    fetched_bytes: int = field(metadata=key("bytes"))
    milliseconds: int


@dataclass(frozen=True, slots=True)
class StateMeasured(Event):
    """A state store has committed and weighs so much; told when that has changed by more than a tenth.

    `store` is its directory in the checkpoint: `<checkpoint>/state/<operator>/<partition>`, or a store's name below.
    """

    executor: str
    store: str
    state_bytes: int = field(metadata=key("bytes"))


@dataclass(frozen=True, slots=True)
class CopyOfState:
    """What one executor has of a partition's state: the last version that is whole there, -1 for none.

    `lag_ms` is how far it was behind; `fetched_bytes` is what this round read from the checkpoint. `trouble` is why it
    could not be brought on at the last attempt, in the executor's words, empty when it could; `trouble_ms` is how long
    after the first such attempt in a row that one failed.
    """

    partition: int
    executor: str
    version: int
    lag_ms: int
    local_bytes: int = field(metadata=key("bytes"))
    fetched_bytes: int
    trouble: str = ""
    trouble_ms: int = 0


@dataclass(frozen=True, slots=True)
class CopiesSeen(Event):
    """A round of the replica query is over; the copies of the query were to reach the committed `version`."""

    query: str
    version: int
    copies: tuple[CopyOfState, ...]
