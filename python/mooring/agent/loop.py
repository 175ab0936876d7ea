"""The agent's loop: events from the JVM to the core, the core's orders to the JVM and to the store.

One thread. It ends when the driver closes its standard input or does not answer; the driver starts another if it
lives.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from mooring.agent.core import AgentState, absorb, decide, next_deadline_ms
from mooring.agent.drains.drainage import (
    AnnounceDrains,
    EndQuery,
    OweDrains,
    QueriesSeen,
    RemoveNotifications,
)
from mooring.agent.drains.watch import DrainWatch
from mooring.agent.messages.first_lines import plan_is_in_force
from mooring.agent.messages.start_check import problems
from mooring.agent.planning import binding
from mooring.agent.planning.failover import promote_standbys
from mooring.agent.planning.move_messages import describe_moves
from mooring.agent.records_writer import RecordsWriter
from mooring.agent.requests import restart
from mooring.agent.requests.queue import Answer, RemoveMessages, RequestsRead
from mooring.agent.state.fleet import Fleet, Timing
from mooring.agent.status import Counters, metrics_of, status_of
from mooring.drain import RunningQuery, parse_order
from mooring.errors import InvalidSettingError
from mooring.grouping import DEFAULT_GROUPER, GrouperChoice, choose_grouper, plan_moves
from mooring.model import JobModel, events, orders
from mooring.placement.lifecycle import Phase
from mooring.records.operator_overrides import OF_ANOTHER_ATTEMPT, OperatorOverrides, SaveOverrides
from mooring.records.records import Remembered
from mooring.settings import Settings

LONGEST_POLL_MS = 1_000
SHORT_POLL_MS = 20
STATUS_EVERY_MS = 1_000
STATUS_AT_LEAST_EVERY_MS = 10_000
"""Also when nothing happens, so that a reader can tell a quiet application from one that has ended."""


class Bridge(Protocol):
    """What the loop needs of the JVM; `mooring.spark.bridge.JvmBridge` is the real one."""

    def hello(self) -> list[events.Event]:
        """Everything that is true now."""

    def poll(self, timeout_ms: int) -> list[events.Event]:
        """The news."""

    def offer(self, version: int) -> None:
        """Let executors take up a version."""

    def publish(self, plan: orders.PublishPlan) -> bool:
        """Put a plan in force."""

    def restart(self, request: str, executor: str, wait_ms: int) -> None:
        """End an executor once no task runs on it, if that is in time; for one request once."""

    def announce_drains(self, queries: tuple[str | None, ...]) -> None:
        """Tell of which queries a drain is asked for, by names or ids; None is every query."""

    def owe_drains(self, after: Mapping[str, frozenset[str]]) -> None:
        """Write into the queries' checkpoints that they are to be drained, each after those named, by ids."""

    def end_query(self, query: str, how: str, zero_input: bool) -> None:
        """Have a query drained (DRAIN) or stopped (a StopMode's value); told again, it does nothing."""

    def queries(self) -> tuple[RunningQuery, ...]:
        """The queries that run."""

    def say(self, message: str) -> None:
        """Write a line into the driver's log."""

    def inform(self, message: str) -> None:
        """Write a line into the driver's log that is no warning."""

    def metrics(self, values: dict[str, float]) -> None:
        """Set all gauges of the agent: others that it had set go."""


