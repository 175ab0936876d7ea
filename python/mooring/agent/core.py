"""Every decision of the agent: from what is known and one event to what is known then and what is to be done.

Pure. `decide` lets the event change the fleet, lets time do its work (a processor given up, a regrouping due), and
compares what would be published now with what was: only differences become orders.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from mooring.agent.agent_state import AgentState
from mooring.agent.drains.drainage import advanced as drains_advanced
from mooring.agent.drains.drainage import is_about_drains
from mooring.agent.planning.binding import (
    ask_for_regrouping,
    bind,
    drop_expired,
    keep_executor,
    rebind_deadline_ms,
    unbind,
)
from mooring.agent.planning.copies import wanted_copies, with_seen_copies, without_gone_copies
from mooring.agent.planning.failover import promote_standbys, with_failovers_counted
from mooring.agent.planning.lending import describe_loan_changes, lending_after
from mooring.agent.planning.next_job_model import regrouped
from mooring.agent.planning.plan_in_force import without_ended_queries, without_regrouping
from mooring.agent.planning.rows import plan_rows
from mooring.agent.planning.staged_moves import is_settled, is_waiting_for_batches
from mooring.agent.requests.inbox import handle
from mooring.agent.requests.orders import Answer, RemoveMessages
from mooring.agent.requests.phase import View
from mooring.agent.requests.restart import waited_for
from mooring.agent.requests.run import advanced, may_advance
from mooring.agent.state.barrier import PlanBarrier
from mooring.agent.state.fleet import Executor, Fleet, Query
from mooring.coordination.barrier import BarrierState
from mooring.errors import InvalidGroupingError
from mooring.model import events, natural_order
from mooring.model.orders import (
    LogLine,
    OfferPlan,
    Order,
    PublishPlan,
    Rows,
    SaveBarrier,
    SaveJobModel,
    SaveTaskLocality,
)
from mooring.records.operator_overrides import OperatorOverrides, SaveOverrides


def decide(state: AgentState, event: events.Event) -> tuple[AgentState, list[Order]]:
    """Take one event in.

    The orders are to be carried out in their order.
    """
    if is_about_drains(event):
        drainage, told = drains_advanced(state.drainage, event)
        return replace(state, drainage=drainage), told
    before = state.fleet
    state = absorb(state, event)
    if _is_no_reason_for_a_plan(state.fleet, event):
        return state, []
    fleet = drop_expired(state.fleet, event.at_ms, waited_for(state.queue))
    fleet, orders = _regroup_when_due(fleet, event.at_ms)
    orders = [*orders, *(LogLine(line) for line in describe_loan_changes(before, fleet))]
    queue, answers = handle(state.queue, fleet, event)
    queue, fleet, steps = advanced(queue, fleet, _view(state, event.at_ms))
    state, orders = _difference(replace(state, fleet=fleet), [*orders, *answers, *steps], event.at_ms)
    queue, fleet, endings = advanced(queue, state.fleet, _view(state, event.at_ms), may_plan=False)
    state, orders = _difference(replace(state, fleet=fleet, queue=queue), orders, event.at_ms)
    state = replace(state, fleet=_with_drained_hosts_emptied(before, state.fleet, event.at_ms))
    state, kept = _overrides_saved(state)
    answers = [order for order in orders if isinstance(order, (Answer, RemoveMessages))]
    others = [order for order in orders if not isinstance(order, (Answer, RemoveMessages))]
    return state, [*others, *kept, *answers, *endings]


def _view(state: AgentState, now_ms: int) -> View:
    return View(now_ms, state.version_in_force, state.published_copies, state.published)


def _overrides_saved(state: AgentState) -> tuple[AgentState, list[Order]]:
    """What operators have said, to be kept when it is anything new: before they are told that it is done."""
    fleet = state.fleet
    carriers = {id: one.last_executor for id, one in fleet.processors.items() if one.last_executor}
    times = Counter(carriers.values())
    overrides = OperatorOverrides(
        application=fleet.application,
        stopped=fleet.stopped_standbys,
        spare=frozenset(id for id, processor in fleet.processors.items() if processor.is_spare),
        carriers={id: one for id, one in carriers.items() if times[one] > 1 or not fleet.has_host_affinity},
        under_way={
            uuid: begun for uuid, begun in state.queue.resumed.items() if uuid not in state.queue.answered_requests
        }  # also of requests that this agent has not read yet, or not begun again
        | {str(action.request.uuid): action.as_begun for action in state.queue.actions if action.is_under_way},
        done=state.queue.answered_requests,
        drained=fleet.drained,
        pinned=fleet.pinned_standbys,
        attempt=fleet.attempt,
        loans=fleet.lending.kept,
    )
    if overrides == state.saved_overrides or not (overrides.is_set or state.saved_overrides.is_set):
        return state, []
    return replace(state, saved_overrides=overrides), [SaveOverrides(overrides)]


def absorb(state: AgentState, event: events.Event) -> AgentState:
    """Know of an event without deciding anything: for what a new agent is told first, which may be long ago."""
    if is_about_drains(event):
        return replace(state, drainage=drains_advanced(state.drainage, event)[0])
    if isinstance(event, events.StateMeasured):
        return replace(state, fleet=state.fleet.with_measure(event.store, event.state_bytes))
    state = replace(
        state,
        fleet=_react(state.fleet, event, state.published),
        plan_barrier=_at_the_barrier(state.plan_barrier, event),
    )
    if isinstance(event, events.PlanInForce) and event.wanted:
        state = replace(state, version_in_force=event.version)
    return state


def _is_no_reason_for_a_plan(fleet: Fleet, event: events.Event) -> bool:
    """What only weighs in the next plan."""
    is_awaited = fleet.even_out_by_ms is not None
    return isinstance(event, events.StateMeasured) or (isinstance(event, events.CopiesSeen) and not is_awaited)


def next_deadline_ms(state: AgentState) -> float:
    """When `decide` wants to hear of the time, at the latest; infinity when nothing is pending."""
    fleet = state.fleet
    plan_barrier = state.plan_barrier.deadline_ms(fleet.executors, _barrier_timeout_ms(state))
    first_plans = [_first_plan_deadline_ms(fleet, query) for query in _waiting(fleet)]
    kept = waited_for(state.queue)
    rebinds = [rebind_deadline_ms(fleet, p) for id, p in fleet.processors.items() if id not in kept]
    settled_by_ms = None if _is_held_up(fleet) else fleet.settled_by_ms
    due = (fleet.regroup_at_ms, fleet.even_out_by_ms, settled_by_ms)
    regroup = [at_ms for at_ms in due if at_ms is not None]
    request = float("-inf") if may_advance(state.queue, fleet, _view(state, now_ms=0)) else float("inf")
    return min([*first_plans, *rebinds, *regroup, plan_barrier, request])


def _at_the_barrier(plan_barrier: PlanBarrier, event: events.Event) -> PlanBarrier:
    match event:
        case events.PlanPickedUp():
            return plan_barrier.picked_up(event.executor, event.version)
        case events.ExecutorLost():
            return plan_barrier.without(event.executor)
        case _:
            return plan_barrier


def _react(fleet: Fleet, event: events.Event, published: Rows) -> Fleet:
    match event:
        case events.ApplicationStarted():
            known = replace(fleet, application=event.application, attempt=event.attempt)
            return replace(known, locality_wait_ms=event.locality_wait_ms)
        case events.PlanInForce():
            version = max(fleet.model.version, event.version, event.offered)
            return replace(fleet, wanted_by_jvm=event.wanted, model=replace(fleet.model, version=version))
        case events.ExecutorRegistered():
            return _executor_registered(fleet, event)
        case events.ExecutorLost():
            return _executor_lost(fleet, event, published)
        case events.OffersWithheld():
            return replace(fleet, withheld=event.executors)
        case events.StoreOpened():
            return fleet.with_opening(event)
        case events.ExecutorRestarting():
            return replace(fleet, restarts={**fleet.restarts, event.request: event.executor})
        case events.RestartGivenUp():
            return keep_executor(fleet, event.request, event.executor, event.at_ms)
        case events.QueryPlanned():
            return fleet.with_query(_query(fleet, event))
        case events.QueryEnded():
            return _query_ended(fleet, event)
        case events.BatchBegan():
            return _batch_began(fleet, event)
        case events.QueryIdle():
            return _idle(fleet, event)
        case events.BatchEnded():
            return _batch_ended(fleet, event)
        case events.CopiesSeen():
            return _copies_seen(fleet, event)
        case _:  # the time, and what only the status page wants to know
            return fleet


def _executor_registered(fleet: Fleet, event: events.ExecutorRegistered) -> Fleet:
    executor = Executor(event.executor, event.location, event.cores, event.zone)
    known = fleet.with_executor(executor)
    if any(processor.executor == executor.id for processor in fleet.processors.values()):
        before = fleet.executors.get(executor.id)
        is_elsewhere = fleet.replication_factor > 1 and before is not None and before.zone != executor.zone
        return ask_for_regrouping(known, event.at_ms) if is_elsewhere else known
    return bind(known, executor, event.at_ms)


def _executor_lost(fleet: Fleet, event: events.ExecutorLost, published: Rows) -> Fleet:
    left = {id: executor for id, executor in fleet.executors.items() if id != event.executor}
    known = replace(fleet, executors=left, lending=fleet.lending.without_executor(event.executor))
    unbound = unbind(known, event.executor, event.at_ms)
    after = promote_standbys(unbound, published, event.at_ms)
    return without_gone_copies(with_failovers_counted(fleet, after, event.executor))


def _copies_seen(fleet: Fleet, event: events.CopiesSeen) -> Fleet:
    """Actives that wait for their copies are looked at again, unless a regrouping is to come anyway."""
    seen = with_seen_copies(fleet, event)
    is_awaited = seen.even_out_by_ms is not None and seen.regroup_at_ms is None
    return replace(seen, regroup_at_ms=event.at_ms) if is_awaited else seen


def _query(fleet: Fleet, event: events.QueryPlanned) -> Query:
    return Query(
        id=event.query,
        run=event.run,
        name=event.name,
        label=_label(fleet, event),
        checkpoint=event.checkpoint,
        partitions=event.partitions if fleet.has_host_affinity else {},
        planned_at_ms=event.at_ms,
        batch=event.batch - 1,
        has_rocksdb=event.provider == events.OUR_PROVIDER,
    )


def _label(fleet: Fleet, event: events.QueryPlanned) -> str:
    """The query's name, else the start of its id; two queries of one name are told apart by their ids."""
    label = event.name or event.query[:8]
    taken = any(query.label == label and query.id != event.query for query in fleet.queries.values())
    return f"{label}-{event.query[:8]}" if taken else label


