"""Changes the state after an event. Pure.

This also does what can not wait: it binds processors to executors, does the failover, and asks for a regrouping. It
returns no orders.

A new agent absorbs the first events of the driver without `decide`: they may be about what happened long ago.
"""

from __future__ import annotations

from dataclasses import replace

from mooring.agent.agent_state import AgentState
from mooring.agent.drains.advance import advanced as drains_advanced
from mooring.agent.drains.advance import is_about_drains
from mooring.agent.planning.accepted_job_model import without_ended_queries
from mooring.agent.planning.binding import ask_for_regrouping, bind, keep_executor, unbind
from mooring.agent.planning.copies import with_seen_copies, without_gone_copies
from mooring.agent.planning.failover import with_failover, with_failovers_counted
from mooring.agent.planning.lending import lending_after
from mooring.agent.planning.moves_in_steps import is_settled
from mooring.agent.regrouping import with_step_settled
from mooring.agent.state.barrier import PlanBarrier
from mooring.agent.state.fleet import Executor, Fleet, Query
from mooring.agent.state.fleet_parts import Application
from mooring.model import events
from mooring.model.orders import Rows


def absorb(state: AgentState, event: events.Event) -> AgentState:
    """The state after an event. After the loss of an executor the failover is done."""
    if is_about_drains(event):
        return replace(state, drainage=drains_advanced(state.drainage, event)[0])
    if isinstance(event, events.StateMeasured):
        return replace(state, fleet=state.fleet.with_measure(event.store, event.state_bytes))
    state = replace(
        state,
        fleet=_fleet_after(state.fleet, event, state.rows_in_jvm),
        plan_barrier=_plan_barrier_after(state.plan_barrier, event),
    )
    if isinstance(event, events.PlanInForce) and event.rows:
        state = replace(state, version_in_force=event.version)
    return state


def _plan_barrier_after(plan_barrier: PlanBarrier, event: events.Event) -> PlanBarrier:
    match event:
        case events.PlanPickedUp():
            return plan_barrier.with_taken_up(event.executor, event.version)
        case events.ExecutorLost():
            return plan_barrier.without(event.executor)
        case _:
            return plan_barrier


def _fleet_after(fleet: Fleet, event: events.Event, rows_in_jvm: Rows) -> Fleet:
    """The fleet after an event; `rows_in_jvm` are the rows that the JVM holds."""
    match event:
        case events.ApplicationStarted():
            application = Application(event.application, event.attempt, event.locality_wait_ms, event.master)
            allocation = replace(fleet.allocation, executors=event.executors, hosts_asked=event.hosts_asked)
            return replace(fleet, application=application, allocation=allocation).with_first_hosts_noted()
        case events.PlanInForce():
            version = max(fleet.model.version, event.version, event.announced)
            return replace(fleet, rows_at_start=event.rows, model=replace(fleet.model, version=version))
        case events.ExecutorRegistered():
            return _with_registered(fleet, event)
        case events.ExecutorLost():
            return _without_lost(fleet, event, rows_in_jvm)
        case events.TasksWithheld():
            return replace(fleet, withheld=event.executors)
        case events.StoreOpened():
            return fleet.with_opening(event)
        case events.ExecutorRestarting():
            return _with_restart(fleet, event)
        case events.RestartGivenUp():
            return keep_executor(fleet, event.request, event.executor, event.at_ms)
        case events.QueryPlanned():
            return fleet.with_query(_planned_query(fleet, event))
        case events.QueryEnded():
            return _without_ended_run(fleet, event)
        case events.BatchBegan():
            return _with_batch_begun(fleet, event)
        case events.QueryIdle():
            return _with_idle_query(fleet, event)
        case events.BatchEnded():
            return _with_batch_ended(fleet, event)
        case events.CopiesSeen():
            return _with_copies_seen(fleet, event)
        case _:  # the time, and events that only the status shows
            return fleet


def _with_registered(fleet: Fleet, event: events.ExecutorRegistered) -> Fleet:
    executor = Executor(event.executor, event.location, event.cores, event.zone, event.host)
    known = fleet.with_executor(executor)
    if any(processor.executor == executor.id for processor in fleet.processors.values()):
        before = fleet.executors.get(executor.id)
        is_in_another_zone = (
            fleet.settings.replication_factor > 1 and before is not None and before.zone != executor.zone
        )
        return ask_for_regrouping(known, event.at_ms) if is_in_another_zone else known
    return bind(known, executor, event.at_ms)


