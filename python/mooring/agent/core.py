"""The decisions of the agent: from a state and one event to the next state and orders.

Pure: no clock, no input, no output. `mooring.agent.loop` passes the events in and carries the orders out. The steps are
in other files: `absorb` (what an event changes), `regrouping` (when a job model is due), `publishing` (what the JVM and
the store get), `requests` (requests of operators), and `drains`.
"""

from __future__ import annotations

from dataclasses import replace

from mooring.agent.absorb import absorb
from mooring.agent.agent_state import AgentState
from mooring.agent.drains.advance import advanced as drains_advanced
from mooring.agent.drains.advance import is_about_drains
from mooring.agent.planning.binding import drop_expired, rebind_deadline_ms, with_newcomers_bound
from mooring.agent.planning.lending import describe_loan_changes
from mooring.agent.planning.loss_messages import describe_loss
from mooring.agent.planning.wanted_hosts import describe_allocation
from mooring.agent.publishing import (
    barrier_timeout_ms,
    with_hosts_wanted,
    with_overrides_saved,
    with_plan_published,
)
from mooring.agent.regrouping import (
    first_plan_deadline_ms,
    regroup_when_due,
    regrouping_deadlines_ms,
    unreleased,
    with_regrouping_for_drained_hosts,
)
from mooring.agent.requests.inbox import handle
from mooring.agent.requests.phase import View
from mooring.agent.requests.restart import waited_for
from mooring.agent.requests.run import advanced, may_advance
from mooring.agent.state.fleet import Fleet
from mooring.model import events
from mooring.model.orders import LogLine, Order, by_rank

__all__ = ["absorb", "decide", "next_deadline_ms"]


def decide(state: AgentState, event: events.Event) -> tuple[AgentState, list[Order]]:
    """The state after one event, and the orders in which it results. They must be carried out in their order."""
    if is_about_drains(event):
        drainage, orders = drains_advanced(state.drainage, event)
        return replace(state, drainage=drainage), orders
    fleet_before, now_ms = state.fleet, event.at_ms
    state = absorb(state, event)
    if _only_informs_the_next_job_model(state.fleet, event):
        return state, []
    lost = [LogLine(line, is_warning=False) for line in describe_loss(fleet_before, event)]
    elsewhere = [LogLine(line) for line in describe_allocation(fleet_before, state.fleet)]
    state, planned = _plan_when_due(state, fleet_before, now_ms)
    state, requested = _advance_requests(state, event)
    state, published = with_plan_published(state, now_ms)
    state, finished = _finish_requests(state, now_ms)
    state, published_again = with_plan_published(state, now_ms)
    state = replace(state, fleet=with_regrouping_for_drained_hosts(fleet_before, state.fleet, now_ms))
    state, wanted = with_hosts_wanted(state)
    state, saved = with_overrides_saved(state)
    # The last answer to a request comes after the answer IN_PROGRESS, and after the request's outcome is saved.
    acts = [*lost, *elsewhere, *planned, *requested, *published, *published_again, *wanted, *saved]
    return state, [*by_rank(acts), *finished]


def next_deadline_ms(state: AgentState) -> float:
    """When `decide` must get a `ClockTicked` at the latest, in milliseconds since the epoch.

    Infinity while nothing waits for a time, minus infinity where a request can advance now. Times of requests are not
    in it: the loop ticks every second.
    """
    fleet = state.fleet
    barrier = state.plan_barrier.deadline_ms(fleet.executors, barrier_timeout_ms(state))
    first_plans = [first_plan_deadline_ms(fleet, query) for query in unreleased(fleet)]
    awaited = waited_for(state.queue)
    rebinds = [rebind_deadline_ms(fleet, processor) for id, processor in fleet.processors.items() if id not in awaited]
    # With the time 0 no time of a request is over.
    request = float("-inf") if may_advance(state.queue, fleet, _view(state, now_ms=0)) else float("inf")
    return min([*first_plans, *rebinds, *regrouping_deadlines_ms(fleet), barrier, request])


def _only_informs_the_next_job_model(fleet: Fleet, event: events.Event) -> bool:
    """Whether the event only changes the next job model: a size, or copies for which no job model waits.

    Requests see such a change at the next ClockTicked.
    """
    match event:
        case events.StateMeasured():
            return True
        case events.CopiesSeen():
            return fleet.timers.even_out_by_ms is None
        case _:
            return False


def _plan_when_due(state: AgentState, fleet_before: Fleet, now_ms: int) -> tuple[AgentState, list[Order]]:
    """Drop processors whose executor did not come back in time, and make the next job model when it is due."""
    restarting = waited_for(state.queue)
    fleet = with_newcomers_bound(drop_expired(state.fleet, now_ms, restarting), now_ms, restarting)
    fleet, warnings = regroup_when_due(fleet, now_ms)
    loan_changes = [LogLine(line) for line in describe_loan_changes(fleet_before, fleet)]
    return replace(state, fleet=fleet), [*warnings, *loan_changes]


def _advance_requests(state: AgentState, event: events.Event) -> tuple[AgentState, list[Order]]:
    """Accept or refuse new requests, and advance each request as far as it can without a new plan in force."""
    queue, answers = handle(state.queue, state.fleet, event)
    queue, fleet, steps = advanced(queue, state.fleet, _view(state, event.at_ms))
    return replace(state, fleet=fleet, queue=queue), [*answers, *steps]


def _finish_requests(state: AgentState, now_ms: int) -> tuple[AgentState, list[Order]]:
    """Advance requests that waited for the plan that was just published. This step makes no job model."""
    queue, fleet, orders = advanced(state.queue, state.fleet, _view(state, now_ms), may_make_job_model=False)
    return replace(state, fleet=fleet, queue=queue), orders


def _view(state: AgentState, now_ms: int) -> View:
    return View(now_ms, state.version_in_force, state.published_copies, state.rows_in_jvm)