def _query_ended(fleet: Fleet, event: events.QueryEnded) -> Fleet:
    query = fleet.queries.get(event.query)
    if query is None or query.run != event.run:  # a newer run of it is there already
        return fleet
    left = {id: running for id, running in fleet.queries.items() if id != event.query}
    known = replace(fleet, queries=left, lending=fleet.lending.without_query(event.query))
    return without_gone_copies(without_ended_queries(known))


def _batch_began(fleet: Fleet, event: events.BatchBegan) -> Fleet:
    query = fleet.queries.get(event.query)
    return fleet if query is None else fleet.with_query(replace(query, begun=event.batch, began_at_ms=event.at_ms))


def _idle(fleet: Fleet, event: events.QueryIdle) -> Fleet:
    query = fleet.queries.get(event.query)
    return fleet if query is None else fleet.with_query(replace(query, begun=query.batch))


def _batch_ended(fleet: Fleet, event: events.BatchEnded) -> Fleet:
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
    return _settled(fleet, event.at_ms) if fleet.settled_by_ms is not None and is_settled(fleet) else fleet


def _is_held_up(fleet: Fleet) -> bool:
    """Whether a batch that began before the last step's time was over still runs where the tasks were."""
    return fleet.settled_by_ms is not None and is_waiting_for_batches(fleet, fleet.settled_by_ms)