def _without_lost(fleet: Fleet, event: events.ExecutorLost, rows_in_jvm: Rows) -> Fleet:
    remaining = {id: executor for id, executor in fleet.executors.items() if id != event.executor}
    known = replace(fleet, executors=remaining, lending=fleet.lending.without_executor(event.executor))
    unbound = unbind(known, event.executor, event.at_ms)
    after = with_failover(unbound, rows_in_jvm, event.at_ms)
    return without_gone_copies(with_failovers_counted(fleet, after, event.executor))


def _with_restart(fleet: Fleet, event: events.ExecutorRestarting) -> Fleet:
    restarts = {**fleet.ongoing.restarts, event.request: event.executor}
    return replace(fleet, ongoing=replace(fleet.ongoing, restarts=restarts))


def _with_copies_seen(fleet: Fleet, event: events.CopiesSeen) -> Fleet:
    """The fleet with the state of the copies. When moves wait for warm copies, a job model is due at once."""
    seen = with_seen_copies(fleet, event)
    is_awaited = seen.timers.even_out_by_ms is not None and seen.timers.regroup_at_ms is None
    return replace(seen, timers=replace(seen.timers, regroup_at_ms=event.at_ms)) if is_awaited else seen


def _planned_query(fleet: Fleet, event: events.QueryPlanned) -> Query:
    return Query(
        id=event.query,
        run=event.run,
        name=event.name,
        label=_label(fleet, event),
        checkpoint=event.checkpoint,
        partitions=event.partitions if fleet.settings.has_host_affinity else {},
        planned_at_ms=event.at_ms,
        batch=event.batch - 1,
        has_rocksdb=event.provider == events.OUR_PROVIDER,
    )


def _label(fleet: Fleet, event: events.QueryPlanned) -> str:
    """The query's name, else the start of its id. The second query of one name has the start of its id added."""
    label = event.name or event.query[:8]
    taken = any(query.label == label and query.id != event.query for query in fleet.queries.values())
    return f"{label}-{event.query[:8]}" if taken else label


def _without_ended_run(fleet: Fleet, event: events.QueryEnded) -> Fleet:
    query = fleet.queries.get(event.query)
    if query is None or query.run != event.run:  # a newer run of the query has started already
        return fleet
    remaining = {id: running for id, running in fleet.queries.items() if id != event.query}
    known = replace(fleet, queries=remaining, lending=fleet.lending.without_query(event.query))
    return without_gone_copies(without_ended_queries(known))


def _with_batch_begun(fleet: Fleet, event: events.BatchBegan) -> Fleet:
    query = fleet.queries.get(event.query)
    return (
        fleet if query is None else fleet.with_query(replace(query, newest_batch=event.batch, began_at_ms=event.at_ms))
    )


def _with_idle_query(fleet: Fleet, event: events.QueryIdle) -> Fleet:
    query = fleet.queries.get(event.query)
    return fleet if query is None else fleet.with_query(replace(query, newest_batch=query.batch))


def _with_batch_ended(fleet: Fleet, event: events.BatchEnded) -> Fleet:
    query = fleet.queries.get(event.query)
    if query is None:
        return fleet
    fleet = replace(fleet, lending=lending_after(fleet, event))
    seen: dict[str, str] = {
        query.task_name(partition): fleet.executors[executor].location
        for partition, executor in event.placements.items()
        if executor in fleet.executors
    }
    moved = {task: location for task, location in seen.items() if fleet.task_locality.get(task) != location}
    if moved:
        fleet = replace(fleet, task_locality={**fleet.task_locality, **moved})
    fleet = fleet.with_query(
        replace(
            query,
            batch=event.batch,
            batch_ms=event.milliseconds,
            state_bytes=event.state_bytes,
            ran_on=event.placements,
            not_placed=event.not_placed,
            ran_at_ms=event.at_ms,
        )
    )
    return (
        with_step_settled(fleet, event.at_ms)
        if fleet.timers.new_batches_ignored_after_ms is not None and is_settled(fleet)
        else fleet
    )
