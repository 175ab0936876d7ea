"""Moving a processor to another executor.

Pure. A move has three phases. RESERVING looks for an executor at the destination. WARMING_UP brings the state of the
processor's tasks there, while the tasks run on at the source. SWITCHING has the tasks run there from the next batch on.
The phase is over when a batch of each query has run there. A move that fails in SWITCHING goes back to the source.

An executor that is left without a processor gets a spare processor, which may hold copies. A spare processor gets
actives only when no other processor can have them. So the next job model does not undo the move. When a processor moves
to the executor of a spare processor, the spare processor goes to the executor that was left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from mooring.agent.planning.binding import ask_for_regrouping, unused_id
from mooring.agent.planning.copies import MOST_LAG_VERSIONS, is_copied_to, transfer_allowance_ms, trouble_at
from mooring.agent.planning.moves_in_steps import IDLE_MS
from mooring.agent.planning.next_job_model import replanned_in_place
from mooring.agent.planning.rows import loads_of
from mooring.agent.requests import already_there
from mooring.agent.requests.action import Action
from mooring.agent.requests.phase import Change, Outcome, PhaseHandler, RequestTimeouts, View, without_ongoing
from mooring.agent.requests.queue import RequestQueue
from mooring.agent.requests.validation import copies_by_location, refusal
from mooring.agent.state.fleet import Executor, Fleet, Processor
from mooring.agent.state.fleet_parts import ProcessorMove
from mooring.model import natural_order
from mooring.placement import ANY_HOST, STANDBY
from mooring.placement.lifecycle import Happening, Phase

TROUBLE_MS: Final = 60_000
"""How long a copy is tried every few seconds while the executor reports each time that the copy can not be made."""

CATCH_UP_MS: Final = 10_000
"""For this time the switch waits until all copies are caught up at once. After it, warm copies are enough."""


def begin_reserving(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    """RESERVING begins: nothing changes yet."""
    return Change(fleet, replace(action, source=outcome.source))


def _reserved(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    return reserved(fleet, action, view, partial(_executor_for, queue, fleet, action))


def reserved(fleet: Fleet, action: Action, view: View, find: Callable[[], Executor | None]) -> Outcome | None:
    """What has ended the search for an executor; `find` returns one that is at the destination now.

    A move that an earlier agent had begun is not refused: copies may be at its destination.
    """
    refused = None if action.saved_progress else refusal(fleet, action.request)
    if refused is not None:
        return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, refused)
    if already_there.is_done(fleet, action):
        return Outcome(Happening.IS_THERE, already_there.in_words(fleet, action))
    found = _executor_of_earlier_agent(fleet, action) or find()
    if found is not None:
        message = f"the state of its tasks is brought to executor {found.id} at {found.location}"
        return Outcome(Happening.EXECUTOR_FOUND, message, destination=found.id)
    expiry_ms = action.request.request_expiry_ms
    wait = view.timeouts.reserve_ms if expiry_ms is None else expiry_ms
    if view.now_ms >= action.since_ms + wait:
        where = action.request.destination_host
        what_helps = "have the cluster manager start one there, and ask again with a longer expiry: Mooring starts none"
        message = f"no executor was there for {where} within {wait} ms: nothing was changed; {what_helps}"
        for id in sorted(fleet.withheld.keys() & fleet.executors.keys(), key=natural_order):
            if fleet.executors[id].location == where:
                message = f"executor {id} on {where} gets no tasks: {fleet.withheld[id]}; nothing was changed"
        return Outcome(Happening.EXPIRED, message)
    return None


def _executor_of_earlier_agent(fleet: Fleet, action: Action) -> Executor | None:
    """The executor to which an earlier agent was moving the processor: it may be warm."""
    return fleet.executors.get(action.saved_progress.destination) if action.saved_progress else None


def begin_warming_up(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    """WARMING_UP begins: plans bring copies of the tasks to the executor."""
    action = replace(action, destination=outcome.destination)
    return Change(_with_move(fleet, action), action)


def _warmed_up(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    """What has ended the warm-up at the destination; None while it goes on."""
    id, destination = action.request.processor_id, fleet.executors.get(action.destination)
    untouched = "the source was not touched"
    if destination is None:
        return Outcome(Happening.DESTINATION_LOST, f"executor {action.destination} was lost: {untouched}")
    if destination.location in fleet.overrides.drained:
        message = f"host {destination.location} is drained meanwhile: {untouched}"
        return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, message)
    if fleet.processors[id].executor is None:
        if fleet.settings.replication_factor > 1 and next(tasks_of(fleet, id), None) is None:
            message = "the source was lost: its tasks run where their copies are"
            return Outcome(Happening.NOT_POSSIBLE_ANY_MORE, message)
        message = f"the source was lost: the tasks run on executor {destination.id} now"
        return Outcome(Happening.SOURCE_LOST, message)
    awaited = awaited_tasks(fleet, action, id, destination, view.now_ms)
    if not awaited:
        message = f"the tasks run on executor {destination.id} at {destination.location} now"
        return Outcome(Happening.WARM, message)
    return why_not_warm(fleet, action, id, destination, awaited, view, consequence=untouched)


def awaited_tasks(fleet: Fleet, action: Action, id: str, destination: Executor, now_ms: int) -> list[str]:
    """The tasks whose copy is waited for at the destination: first until it is caught up, later until it is warm."""
    may_lag = now_ms >= action.since_ms + CATCH_UP_MS
    return tasks_behind(fleet, id, destination, MOST_LAG_VERSIONS if may_lag else 0)


def why_not_warm(
    fleet: Fleet, action: Action, id: str, destination: Executor, awaited: list[str], view: View, consequence: str
) -> Outcome | None:
    """Why the copies of the `awaited` tasks of processor `id` are waited for no longer; None while they are.

    `consequence` is added to the operator's message.
    """
    here, waited_ms = _executors_at(fleet, destination), view.now_ms - action.since_ms
    for name, query, partition in tasks_of(fleet, id):
        trouble = trouble_at(fleet, query, partition, here, TROUBLE_MS) if name in awaited else ""
        if trouble and waited_ms >= TROUBLE_MS:  # before that it may be the trouble of an earlier request
            message = f"no copy of {name} can be made at {destination.location} ({trouble}): {consequence}"
            return Outcome(Happening.CAN_NOT_WARM_UP, message)
    if waited_ms >= view.timeouts.warm_up_ms:
        wait_ms = _warm_up_limit_ms(fleet, id, destination, view.timeouts)
        if waited_ms >= wait_ms:
            message = f"{len(awaited)} copies are not warm after {wait_ms} ms, for example that of {awaited[0]}"
            return Outcome(Happening.EXPIRED, f"{message}: {consequence}")
    return None


def _warm_up_limit_ms(fleet: Fleet, id: str, destination: Executor, timeouts: RequestTimeouts) -> int:
    """How long the copies of the processor's tasks are waited for: longer for larger ones."""
    return timeouts.warm_up_ms + transfer_allowance_ms(
        fleet, [(name, destination.id) for name, *_ in tasks_of(fleet, id)]
    )