def _settled(fleet: Fleet, now_ms: int) -> Fleet:
    """The last step is over: the next one, if there is any, need not wait for it."""
    is_awaited = fleet.even_out_by_ms is not None and fleet.regroup_at_ms is None
    return replace(fleet, settled_by_ms=None, regroup_at_ms=now_ms if is_awaited else fleet.regroup_at_ms)


def _with_drained_hosts_emptied(before: Fleet, fleet: Fleet, now_ms: int) -> Fleet:
    """Ask for a plan when there is another place now for tasks that are at drained hosts."""
    is_asked = fleet.regroup_at_ms is not None or fleet.even_out_by_ms is not None
    if is_asked or not fleet.is_to_be_emptied or before.open_places == fleet.open_places:
        return fleet
    return ask_for_regrouping(fleet, now_ms)


def _regroup_when_due(fleet: Fleet, now_ms: int) -> tuple[Fleet, list[Order]]:
    """Group anew when the fleet changed and the debounce is over, and when the first plan of a query is due."""
    if fleet.settled_by_ms is not None and fleet.settled_by_ms <= now_ms and not _is_held_up(fleet):
        fleet = _settled(fleet, now_ms)
    released = [replace(query, is_released=True) for query in _waiting(fleet) if _may_be_released(fleet, query, now_ms)]
    is_due = any(at_ms is not None and at_ms <= now_ms for at_ms in (fleet.regroup_at_ms, fleet.even_out_by_ms))
    if not is_due and not released:
        return fleet, []
    for query in released:
        fleet = fleet.with_query(query)
    try:
        fleet, told = regrouped(fleet, now_ms)
        return fleet, [LogLine(message) for message in told]
    except InvalidGroupingError as refusal:
        # A plan that breaks a promise is not published: the tasks stay where they are.
        return without_regrouping(fleet), [LogLine(f"a plan was refused: {refusal}; the last one stays in force")]


