"""When the agent makes a new job model: after changes of the fleet, and for the first plan of a query. Pure.

`mooring.agent.planning` makes the job model itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mooring.agent.planning.accepted_job_model import without_regrouping
from mooring.agent.planning.binding import ask_for_regrouping
from mooring.agent.planning.moves_in_steps import is_waiting_for_batches
from mooring.agent.planning.next_job_model import regrouped
from mooring.agent.state.fleet import Fleet, Query
from mooring.errors import InvalidGroupingError
from mooring.model.orders import LogLine, Order

FIRST_PLAN_SHARE: Final = 0.8
"""The part of the time for which the JVM waits for a query's first plan, after which the plan is made in any case. The
rest is for the barrier and for the way to the JVM."""


def is_step_waiting_for_batches(fleet: Fleet) -> bool:
    """Whether the last step of moves waits beyond its time, for batches that began before that time was over."""
    since_ms = fleet.timers.new_batches_ignored_after_ms
    return since_ms is not None and is_waiting_for_batches(fleet, since_ms)


def with_step_settled(fleet: Fleet, now_ms: int) -> Fleet:
    """With the last step of moves over. When a next step is due later, it may come at once."""
    timers = replace(fleet.timers, new_batches_ignored_after_ms=None)
    if timers.even_out_by_ms is not None and timers.regroup_at_ms is None:
        timers = replace(timers, regroup_at_ms=now_ms)
    return replace(fleet, timers=timers)


def with_regrouping_for_drained_hosts(before: Fleet, fleet: Fleet, now_ms: int) -> Fleet:
    """With a regrouping due when tasks are to leave drained hosts, and the open locations differ from those `before`.

    No task moves yet.
    """
    is_asked = fleet.timers.regroup_at_ms is not None or fleet.timers.even_out_by_ms is not None
    if is_asked or not fleet.is_to_be_emptied or before.open_locations == fleet.open_locations:
        return fleet
    return ask_for_regrouping(fleet, now_ms)


def regroup_when_due(fleet: Fleet, now_ms: int) -> tuple[Fleet, list[Order]]:
    """The fleet with a new job model, if one is due, and warnings for the user's log.

    One is due when the fleet has changed and the debounce time is over, when the next step of moves may start, and
    when a query may have its first plan. A job model that breaks a promise of the grouper is refused: the tasks then
    stay where they are.
    """
    timers = fleet.timers
    is_time_over = timers.new_batches_ignored_after_ms is not None and timers.new_batches_ignored_after_ms <= now_ms
    if is_time_over and not is_step_waiting_for_batches(fleet):
        fleet = with_step_settled(fleet, now_ms)
    released = [query for query in unreleased(fleet) if _may_be_released(fleet, query, now_ms)]
    due_times = (fleet.timers.regroup_at_ms, fleet.timers.even_out_by_ms)
    is_due = any(at_ms is not None and at_ms <= now_ms for at_ms in due_times)
    if not is_due and not released:
        return fleet, []
    for query in released:
        fleet = fleet.with_query(replace(query, is_released=True))
    try:
        fleet, warnings = regrouped(fleet, now_ms)
        return fleet, [LogLine(warning) for warning in warnings]
    except InvalidGroupingError as refusal:
        return without_regrouping(fleet), [LogLine(f"a plan was refused: {refusal}; the last one stays in force")]


def unreleased(fleet: Fleet) -> list[Query]:
    """The queries whose first batch waits for its plan."""
    return [query for query in fleet.queries.values() if not query.is_released]


def _may_be_released(fleet: Fleet, query: Query, now_ms: int) -> bool:
    """Whether a query may have its first plan.

    The plan waits until executors that have just joined are grouped. It waits until each processor of the last run has
    an executor again, or no further executor can come. It waits at most until its deadline, and always for a first
    executor.
    """
    if not any(processor.executor for processor in fleet.processors.values()):
        return False
    awaits_last_run = not fleet.has_all_executors and any(
        p.is_awaited and p.executor is None for p in fleet.processors.values()
    )
    return (fleet.timers.regroup_at_ms is None and not awaits_last_run) or now_ms >= first_plan_deadline_ms(
        fleet, query
    )


def first_plan_deadline_ms(fleet: Fleet, query: Query) -> float:
    """The time by which a query has its first plan, in milliseconds since the epoch. The JVM waits a little longer."""
    return query.planned_at_ms + FIRST_PLAN_SHARE * fleet.timing.first_plan_wait_ms


def regrouping_deadlines_ms(fleet: Fleet) -> list[int]:
    """The times at which a job model may be due, or the last step of moves is over."""
    step_over_at_ms = None if is_step_waiting_for_batches(fleet) else fleet.timers.new_batches_ignored_after_ms
    deadlines = (fleet.timers.regroup_at_ms, fleet.timers.even_out_by_ms, step_over_at_ms)
    return [at_ms for at_ms in deadlines if at_ms is not None]
