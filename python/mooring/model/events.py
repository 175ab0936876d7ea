"""The events of the JVM, as values. `event_json` reads them from the JSON that docs/internals.md describes."""

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
    """Time has passed. The agent makes this event itself."""


@dataclass(frozen=True, slots=True)
class PlanInForce(Event):
    """The plan that the JVM holds when an agent starts.

    `rows` maps query id and partition to the executors of the plan's row, the preferred executor first. `announced` is
    the newest version that was announced to executors, -1 for none.
    """

    version: int
    rows: Mapping[str, Mapping[int, tuple[str, ...]]]
    announced: int = -1


@dataclass(frozen=True, slots=True)
class DriverStarting(Event):
    """A driver with a shared metadata store starts. Its Spark context waits until the driver knows whether it leads."""

    name: str
    driver_host: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ApplicationStarted(Event):
    """The application has its id.

    `checkpoint_location` is the session's default for checkpoints, or empty. With `is_catalogued` Delta is present, and
    executors report the state that they commit. A task waits `locality_wait_ms` for the executor that it prefers.
    `attempt` tells drivers of one application apart where the cluster manager starts another driver, as YARN does;
    otherwise it is empty. `started_ms` is when the driver's context began, since 1970. `spark` and `java` are the
    versions that the driver runs on. `built_for` is the Spark version that the plugin was built for. `master` is
    Spark's own setting, such as `yarn`. All four are empty or 0 where they are not known.

    `executors` is the number of executors that the application asks its cluster manager for; 0 where that number
    changes or is not known. `hosts_asked` are the hosts that the application has asked for executors on at its start.
    """

    application: str
    name: str
    settings: Mapping[str, str]
    checkpoint_location: str
    is_catalogued: bool = field(default=False, metadata=key("catalogued"))
    attempt: str = ""
    started_ms: int = field(default=0, metadata=key("started-ms"))
    spark: str = ""
    built_for: str = ""
    java: int = 0
    locality_wait_ms: int = field(default=3_000, metadata=key("locality-wait"))
    master: str = ""
    executors: int = 0
    hosts_asked: tuple[str, ...] = field(default=(), metadata=key("hosts-asked"))


@dataclass(frozen=True, slots=True)
class ExecutorRegistered(Event):
    """An executor can take tasks.

    The event may come again once the `zone` of the executor is known. The zone is empty until then. `host` is the
    executor's host as Spark names it; empty where it is not known.
    """

    executor: str
    location: str
    cores: int
    zone: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class ExecutorLost(Event):
    """An executor is lost, was silent for too long, or is about to be removed.

    In the last case the event may come twice: it comes again when the executor is removed. `is_ordinary` for an
    executor that is lost because the application ends.
    """

    executor: str
    reason: str
    is_ordinary: bool = field(default=False, metadata=key("ordinary-end"))


@dataclass(frozen=True, slots=True)
class TasksWithheld(Event):
    """Spark withholds tasks from these living executors. `executors` maps an executor to the reason in words."""

    executors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlanPickedUp(Event):
    """An executor has taken up an announced version of the job model. The name is old: executors get no plan."""

    executor: str
    version: int


@dataclass(frozen=True, slots=True)
class ExecutorRestarting(Event):
    """An executor is to end for an operator's request, when no task runs on it. Later agents get this event too."""

    request: str
    executor: str


@dataclass(frozen=True, slots=True)
class RestartGivenUp(Event):
    """The executor always had tasks, so it was not ended in time. It keeps running, and the request ends it no more."""

    request: str
    executor: str


OUR_PROVIDER: Final = "io.mooring.HostAffinityStateStoreProvider"
"""The class of the state stores whose RocksDB files executors can copy."""