def _waiting(fleet: Fleet) -> list[Query]:
    return [query for query in fleet.queries.values() if not query.is_released]


def _may_be_released(fleet: Fleet, query: Query, now_ms: int) -> bool:
    """A first plan waits for the processors of the last run and for those that are just joining, but not for ever."""
    if not any(processor.executor for processor in fleet.processors.values()):
        return False
    is_settled = fleet.regroup_at_ms is None and not any(
        p.is_awaited and p.executor is None for p in fleet.processors.values()
    )
    return is_settled or now_ms >= _first_plan_deadline_ms(fleet, query)


def _first_plan_deadline_ms(fleet: Fleet, query: Query) -> float:
    """A little before the JVM stops waiting for it."""
    return query.planned_at_ms + 0.8 * fleet.timing.first_plan_wait_ms


def _difference(state: AgentState, orders: list[Order], now_ms: int) -> tuple[AgentState, list[Order]]:
    state, orders = _through_the_barrier(state, orders, now_ms)
    fleet = state.fleet
    if fleet.model.version != state.saved_version and fleet.model.containers:
        orders = [*orders, SaveJobModel(fleet.model)]
        state = replace(state, saved_version=fleet.model.version)
    if fleet.task_locality is not state.saved_locality:
        changed = {
            task: place for task, place in fleet.task_locality.items() if state.saved_locality.get(task) != place
        }
        if changed:
            orders = [*orders, SaveTaskLocality(changed)]
        state = replace(state, saved_locality=fleet.task_locality)
    return state, orders


def _through_the_barrier(state: AgentState, orders: list[Order], now_ms: int) -> tuple[AgentState, list[Order]]:
    """Publish what differs: at once under the version that is in force, else when its barrier opens."""
    fleet, plan_barrier = state.fleet, state.plan_barrier
    version = fleet.model.version
    # The first plan of all goes through the barrier as well; before it there is none.
    if version == state.version_in_force or not fleet.model.containers or _has_no_plan_yet(state):
        return _published(state, orders)
    if plan_barrier.barrier is None or plan_barrier.barrier.version != version:
        if plan_barrier.barrier and plan_barrier.is_new:  # a newer version comes before it was in force
            orders = [*orders, SaveBarrier(plan_barrier.barrier.version, BarrierState.TIMED_OUT.value)]
        plan_barrier = plan_barrier.opened(version, fleet.executors, now_ms)
        orders = [*orders, OfferPlan(version), SaveBarrier(version, BarrierState.NEW.value)]
    plan_barrier = plan_barrier.judged(fleet.executors, now_ms, _barrier_timeout_ms(state))
    state = replace(state, plan_barrier=plan_barrier)
    if plan_barrier.is_new or plan_barrier.barrier is None:
        return state, orders
    orders = [*orders, SaveBarrier(version, plan_barrier.barrier.state.value)]
    if plan_barrier.barrier.state is BarrierState.DONE:
        return _published(replace(state, version_in_force=version), orders)
    silent = ", ".join(sorted(plan_barrier.given_up & fleet.executors.keys(), key=natural_order))
    message = f"executors {silent} did not take up placement version {version}: {version + 1} goes on without them"
    state = replace(state, fleet=replace(fleet, model=replace(fleet.model, version=version + 1)))
    return _through_the_barrier(state, [*orders, LogLine(message)], now_ms)


def _barrier_timeout_ms(state: AgentState) -> int:
    """Short while the first batch of a query waits for its plan: the plan must come before the JVM gives up."""
    timing = state.fleet.timing
    if all(query in state.published for query in state.fleet.queries):
        return timing.barrier_timeout_ms
    return min(timing.barrier_timeout_ms, int(0.15 * timing.first_plan_wait_ms))


def _has_no_plan_yet(state: AgentState) -> bool:
    return state.version_in_force < 0 and not plan_rows(state.fleet, state.published)


def _published(state: AgentState, orders: list[Order]) -> tuple[AgentState, list[Order]]:
    rows = plan_rows(state.fleet, state.published)
    copies = wanted_copies(state.fleet, rows)
    if rows == state.published and copies == state.published_copies:
        return state, orders
    publish = PublishPlan(state.fleet.model.version, rows, copies)
    return replace(state, published=rows, published_copies=copies), [*orders, publish]
