"""What the JVM and the metadata store must get after a decision. Pure: only differences become orders."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from mooring.agent.agent_state import AgentState
from mooring.agent.planning.copies import wanted_copies
from mooring.agent.planning.rows import plan_rows
from mooring.agent.planning.wanted_hosts import avoided_hosts, nodes_of_executors, wanted_hosts
from mooring.coordination.barrier import BarrierState
from mooring.model import natural_order
from mooring.model.orders import (
    AnnounceVersion,
    LogLine,
    Order,
    PublishPlan,
    SaveBarrier,
    SaveJobModel,
    SaveTaskLocality,
    WantHosts,
)
from mooring.records.operator_overrides import OperatorOverrides, SaveOverrides

_FIRST_PLAN_BARRIER_SHARE: Final = 0.15
"""The part of `first_plan_wait_ms` that a barrier may take while a query waits for its first plan. It is small, as a
barrier that times out is followed by another one, and the plan is made late already (`FIRST_PLAN_SHARE`)."""


def with_plan_published(state: AgentState, now_ms: int) -> tuple[AgentState, list[Order]]:
    """The orders that publish a changed plan and save the job model and the task locations, and the state after them.

    A plan that waits at the barrier is not published yet.
    """
    state, orders = _through_the_barrier(state, now_ms)
    fleet = state.fleet
    if fleet.model.version != state.saved_version and fleet.model.containers:
        orders = [*orders, SaveJobModel(fleet.model)]
        state = replace(state, saved_version=fleet.model.version)
    if fleet.task_locality is not state.saved_locality:
        changed = {
            task: location
            for task, location in fleet.task_locality.items()
            if state.saved_locality.get(task) != location
        }
        if changed:
            orders = [*orders, SaveTaskLocality(changed)]
        state = replace(state, saved_locality=fleet.task_locality)
    return state, orders


def with_hosts_wanted(state: AgentState) -> tuple[AgentState, list[Order]]:
    """The state after the wanted hosts are given to the JVM, and the order for it, if they differ from the last ones.

    Before a plan is in force, and after the last query has ended, the wanted hosts stay as they are.
    """
    fleet = state.fleet
    may_choose_hosts = fleet.settings.asks_for_hosts and not fleet.application.restarts_in_place
    if not may_choose_hosts or not fleet.queries or not state.rows_in_jvm:
        return state, []
    wanted = WantHosts(wanted_hosts(fleet), nodes_of_executors(fleet), avoided_hosts(fleet))
    if not wanted.hosts or wanted == state.hosts_wanted:
        return state, []
    return replace(state, hosts_wanted=wanted), [wanted]


def with_overrides_saved(state: AgentState) -> tuple[AgentState, list[Order]]:
    """The state after the overrides are saved, and the order for it, if they differ from those saved last."""
    overrides = _overrides_of(state)
    if overrides == state.saved_overrides or not (overrides.is_set or state.saved_overrides.is_set):
        return state, []
    return replace(state, saved_overrides=overrides), [SaveOverrides(overrides)]


def barrier_timeout_ms(state: AgentState) -> int:
    """How long a new version waits for executors, in milliseconds.

    It is short while a query waits for its first plan: that plan must come before the JVM stops waiting for it.
    """
    timing = state.fleet.timing
    if all(query in state.rows_in_jvm for query in state.fleet.queries):
        return timing.barrier_timeout_ms
    return min(timing.barrier_timeout_ms, int(_FIRST_PLAN_BARRIER_SHARE * timing.first_plan_wait_ms))


def _through_the_barrier(state: AgentState, now_ms: int) -> tuple[AgentState, list[Order]]:
    """Publish a changed plan: at once if the job model's version is in force, else when that version's barrier is DONE.

    The first plan of an application has a barrier too. When executors do not take a version up in time, the next
    version is announced to the others.
    """
    fleet, plan_barrier = state.fleet, state.plan_barrier
    version = fleet.model.version
    if version == state.version_in_force or not fleet.model.containers or _has_no_plan_yet(state):
        return _published(state)
    orders: list[Order] = []
    if plan_barrier.barrier is None or plan_barrier.barrier.version != version:
        if plan_barrier.barrier and plan_barrier.is_new:  # a version that was never in force is replaced
            orders.append(SaveBarrier(plan_barrier.barrier.version, BarrierState.TIMED_OUT.value))
        plan_barrier = plan_barrier.opened(version, fleet.executors, now_ms)
        orders += [AnnounceVersion(version), SaveBarrier(version, BarrierState.NEW.value)]
    plan_barrier = plan_barrier.checked(fleet.executors, now_ms, barrier_timeout_ms(state))
    state = replace(state, plan_barrier=plan_barrier)
    if plan_barrier.is_new or plan_barrier.barrier is None:
        return state, orders
    orders.append(SaveBarrier(version, plan_barrier.barrier.state.value))
    if plan_barrier.barrier.state is BarrierState.DONE:
        state, published = _published(replace(state, version_in_force=version))
        return state, [*orders, *published]
    late = ", ".join(sorted(plan_barrier.late & fleet.executors.keys(), key=natural_order))
    message = f"executors {late} did not take up placement version {version}: {version + 1} goes on without them"
    state = replace(state, fleet=replace(fleet, model=replace(fleet.model, version=version + 1)))
    state, later = _through_the_barrier(state, now_ms)
    return state, [*orders, LogLine(message), *later]


def _has_no_plan_yet(state: AgentState) -> bool:
    """Whether the JVM has no plan, and there is no task to place. Then no version needs a barrier."""
    return state.version_in_force < 0 and not plan_rows(state.fleet, state.rows_in_jvm)


def _published(state: AgentState) -> tuple[AgentState, list[Order]]:
    """The state after the plan is published, and the order for it, if the plan differs from the JVM's."""
    rows = plan_rows(state.fleet, state.rows_in_jvm)
    copies = wanted_copies(state.fleet, rows)
    if rows == state.published and copies == state.published_copies:
        return state, []
    publish = PublishPlan(state.fleet.model.version, rows, copies)
    fleet = replace(state.fleet, rows_at_start={})
    return replace(state, fleet=fleet, published=rows, published_copies=copies), [publish]


def _overrides_of(state: AgentState) -> OperatorOverrides:
    """The requests of operators and their effects, as a later agent must know them.

    `carriers` has the processors that share an executor, with that executor. Without host affinity it has all
    processors, as tasks have no location then.
    """
    fleet, queue = state.fleet, state.queue
    last_executors = {id: processor.last_executor for id, processor in fleet.processors.items()}
    carriers = {id: executor for id, executor in last_executors.items() if executor}
    processors_of = Counter(carriers.values())
    not_yet_resumed = {
        uuid: saved for uuid, saved in queue.saved_progress.items() if uuid not in queue.answered_requests
    }
    under_way = {str(action.request.uuid): action.progress_to_save for action in queue.actions if action.is_under_way}
    return OperatorOverrides(
        application=fleet.application.id,
        stopped=fleet.overrides.stopped_standbys,
        spare=frozenset(id for id, processor in fleet.processors.items() if processor.is_spare),
        carriers={
            id: executor
            for id, executor in carriers.items()
            if processors_of[executor] > 1 or not fleet.settings.has_host_affinity
        },
        saved_progress=not_yet_resumed | under_way,
        done=queue.answered_requests,
        drained=fleet.overrides.drained,
        pinned=fleet.overrides.pinned_standbys,
        attempt=fleet.application.attempt,
        loans=fleet.lending.loans_to_save,
    )