@dataclass(frozen=True, slots=True)
class QueryPlanned(Event):
    """The first batch of a run of a stateful query waits for its plan.

    `batch` is the number of that batch; a later agent gets the number after the last committed batch. `partitions` maps
    operator id to the number of partitions. `provider` is the class of the state stores.
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
    """A batch was planned and is about to run. `BatchEnded` of the batch before may come later than this event."""

    query: str
    batch: int


@dataclass(frozen=True, slots=True)
class QueryIdle(Event):
    """No batch of the query runs, even if the last batch has no `BatchEnded`."""

    query: str


@dataclass(frozen=True, slots=True)
class TaskRun:
    """How the task of one partition went in a batch.

    `wanted` is the executor that the task preferred, empty for none. The task read `rows` rows in `milliseconds`. It
    `is_speculative` if the attempt that finished first was one that Spark started because another attempt was slow.
    Earlier attempts threw an exception on the executors in `failed_on`.
    """

    wanted: str
    milliseconds: int
    rows: int
    is_speculative: bool = field(default=False, metadata=key("speculative"))
    failed_on: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BatchEnded(Event):
    """A batch was committed.

    `placements` maps each partition to the executor that ran it. `planned` counts the tasks that preferred an executor,
    and `as_planned` counts those of them that ran there. `state_bytes` is the size of the query's whole state, 0 where
    it is not known. `runs` maps a partition to the run of its task. `not_placed` are partitions that the plan could not
    place: a `coalesce` put them into one task with partitions that the plan wants on another executor.
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
    """A run of a query has ended. `error` is empty when the query was stopped."""

    query: str
    run: str
    error: str


@dataclass(frozen=True, slots=True)
class QueryStarting(Event):
    """A run of a query with state is about to create its sources. The run waits to learn whether to drain."""

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
    """A run of a query has ended, and no longer uses its checkpoint."""

    run: str


@dataclass(frozen=True, slots=True)
class TerminationAsked(Event):
    """The driver got SIGTERM, and its queries are to be drained before it ends."""


@dataclass(frozen=True, slots=True)
class DrainOwed(Event):
    """A query has started from a checkpoint whose drain is not over, so the query is to be drained.

    `after` are the ids of the queries that are drained before it. A query that is `held` was started only for its
    drain, and reads nothing until the drain begins.
    """

    query: str
    after: frozenset[str]
    held: bool = False


@dataclass(frozen=True, slots=True)
class DrainProgressed(Event):
    """The progress of the drain or stop of one run of a query.

    `phase` is frozen, caught-up, flushed or drained; or stopped, which keeps the state; or refused or failed, with a
    `reason`. `name` is the query's name. `writes` is how the sink of a failed query describes itself.

    `batch` is the last batch that has ended. `batches` have ended since the drain was asked for, with `rows` input
    rows. `flushes` of these batches flushed state. `flushed` rows of state were flushed, and `left` rows are left.
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
    """An executor opened a state store from files; the numbers of files and bytes are those that it read.

    `ahead_ms` is the time for which files were fetched before the store was opened, in milliseconds.
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
    """How many of `of` stores an executor has fetched for its tasks, when a run of the query starts."""

    executor: str
    query: str
    done: int
    of: int
    fetched_bytes: int = field(metadata=key("bytes"))
    milliseconds: int


@dataclass(frozen=True, slots=True)
class StateMeasured(Event):
    """The size of a state store at a commit. It is reported when it has changed by more than a tenth.

    `store` is the store's directory in the checkpoint: `<checkpoint>/state/<operator>/<partition>`, or a directory
    below it with the name of the store.
    """

    executor: str
    store: str
    state_bytes: int = field(metadata=key("bytes"))


@dataclass(frozen=True, slots=True)
class CopyOfState:
    """One executor's copy of a partition's state.

    `version` is the last complete version of the copy, -1 for none, and `lag_ms` is how far that version is behind.
    `fetched_bytes` were read from the checkpoint since the event before. `trouble` is why the last attempt to update
    the copy failed, in the executor's words; empty when it succeeded. `trouble_ms` is the time from the first failure
    in a row to the last one.
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
    """The state of a query's copies has changed. `version` is the state version that the query committed last."""

    query: str
    version: int
    copies: tuple[CopyOfState, ...]