def progress(fleet: Fleet, action: Action, now_ms: int) -> str:
    """The phase of a move, and how many tasks' copies are no longer waited for, in words."""
    destination = fleet.executors.get(action.destination)
    if action.phase is not Phase.WARMING_UP or destination is None:
        return action.phase.label
    id = fleet.base_of(action.request.processor_id)
    all_of_them = len(list(tasks_of(fleet, id)))
    awaited = len(awaited_tasks(fleet, action, id, destination, now_ms))
    count = f"{all_of_them - awaited} of {all_of_them}"
    return f"{action.phase.label}: {count} tasks' state is on executor {destination.id}"


def _switch(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    """SWITCHING begins: a job model has the processor on the executor of the destination."""
    if outcome.happening is Happening.WAS_SWITCHED and action.saved_progress is not None:
        action = replace(action, source=action.saved_progress.source, destination=action.saved_progress.destination)
        action = replace(action, version=fleet.model.version)
        return Change(_with_move(fleet, action, is_switched=True), action)
    carrier = fleet.processors[action.request.processor_id].executor
    # While the copies warmed up, the processor may have got another executor.
    action = action if carrier in (None, action.destination) else replace(action, source=str(carrier))
    fleet, warnings = _switched_now(fleet, action)
    return Change(fleet, replace(action, version=fleet.model.version), warnings=tuple(warnings))


def _switched(queue: RequestQueue, fleet: Fleet, action: Action, view: View) -> Outcome | None:
    """What has ended the switch; None while its batches are waited for."""
    id = action.request.processor_id
    processor = fleet.processors[id]
    if processor.executor != action.destination:
        is_lost = action.destination not in fleet.executors
        has_left = f"processor {id} has left executor {action.destination}"
        message = f"executor {action.destination} was lost" if is_lost else has_left
        return Outcome(Happening.DESTINATION_LOST, message)
    switch_ms = view.timeouts.switch_ms
    is_late = view.now_ms >= action.since_ms + switch_ms
    if fleet.queries and view.version_in_force < action.version:
        message = f"the plan was not in force after {switch_ms} ms"
        return Outcome(Happening.EXPIRED, message) if is_late else None
    waits = [query for query, has_run in _has_run_there(fleet, action, view.now_ms).items() if not has_run]
    if not waits:
        where = f"processor {id} is on executor {processor.executor} at {processor.location}"
        return Outcome(Happening.RAN_THERE, f"{where}{_how_it_opened(fleet, action)}")
    ran_elsewhere = [query for query in waits if _began_under_the_plan(fleet, action, query)]
    if is_late and ran_elsewhere:
        label = fleet.queries[ran_elsewhere[0]].label
        return Outcome(Happening.EXPIRED, f"a batch of {label} ran elsewhere still, {switch_ms} ms after the switch")
    return None


def _go_back(fleet: Fleet, action: Action, outcome: Outcome) -> Change:
    """SWITCHING has failed: a job model has the processor at the source, if the source lives."""
    fleet = without_ongoing(fleet, action)
    if outcome.happening is Happening.NOT_POSSIBLE_ANY_MORE:
        return Change(fleet, action)
    if action.source not in fleet.executors:
        return Change(fleet, action, note="the source is lost as well: its tasks run on any host")
    fleet, warnings = _carried_by(fleet, action.request.processor_id, fleet.executors[action.source])
    return Change(fleet, action, warnings=tuple(warnings), note=f"it is back on executor {action.source}")


def tasks_behind(fleet: Fleet, id: str, destination: Executor, most_lag: int) -> list[str]:
    """The processor's tasks without a copy at the destination that lags at most `most_lag` versions; natural order.

    There is none where the processor is at that location already: the executors of one host share files.
    """
    if destination.location == fleet.processors[id].location:
        return []
    here = _executors_at(fleet, destination)
    behind = [
        name
        for name, query, partition in tasks_of(fleet, id)
        if fleet.queries[query].has_rocksdb and not is_copied_to(fleet, query, partition, here, most_lag)
    ]
    return sorted(behind, key=natural_order)


def _executors_at(fleet: Fleet, destination: Executor) -> list[str]:
    """All executors of the location, which share their files."""
    return [executor.id for executor in fleet.executors.values() if executor.location == destination.location]


def _with_move(fleet: Fleet, action: Action, is_switched: bool = False) -> Fleet:
    """The fleet in which the tasks warm up at the destination, or run there where the move `is_switched`."""
    move = ProcessorMove(action.source, action.destination, is_switched)
    moves = {**fleet.ongoing.moves, action.request.processor_id: move}
    return replace(fleet, ongoing=replace(fleet.ongoing, moves=moves))


def _switched_now(fleet: Fleet, action: Action) -> tuple[Fleet, list[str]]:
    """The fleet with a job model that has the processor at the destination, and warnings for the user.

    A regrouping is asked for when the processor's tasks run at their copies now, and when the processor has no tasks:
    only a regrouping gives it tasks. InvalidGroupingError when the job model breaks a promise.
    """
    id = action.request.processor_id
    runs_at_copies = fleet.settings.replication_factor > 1 and fleet.processors[id].executor is None
    has_no_tasks = next(tasks_of(fleet, id), None) is None
    fleet = _with_move(fleet, action, is_switched=True)
    switched, warnings = _carried_by(fleet, id, fleet.executors[action.destination])
    return (ask_for_regrouping(switched, action.since_ms) if runs_at_copies or has_no_tasks else switched), warnings


def _carried_by(fleet: Fleet, id: str, executor: Executor) -> tuple[Fleet, list[str]]:
    """The fleet with the processor on this executor, and the warnings of the new job model.

    A spare processor that was on this executor goes to the executor that the processor leaves. Where there was no spare
    processor, a new one is made for the executor that is left empty.
    """
    before = fleet.processors[id]
    spares = [
        p for p in fleet.processors.values() if p.executor == executor.id and p.id != id and fleet.is_empty_spare(p.id)
    ]
    replaced = {id, *(spare.id for spare in spares)}
    kept = {other: processor for other, processor in fleet.processors.items() if other not in replaced}
    fleet = replace(fleet, processors={**kept, id: Processor(id, executor.location, executor.id)})
    vacated = fleet.executors.get(before.executor or "")
    if vacated is not None and vacated.id not in fleet.executor_of.values():
        spare = spares[0].id if spares else unused_id(fleet)
        fleet = fleet.with_processor(Processor(spare, vacated.location, vacated.id, is_spare=True))
    return replanned_in_place(fleet.without_overrides_of_lost_processors())


def _executor_for(queue: RequestQueue, fleet: Fleet, action: Action) -> Executor | None:
    """The executor at the destination with the fewest tasks, counting those on their way there; None without one."""
    id, destination = action.request.processor_id, action.request.destination_host
    copies = copies_by_location(fleet, id)
    if destination == STANDBY:
        copies = {location: tasks for location, tasks in copies.items() if location not in fleet.overrides.drained}
        most = max((len(tasks) for tasks in copies.values()), default=0)
        allowed = {location for location, tasks in copies.items() if len(tasks) == most}
    elif destination == ANY_HOST:
        allowed = {executor.location for executor in fleet.executors.values()} - copies.keys()
    else:
        allowed = {destination}
    ending = {*queue.being_restarted, *fleet.ongoing.restarts.values()}
    excluded = ending | {fleet.processors[id].executor} | fleet.withheld.keys()
    allowed -= fleet.overrides.drained
    able = [e for e in fleet.executors.values() if e.location in allowed and e.id not in excluded]
    loads = _loads(queue, fleet)
    here = fleet.processors[id].location
    return min(
        able,
        key=lambda executor: (executor.location == here, loads[executor.id], natural_order(executor.id)),
        default=None,
    )


def _loads(queue: RequestQueue, fleet: Fleet) -> dict[str, int]:
    """Executor to the number of its tasks and of those that are on their way to it."""
    loads = loads_of(fleet)
    for action in queue.actions:
        if action.phase is Phase.WARMING_UP and action.destination in loads:
            container = fleet.model.containers.get(action.request.processor_id)
            loads[action.destination] += len(container.actives) if container else 0
    return loads


def tasks_of(fleet: Fleet, id: str) -> Iterator[tuple[str, str, int]]:
    """The processor's tasks of queries that run: task name, query id, partition."""
    by_label = {query.label: query for query in fleet.queries.values() if query.is_released}
    container = fleet.model.containers.get(id)
    for name, task in container.actives.items() if container else ():
        query, partition = by_label.get(name.rpartition("/")[0]), task.changelog_partition
        if query is not None and partition < query.task_count and query.task_name(partition) == name:
            yield name, query.id, partition


def _how_it_opened(fleet: Fleet, action: Action) -> str:
    """How many tasks opened local files at the destination, and how much was fetched, as far as that is known."""
    id = action.request.processor_id
    by_task = fleet.ongoing.moves[id].fetched_to_open
    tasks = [(fleet.queries[query].checkpoint.rstrip("/"), partition) for _, query, partition in tasks_of(fleet, id)]
    fetched = [by_task[task] for task in tasks if task in by_task]
    if not fetched:
        return ""
    local = f"{fetched.count(0)} of {len(fetched)} tasks opened files that were on the host already"
    return f"; {local}, {sum(fetched)} bytes were fetched" if any(fetched) else f"; {local}"


def _has_run_there(fleet: Fleet, action: Action, now_ms: int) -> dict[str, bool]:
    """Query id to whether its last batch ran all tasks of the processor there, or the query is idle.

    Only queries with tasks of the processor are in the result.
    """
    there: dict[str, bool] = {}
    for _, id, partition in tasks_of(fleet, action.request.processor_id):
        query = fleet.queries[id]
        waited_ms = now_ms - max(action.since_ms, query.ran_at_ms)
        is_idle = waited_ms >= IDLE_MS + 2 * query.batch_ms and not _began_under_the_plan(fleet, action, id)
        is_idle = is_idle and not query.is_in_a_batch
        ran_there = query.ran_at_ms >= action.since_ms and not query.ran_elsewhere(partition, action.destination)
        there[id] = there.get(id, True) and (is_idle or ran_there)
    return there


def _began_under_the_plan(fleet: Fleet, action: Action, query: str) -> bool:
    """Whether the query's last batch began when the plan was in force for sure.

    A batch that ran while the plan came into force says nothing about the plan.
    """
    last = fleet.queries[query]
    return last.ran_at_ms - last.batch_ms > action.since_ms + 2 * fleet.timing.barrier_timeout_ms


RESERVING: Final = PhaseHandler(_reserved, enter=begin_reserving)
WARMING_UP: Final = PhaseHandler(_warmed_up, enter=begin_warming_up)
SWITCHING: Final = PhaseHandler(_switched, enter=_switch, fail=_go_back)
