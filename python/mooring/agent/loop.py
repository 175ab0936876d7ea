"""The agent's loop: it hands the events of the JVM to the core, and carries out the orders of the core.

One thread. It ends when the driver closes the agent's standard input, or does not answer. A driver that still runs
starts another agent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Protocol

from mooring.agent.agent_state import AgentState
from mooring.agent.core import absorb, decide, next_deadline_ms
from mooring.agent.counters import Counters
from mooring.agent.drains.events_and_orders import (
    EndQuery,
    NoteDrains,
    QueriesSeen,
    RemoveNotifications,
    RequestDrains,
)
from mooring.agent.drains.watch import DrainWatch
from mooring.agent.messages.first_lines import plan_is_in_force
from mooring.agent.messages.start_check import problems
from mooring.agent.planning.move_messages import describe_moves
from mooring.agent.records_writer import RecordsWriter
from mooring.agent.recovery import recovered, recovered_late
from mooring.agent.requests.inbox import RequestsRead
from mooring.agent.requests.orders import Answer, RemoveMessages
from mooring.agent.state.fleet_parts import PlacementSettings, Timing
from mooring.agent.status import metrics_of, status_of
from mooring.drain import RunningQuery, parse_order
from mooring.errors import InvalidSettingError
from mooring.grouping import DEFAULT_GROUPER, GrouperChoice, choose_grouper, plan_moves
from mooring.model import events, orders
from mooring.records.operator_overrides import SaveOverrides
from mooring.records.records import Remembered
from mooring.settings import Settings

LONGEST_POLL_MS = 1_000
SHORT_POLL_MS = 20
STATUS_EVERY_MS = 1_000
STATUS_AT_LEAST_EVERY_MS = 10_000
"""The status is written this often even if nothing has changed: its age tells a quiet application from an ended one."""


class Bridge(Protocol):
    """What the loop needs of the JVM; `mooring.spark.bridge.JvmBridge` is the real one."""

    def hello(self) -> list[events.Event]:
        """Everything that is true now."""

    def poll_events(self, timeout_ms: int) -> list[events.Event]:
        """The events since the last call. It waits at most so long for the first one."""

    def announce(self, version: int) -> None:
        """Announce a version to the executors, which take it up."""

    def publish(self, plan: orders.PublishPlan) -> bool:
        """Put a plan in force. False when the JVM has a newer plan."""

    def restart(self, request: str, executor: str, wait_ms: int) -> None:
        """End an executor at a moment when no task runs on it, within `wait_ms`. One request ends one executor."""

    def forget_restart(self, request: str) -> None:
        """Forget the restart for a request whose answer is in the store: later agents do not hear of it."""

    def want_hosts(self, wanted: orders.WantHosts) -> None:
        """Have the cluster manager asked for executors on these hosts, one for each entry."""

    def request_drains(self, queries: tuple[str | None, ...]) -> None:
        """Name the queries that clients have asked to drain, by name or id. None stands for every query."""

    def note_drains(self, after: Mapping[str, frozenset[str]]) -> None:
        """Note in the checkpoints of queries that they are to be drained, each after the queries of its set, by id."""

    def end(self, query: str, how: str, zero_input: bool) -> None:
        """Drain a query (`how` is DRAIN) or stop it (`how` is a StopMode's value). A repeated call does nothing."""

    def queries(self) -> tuple[RunningQuery, ...]:
        """The queries that run now, with or without state."""

    def warn(self, message: str) -> None:
        """Write a warning into the driver's log."""

    def info(self, message: str) -> None:
        """Write a line at level INFO into the driver's log."""

    def metrics(self, values: dict[str, float]) -> None:
        """Replace all gauges of the agent by these."""


class Agent:
    """One agent of one driver.

    `open_records` opens the metadata store. It gets the settings, the address of the store, the application's id, and
    the checkpoint of its first query. `join_election` makes the driver a candidate of its job's election. It is called
    first of all, and only where drivers share the store. `on_event` gets every event of the JVM and must not block.
    """

    def __init__(
        self,
        bridge: Bridge,
        open_records: Callable[[Settings, str, str, str], RecordsWriter],
        join_election: Callable[[events.DriverStarting], object] = lambda starting: None,
        on_event: Callable[[events.Event], None] = lambda event: None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._bridge = bridge
        self._open_records = open_records
        self._join_election = join_election
        self._on_event = on_event
        self._now_ms = now_ms
        self._state = AgentState()
        self._counters = Counters()
        self._application: events.ApplicationStarted | None = None
        self._opened: RecordsWriter | None = None
        self._records: RecordsWriter | None = None
        """`_opened`, once a query was planned; None before."""
        self._read_early: Remembered | None = None
        """Records that were read for the status of a drain, before the first query was planned."""
        self._status_at_ms = -math.inf
        self._has_changed = False
        self._placed_queries: set[str] = set()
        self._planned_at_start: list[events.QueryPlanned] = []
        """The queries that ran when this agent started."""
        self._drains = DrainWatch(bridge.warn, now_ms)

    def run(self) -> None:
        """Run until the driver does not answer, which raises AgentError."""
        try:
            self._loop()
        finally:
            self._drains.stop()

    def _loop(self) -> None:
        hello = self._bridge.hello()
        self._planned_at_start = [event for event in hello if isinstance(event, events.QueryPlanned)]
        self._handle_all(hello, self._absorb)
        self._decide(events.ClockTicked(self._now_ms()))
        while True:
            self._handle_all(self._bridge.poll_events(self._poll_timeout_ms()), self._decide)
            self._recover_late()
            self._read_requests()
            self._follow_drains()
            self._decide(events.ClockTicked(self._now_ms()))
            self._write_status()

    def _poll_timeout_ms(self) -> int:
        left_ms = next_deadline_ms(self._state) - self._now_ms()
        return int(min(max(left_ms, 0), SHORT_POLL_MS if self._drains.is_first_look_near else LONGEST_POLL_MS))

    def _handle_all(self, new_events: Iterable[events.Event], update_state: Callable[[events.Event], None]) -> None:
        for event in new_events:
            self._prepare(event)
            self._counters.count(event)
            self._on_event(event)
            update_state(event)
            self._has_changed = True
            if isinstance(event, (events.DrainProgressed, events.QueryEnded)):
                self._status_at_ms = -math.inf  # write the status now: the application may end a moment later

    def _prepare(self, event: events.Event) -> None:
        """Do what must be done before the core gets the event."""
        match event:
            case events.DriverStarting():
                self._join_election(event)
            case events.PlanInForce():
                self._placed_queries |= event.rows.keys()
            case events.ApplicationStarted():
                self._apply_settings(event)
            case events.QueryStarting():
                self._open(event.checkpoint)
            case events.QueryPlanned():
                self._open(event.checkpoint)
                self._recover(event)

    def _absorb(self, event: events.Event) -> None:
        self._state = absorb(self._state, event)

    def _decide(self, event: events.Event) -> None:
        before = self._state.fleet
        self._state, new_orders = decide(self._state, event)
        fleet = self._state.fleet
        if fleet.queries.keys() != before.queries.keys():
            ended = [query for id, query in before.queries.items() if id not in fleet.queries]
            self._counters.end(ended, fleet.queries)
        causes = list(takewhile(lambda order: isinstance(order, orders.LogLine), new_orders))
        for order in causes:  # such as the line about a lost executor: before the line about the moves that result
            self._carry_out(order)
        if fleet.model is not before.model:
            moved = plan_moves(before.model, fleet.model)
            self._counters.moves += sum(move.source_processor is not None for move in moved.moves)
            if line := describe_moves(fleet, moved):
                self._bridge.warn(line)
        for order in new_orders[len(causes) :]:
            self._carry_out(order)

    def _apply_settings(self, event: events.ApplicationStarted) -> None:
        self._application = event
        for problem in problems(event):
            self._bridge.warn(problem)
        settings = Settings.from_conf(event.settings)
        timing = Timing(
            settings.debounce_ms,
            settings.processor_rebind_timeout_ms,
            settings.host_affinity_wait_ms,
            copy_bytes_a_second=settings.standby_max_bytes_per_second,
        )
        fleet = replace(
            self._state.fleet,
            timing=timing,
            settings=PlacementSettings(
                self._choose_grouper(settings),
                settings.standby_replication_factor if settings.host_affinity_enabled else 1,
                has_host_affinity=settings.host_affinity_enabled,
                most_receivers=settings.moves_max_concurrent,
                asks_for_hosts=settings.host_affinity_enabled and settings.executor_allocation_enabled,
                location_provider=settings.location_provider,
            ),
        )
        drainage = self._state.drainage.with_settings(
            self._parse_drain_order(settings), settings.drain_timeout_ms, settings.drain_on_start
        )
        self._state = replace(self._state, fleet=fleet, drainage=drainage)

    def _choose_grouper(self, settings: Settings) -> GrouperChoice:
        try:
            return choose_grouper(settings.grouper, settings.grouper_weights)
        except InvalidSettingError as fault:
            default = replace(DEFAULT_GROUPER, by_bytes=settings.grouper_weights == "bytes")
            self._bridge.warn(f"spark.mooring.{fault}; {default.name} is used instead")
            return default

    def _parse_drain_order(self, settings: Settings) -> tuple[tuple[str, ...], ...]:
        try:
            return parse_order(settings.drain_order)
        except InvalidSettingError as fault:
            self._bridge.warn(f"spark.mooring.{fault}; queries are drained in the order of their sources and sinks")
            return ()

    def _open(self, checkpoint: str) -> None:
        """Open the store once, and start to watch it for drain notifications.

        The store's default address depends on the checkpoint of the first query.
        """
        if self._opened is not None or self._application is None:
            return
        settings = Settings.from_conf(self._application.settings)
        place = settings.metadata or default_place(self._application, checkpoint)
        self._opened = self._open_records(settings, place, self._application.application, checkpoint)
        self._drains.begin(self._opened.store, self._application.application, settings.drain_poll_interval_ms / 1000)

    def _recover(self, query: events.QueryPlanned) -> None:
        """Start from the records in the store, once: the first query to be planned waits a moment for them.

        All queries that ran at the start must be known: the plan of the JVM has their tasks.
        """
        if self._records is not None or self._application is None or self._opened is None:
            return
        self._records = self._opened
        settings = Settings.from_conf(self._application.settings)
        found = self._read_early or self._records.recall(settings.host_affinity_wait_ms / 2 / 1000)
        self._read_early = None
        known = self._state
        for planned in (*self._planned_at_start, query):
            known = absorb(known, planned)
        self._state = recovered(known, found or Remembered(), self._now_ms(), self._records.follows_another_driver)

    def _recover_late(self) -> None:
        """Use the records that the store did not give in time for `_recover`."""
        if self._records is None:
            return
        found = self._records.recall(0)
        if found is not None:
            self._state = recovered_late(self._state, found, self._now_ms(), self._records.follows_another_driver)

    def _read_requests(self) -> None:
        if self._records is None:
            return
        messages, as_of_ms = self._records.messages()
        if messages is not None or self._state.queue.waits_for_reading(as_of_ms):
            self._decide(RequestsRead(self._now_ms(), messages, as_of_ms))

    def _follow_drains(self) -> None:
        """Hand over new drain notifications. While a drain is under way, also look which queries run."""
        for asked in self._drains.new_events():
            self._decide(asked)
        if self._state.drainage.is_under_way:
            self._decide(QueriesSeen(self._now_ms(), self._bridge.queries()))

    def _carry_out(self, order: orders.Order) -> None:
        match order:
            case orders.AnnounceVersion():
                self._bridge.announce(order.version)
            case orders.PublishPlan():
                if self._bridge.publish(order):
                    self._log_first_plans(order)
                else:
                    self._bridge.warn(f"the driver holds a newer plan than version {order.version}")
            case orders.LogLine():
                (self._bridge.warn if order.is_warning else self._bridge.info)(order.message)
            case orders.SaveJobModel() if self._records is not None:
                self._records.save_job_model(order.model)
            case orders.SaveBarrier() if self._records is not None:
                self._records.save_barrier(order.version, order.state)
            case orders.SaveTaskLocality() if self._records is not None:
                self._records.save_task_locality(order.changed)
            case SaveOverrides() if self._records is not None:
                self._records.save_overrides(order.overrides)
            case orders.RestartExecutor():
                self._bridge.restart(order.request, order.executor, order.wait_ms)
            case orders.ForgetRestart():
                self._bridge.forget_restart(order.request)
            case orders.WantHosts():
                self._bridge.want_hosts(order)
            case RequestDrains():
                self._bridge.request_drains(order.queries)
            case NoteDrains():
                self._bridge.note_drains(order.after)
            case EndQuery():
                self._bridge.end(order.query, order.how, order.zero_input)
            case RemoveNotifications() if self._opened is not None:
                self._opened.remove_notifications(order.uuids)
            case Answer() if self._records is not None:
                self._records.answer(order.response)
            case RemoveMessages() if self._records is not None:
                self._records.remove_messages(order.uuid, order.response_too)
        self._has_changed = True

    def _log_first_plans(self, plan: orders.PublishPlan) -> None:
        """One line for each query that has its first plan."""
        queries = self._state.fleet.queries
        for query in plan.rows.keys() - self._placed_queries:
            label = queries[query].label if query in queries else query
            self._bridge.info(plan_is_in_force(label, plan.version, plan.rows, query))
        self._placed_queries |= plan.rows.keys()

    def _write_status(self) -> None:
        """Write the status and set the gauges when that is due.

        A query may be drained before any query was planned: its drain is shown as well, and the records are read first.
        """
        now_ms = self._now_ms()
        age_ms = now_ms - self._status_at_ms
        is_due = age_ms >= (STATUS_EVERY_MS if self._has_changed else STATUS_AT_LEAST_EVERY_MS)
        records, state = self._records, self._state
        if records is None and self._opened is not None and state.drainage.progress:
            records, self._read_early = self._opened, self._read_early or self._opened.recall(0)
        if is_due and records is not None:
            records.save_status(
                status_of(
                    state.fleet,
                    self._counters,
                    now_ms,
                    state.plan_barrier,
                    state.queue,
                    state.drainage,
                    self._application,
                )
            )
            self._bridge.metrics(metrics_of(state.fleet, self._counters, state.queue, state.drainage))
            self._status_at_ms, self._has_changed = now_ms, False


def default_place(application: events.ApplicationStarted, checkpoint: str) -> str:
    """The address of the store where no setting names one.

    Beside the session's checkpoints, else in the parent directory of the first query's checkpoint.
    """
    if application.checkpoint_location:
        return application.checkpoint_location.rstrip("/") + "/_mooring"
    parent = checkpoint.rstrip("/").rpartition("/")[0]
    safe_name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in application.name)
    return f"{parent}/_mooring/{safe_name or 'application'}"