class Agent:
    """One agent.

    `open_memory` opens the store of `spark.mooring.metadata`, or of the default place, for the application of this id
    and the checkpoint of its first query. `join_election` takes part in the
    election of the job's driver; it is called before anything else, where the store is one that drivers share. `tell`
    hears of every event of the JVM, and must not block.
    """

    def __init__(
        self,
        bridge: Bridge,
        open_memory: Callable[[Settings, str, str, str], RecordsWriter],
        join_election: Callable[[events.DriverStarting], object] = lambda starting: None,
        tell: Callable[[events.Event], None] = lambda event: None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._bridge = bridge
        self._open_memory = open_memory
        self._take_helm = join_election
        self._tell = tell
        self._now_ms = now_ms
        self._mind = AgentState()
        self._tally = Counters()
        self._application: events.ApplicationStarted | None = None
        self._opened: RecordsWriter | None = None
        self._memory: RecordsWriter | None = None  # the same, from when it was recalled
        self._recalled: Remembered | None = None  # before the first plan
        self._status_at_ms = -math.inf
        self._changed = False
        self._placed: set[str] = set()
        self._drains = DrainWatch(bridge.say, now_ms)

    def run(self) -> None:
        """Go on until the driver is gone (AgentError)."""
        try:
            self._go_on()
        finally:
            self._drains.stop()

    def _go_on(self) -> None:
        self._take_all(self._bridge.hello(), self._absorb)
        self._take(events.ClockTicked(self._now_ms()))
        while True:
            self._take_all(self._bridge.poll(self._patience_ms()), self._take)
            self._recall_late()
            self._read_requests()
            self._see_to_drains()
            self._take(events.ClockTicked(self._now_ms()))
            self._show_status()

    def _patience_ms(self) -> int:
        left = next_deadline_ms(self._mind) - self._now_ms()
        return int(min(max(left, 0), SHORT_POLL_MS if self._drains.is_about_to_hear else LONGEST_POLL_MS))

    def _take_all(self, news: Iterable[events.Event], take: Callable[[events.Event], None]) -> None:
        for event in news:
            if isinstance(event, events.DriverStarting):
                self._take_helm(event)
            if isinstance(event, events.PlanInForce):  # said by an agent before this one
                self._placed |= {query for query, _ in event.wanted}
            if isinstance(event, events.ApplicationStarted):
                self._learn(event)
            if isinstance(event, (events.QueryStarting, events.QueryPlanned)) and self._opened is None:
                self._open(event.checkpoint)
            if isinstance(event, events.QueryPlanned) and self._memory is None:
                self._remember(event)
            self._tally.take(event)
            self._tell(event)
            take(event)
            self._changed = True
            if isinstance(event, events.DrainProgressed):
                self._status_at_ms = -math.inf  # the application may end a moment later

    def _absorb(self, event: events.Event) -> None:
        self._mind = absorb(self._mind, event)

    def _take(self, event: events.Event) -> None:
        before, queries = self._mind.fleet.model, self._mind.fleet.queries
        self._mind, wanted = decide(self._mind, event)
        after = self._mind.fleet.model
        if self._mind.fleet.queries.keys() != queries.keys():
            running = self._mind.fleet.queries
            self._tally.end([query for id, query in queries.items() if id not in running], running)
        if after is not before:
            moved = plan_moves(before, after)
            self._tally.moves += sum(move.source_processor is not None for move in moved.moves)
            if told := describe_moves(self._mind.fleet, moved):
                self._bridge.say(told)
        for order in wanted:
            self._carry_out(order)

    def _learn(self, event: events.ApplicationStarted) -> None:
        self._application = event
        for problem in problems(event):
            self._bridge.say(problem)
        settings = Settings.from_conf(event.settings)
        timing = Timing(
            settings.debounce_ms,
            settings.processor_rebind_timeout_ms,
            settings.host_affinity_wait_ms,
            copy_bytes_a_second=settings.standby_max_bytes_per_second,
        )
        fleet = replace(
            self._mind.fleet,
            timing=timing,
            grouping=self._choose_grouper(settings),
            replication_factor=settings.standby_replication_factor if settings.host_affinity_enabled else 1,
            has_host_affinity=settings.host_affinity_enabled,
            most_receivers=settings.moves_max_concurrent,
        )
        self._mind = replace(
            self._mind,
            fleet=fleet,
            drainage=self._mind.drainage.with_settings(
                self._read_order(settings), settings.drain_timeout_ms, settings.drain_on_start
            ),
        )

    def _choose_grouper(self, settings: Settings) -> GrouperChoice:
        try:
            return choose_grouper(settings.grouper, settings.grouper_weights)
        except InvalidSettingError as fault:
            default = replace(DEFAULT_GROUPER, by_bytes=settings.grouper_weights == "bytes")
            self._bridge.say(f"spark.mooring.{fault}; {default.name} is used instead")
            return default

    def _read_order(self, settings: Settings) -> tuple[tuple[str, ...], ...]:
        try:
            return parse_order(settings.drain_order)
        except InvalidSettingError as fault:
            self._bridge.say(f"spark.mooring.{fault}; queries are drained in the order of their sources and sinks")
            return ()

    def _open(self, checkpoint: str) -> None:
        """Open the store, whose default place is known with the first query, and look whether a drain is asked for."""
        if self._application is None:  # it was told before any query; without it there are no settings
            return
        settings = Settings.from_conf(self._application.settings)
        place = settings.metadata or default_place(self._application, checkpoint)
        self._opened = self._open_memory(settings, place, self._application.application, checkpoint)
        self._drains.begin(self._opened.store, self._application.application, settings.drain_poll_interval_ms / 1000)

    def _remember(self, query: events.QueryPlanned) -> None:
        """Start from what is in the store."""
        if self._application is None or self._opened is None:
            return
        self._memory = self._opened
        settings = Settings.from_conf(self._application.settings)
        recalled = self._recalled or self._memory.recall(settings.host_affinity_wait_ms / 2 / 1000)
        found, self._recalled = recalled or Remembered(), None
        known = absorb(self._mind, query)  # its name is needed to read the JVM's plan by
        word = self._word_that_holds(found)
        start = binding.restore(
            known.fleet, found.model, found.task_locality, self._now_ms(), word, found.word.carriers
        )
        start = replace(start, remembered_bytes=found.state_bytes)
        start = replace(start, stopped_standbys=word.stopped, pinned_standbys=word.pinned).without_wishes_of_the_gone()
        if start.wanted_by_jvm:  # who is not there was lost while no agent was: the JVM has its tasks at their copies
            start = promote_standbys(start, self._mind.published, self._now_ms())
        saved = found.model.version if found.model else -1
        self._mind = replace(
            self._mind,
            fleet=start,
            saved_version=saved,
            saved_locality=start.task_locality,
            saved_overrides=found.word,
            queue=replace(self._mind.queue, resumed=word.under_way, answered_requests=word.done),
        )

    def _recall_late(self) -> None:
        """When the store answers for the first time after the agent went on without it: what runs stays where it is."""
        found = self._memory.recall(0) if self._memory is not None else None
        if found is not None:
            fleet = self._mind.fleet
            version = max(fleet.model.version, found.model.version + 1 if found.model else 0)
            places = {**found.task_locality, **fleet.task_locality}
            model = replace(fleet.model, version=version)
            word = self._word_that_holds(found)
            same = _of_the_same_place(fleet, found.model)
            known = fleet.standby_ids()
            fleet = replace(
                fleet,
                model=model,
                task_locality=places,
                remembered_bytes=found.state_bytes,
                stopped_standbys=word.stopped & same,
                pinned_standbys={id: at for id, at in word.pinned.items() if known.get(id, ("", 0))[0] in same},
                drained=word.drained,
                lending=fleet.lending.with_kept(word.loans),
            ).without_wishes_of_the_gone()
            if fleet.stopped_standbys or fleet.pinned_standbys or fleet.drained:
                fleet = replace(fleet, regroup_at_ms=self._now_ms())
            self._mind = replace(
                self._mind,
                fleet=fleet,
                saved_version=-1,
                saved_locality=found.task_locality,
                saved_overrides=found.word,
                queue=replace(self._mind.queue, resumed=word.under_way, answered_requests=word.done),
            )

    def _word_that_holds(self, found: Remembered) -> OperatorOverrides:
        """What operators said in this application, and what holds of what they said in one before it.

        Of that the drained hosts, and where standbys and spare processors are, so that a restart on the same hosts
        undoes no move; when this driver has taken over from another one also which standbys are stopped. Its executors
        are gone, and so are requests for it. Where an earlier attempt at this application had given a processor another
        executor, or was about to, that is not done again; what else it had begun is taken up anew.
        """
        fleet = self._mind.fleet
        if (found.word.application, found.word.attempt) == (fleet.application, fleet.attempt):
            return found.word
        takes_over = self._memory is not None and self._memory.takes_over
        stopped = found.word.stopped if takes_over else frozenset()
        word = found.word
        labels = (*restart.LABELS, Phase.SWITCHING.label)
        begun = {uuid: OF_ANOTHER_ATTEMPT for uuid, begun in word.under_way.items() if begun.phase in labels}
        done = {**begun, **word.done} if word.application == fleet.application else {}
        return OperatorOverrides(stopped=stopped, spare=word.spare, drained=word.drained, pinned=word.pinned, done=done)

    def _read_requests(self) -> None:
        if self._memory is None:
            return
        messages, as_of_ms = self._memory.messages()
        if messages is not None or self._mind.queue.waits_for_reading(as_of_ms):
            self._take(RequestsRead(self._now_ms(), messages, as_of_ms))

    def _see_to_drains(self) -> None:
        """Hear of those that are asked for, and while there are any look which queries run."""
        for asked in self._drains.taken():
            self._take(asked)
        if self._mind.drainage.is_under_way:
            self._take(QueriesSeen(self._now_ms(), self._bridge.queries()))

    def _carry_out(self, order: orders.Order) -> None:
        match order:
            case orders.OfferPlan():
                self._bridge.offer(order.version)
            case orders.PublishPlan():
                if self._bridge.publish(order):
                    self._tell_placed(order)
                else:
                    self._bridge.say(f"the driver holds a newer plan than version {order.version}")
            case orders.LogLine():
                self._bridge.say(order.message)
            case orders.SaveJobModel() if self._memory is not None:
                self._memory.save_job_model(order.model)
            case orders.SaveBarrier() if self._memory is not None:
                self._memory.save_barrier(order.version, order.state)
            case orders.SaveTaskLocality() if self._memory is not None:
                self._memory.save_task_locality(order.changed)
            case SaveOverrides() if self._memory is not None:
                self._memory.save_word(order.word)
            case orders.RestartExecutor():
                self._bridge.restart(order.request, order.executor, order.wait_ms)
            case AnnounceDrains():
                self._bridge.announce_drains(order.queries)
            case OweDrains():
                self._bridge.owe_drains(order.after)
            case EndQuery():
                self._bridge.end_query(order.query, order.how, order.zero_input)
            case RemoveNotifications() if self._opened is not None:
                self._opened.remove_notifications(order.uuids)
            case Answer() if self._memory is not None:
                self._memory.answer(order.response)
            case RemoveMessages() if self._memory is not None:
                self._memory.remove_messages(order.uuid, order.response_too)
        self._changed = True

    def _tell_placed(self, plan: orders.PublishPlan) -> None:
        """LogLine of each query once that it is placed."""
        for query in plan.rows.keys() - self._placed:
            label = self._mind.fleet.queries[query].label if query in self._mind.fleet.queries else query
            self._bridge.inform(plan_is_in_force(label, plan.version, plan.rows, query))
        self._placed |= plan.rows.keys()

    def _show_status(self) -> None:
        now = self._now_ms()
        age = now - self._status_at_ms
        is_due = age >= (STATUS_EVERY_MS if self._changed else STATUS_AT_LEAST_EVERY_MS)
        memory = self._memory
        if memory is None and self._opened is not None and self._mind.drainage.heard:  # drained before any batch
            memory, self._recalled = self._opened, self._recalled or self._opened.recall(0)
        if is_due and memory is not None:
            memory.save_status(
                status_of(
                    self._mind.fleet,
                    self._tally,
                    now,
                    self._mind.plan_barrier,
                    self._mind.queue,
                    self._mind.drainage,
                    self._application,
                )
            )
            self._bridge.metrics(metrics_of(self._mind.fleet, self._tally, self._mind.queue, self._mind.drainage))
            self._status_at_ms, self._changed = now, False


def _of_the_same_place(fleet: Fleet, model: JobModel | None) -> frozenset[str]:
    """The processors of which what was said earlier holds, when they were numbered anew without knowing of that."""
    if model is None:  # nobody had any
        return frozenset(fleet.processors)
    there = {id: container.location_id for id, container in model.containers.items()}
    return frozenset(id for id, one in fleet.processors.items() if one.location == there.get(id))


def default_place(application: events.ApplicationStarted, checkpoint: str) -> str:
    """Where the metadata is when no setting says so: beside the session's checkpoints, or the first query's."""
    if application.checkpoint_location:
        return application.checkpoint_location.rstrip("/") + "/_mooring"
    parent = checkpoint.rstrip("/").rpartition("/")[0]
    name = (
        "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in application.name) or "application"
    )
    return f"{parent}/_mooring/{name}"
